// `command:CMD`: any program is a proposer. It reads one JSON request from standard input, writes one JSON answer to
// standard output and exits with 0; docs/proposers.md is its manual. It is started anew for every round.
#include <algorithm>

#include "base/error.h"
#include "base/process.h"
#include "propose/answer.h"
#include "propose/proposers.h"
#include "record/json.h"

namespace ridge::propose {
namespace {

// The end of what the program wrote, on one line, for an error message.
std::string tail(std::string text) {
  constexpr std::size_t kMost = 400;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.size() > kMost) text = "..." + text.substr(text.size() - kMost);
  std::ranges::replace(text, '\n', '|');
  return text.empty() ? "nothing" : "\"" + text + "\"";
}

class Agent final : public Proposer {
 public:
  Agent(std::string command, ProposerOptions options) : command_(std::move(command)), options_(options) {}

  [[nodiscard]] std::string name() const override { return "command:" + command_; }

  Result<record::Proposal> propose(const record::ProposalRequest& request) override {
    Result<record::Proposal> proposal = ask(request);
    if (!proposal) return in_context(name(), proposal.error());
    return proposal;
  }

 private:
  Result<record::Proposal> ask(const record::ProposalRequest& request) {
    ProcessSpec spec;
    spec.argv = {"/bin/sh", "-c", command_};
    spec.standard_input = record::to_line(request) + "\n";
    spec.timeout = options_.time_limit;
    spec.memory_limit_bytes = options_.memory_limit_bytes;
    spec.output_limit_bytes = options_.output_limit_bytes + 1;
    if (!options_.hidden.empty()) {
      spec.confinement = Confinement{.root = Confinement::Root::kWhole, .hidden = options_.hidden, .network = true};
    }
    spec.every_descendant = true;
    RIDGE_TRY(result, run_process(spec));
    if (result.end == ProcessResult::End::kTimedOut) {
      return with_hint(make_error(ErrorCode::kTimeout, "no answer within {} s; it was killed", options_.time_limit),
                       "the program must exit after its answer");
    }
    if (!result.succeeded()) {
      return make_error(ErrorCode::kToolFailed, "{}; its standard error ends with {}", result.describe(),
                        tail(result.error_output));
    }
    if (result.output.size() > options_.output_limit_bytes) {
      return make_error(ErrorCode::kToolFailed, "the answer is larger than {} bytes", options_.output_limit_bytes);
    }
    Result<record::AgentAnswer> answer = record::parse_record<record::AgentAnswer>(result.output, "answer");
    if (!answer) {
      return make_error(ErrorCode::kToolFailed, "{}; its standard output ends with {}", answer.error().message,
                        tail(result.output));
    }
    return to_proposal(request, *answer);
  }

  std::string command_;
  ProposerOptions options_;
};

}  // namespace

Result<std::unique_ptr<Proposer>> make_agent(std::string_view argument, const ProposerOptions& options) {
  return std::unique_ptr<Proposer>(std::make_unique<Agent>(std::string(argument), options));
}

}  // namespace ridge::propose
