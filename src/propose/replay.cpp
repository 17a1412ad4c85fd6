// `replay:JOURNAL`: proposes again what a recorded campaign proposed, round by round, so that gates and decisions can
// be run over the same candidates. What the record says about their speed plays no part.
#include <map>

#include "base/error.h"
#include "propose/proposers.h"
#include "record/journal.h"
#include "record/json.h"

namespace ridge::propose {
namespace {

class Replay final : public Proposer {
 public:
  Replay(std::string path, std::string op, std::map<std::int64_t, record::Proposal> rounds)
      : path_(std::move(path)), op_(std::move(op)), rounds_(std::move(rounds)) {}

  [[nodiscard]] std::string name() const override { return "replay:" + path_; }

  Result<record::Proposal> propose(const record::ProposalRequest& request) override {
    if (op_ != request.spec.op) {
      return with_hint(invalid("{} is a campaign for {}, this one is for {}", path_, op_, request.spec.op),
                       "replay a journal of the same operator");
    }
    record::Proposal proposal;
    const auto found = rounds_.find(request.round);
    if (found == rounds_.end()) {
      proposal.exhausted = true;
      proposal.reason =
          fmt::format("{} holds proposals for {} rounds, none for round {}", path_, rounds_.size(), request.round);
      return proposal;
    }
    proposal = found->second;
    for (record::Candidate& candidate : proposal.candidates) candidate.parent = request.incumbent.id();
    return proposal;
  }

 private:
  std::string path_, op_;
  std::map<std::int64_t, record::Proposal> rounds_;
};

}  // namespace

Result<std::unique_ptr<Proposer>> make_replay(std::string_view argument, const ProposerOptions&) {
  const std::string path(argument);
  Result<record::JournalText> journal = record::read_journal(path);
  if (!journal) return in_context("replay:" + path, journal.error());
  std::string op;
  std::map<std::int64_t, record::Proposal> rounds;
  for (const record::Event& event : journal->events) {
    if (event.kind == record::EventKind::kCreated) {
      RIDGE_TRY(created, record::from_json<record::Created>(event.payload, "created"));
      op = created.spec.op;
    } else if (event.kind == record::EventKind::kProposed) {
      RIDGE_TRY(proposed, record::from_json<record::Proposed>(event.payload, "proposed"));
      const bool counts = proposed.refused.empty() && !proposed.proposal.exhausted;
      if (counts) rounds[proposed.round] = std::move(proposed.proposal);  // the last of a round is what it came to
    }
  }
  if (rounds.empty()) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} holds no proposal", path),
                     "name the journal.jsonl of a campaign that got as far as its first round");
  }
  return std::unique_ptr<Proposer>(std::make_unique<Replay>(path, op, std::move(rounds)));
}

}  // namespace ridge::propose
