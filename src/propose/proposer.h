// Proposer: decides what to try next. It sees records only and answers with one hypothesis; search, a recorded journal
// and any external program share this interface, the same gates and the same budget, and none of them can set a
// verdict.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "record/campaign.h"
#include "ridge/result.h"

namespace ridge::propose {

class Proposer {
 public:
  virtual ~Proposer() = default;
  // As in the campaign's record: "search", "search:7", "replay:DIR/journal.jsonl", "command:./agent.py".
  [[nodiscard]] virtual std::string name() const = 0;
  // One hypothesis with at least one candidate, or `exhausted` with the reason. An error is a failure of the proposer
  // (it crashed, answered nonsense), not of a candidate; the engine may ask again with `last_error` set.
  virtual Result<record::Proposal> propose(const record::ProposalRequest& request) = 0;
  // What must come from elsewhere before it can be asked: the campaign pauses for it. Empty: ask.
  [[nodiscard]] virtual std::string waits_for() const { return {}; }
};

struct ProposerOptions {
  double time_limit = 300.0;                  // seconds an external program may take for one answer
  std::size_t output_limit_bytes = 8u << 20;  // of its answer; more is refused
  std::uint64_t memory_limit_bytes = 0;       // address space of an external program; 0 = no limit
  // Folders and files that an external program must not see: the campaign, the cache, keys. Where the machine has no
  // name spaces it sees them.
  std::vector<std::filesystem::path> hidden;
};

// One row of the table of proposers, for `ridge list` and for messages.
struct ProposerInfo {
  std::string_view name;      // "search"
  std::string_view argument;  // what follows the colon, "JOURNAL", or may follow it: "[SEED]"; empty: nothing does
  std::string_view summary;
};
std::vector<ProposerInfo> list_proposers();

// "replay:JOURNAL", "search[:SEED]".
std::string proposer_usage(const ProposerInfo& info);

// From `--proposer SPEC`: search[:SEED] | replay:JOURNAL | command:CMD | manual. An unknown name lists the known ones.
Result<std::unique_ptr<Proposer>> make_proposer(std::string_view spec, const ProposerOptions& options = {});

}  // namespace ridge::propose
