// What earlier rounds teach: which directions are spent, which configurations were seen, what failed last and why.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "propose/space.h"
#include "record/campaign.h"

namespace ridge::propose {

struct Past {
  std::set<Config> seen;  // configurations of the incumbent's source that were built, measured or looked at
  // By mechanism: the round of its last attempt, and what it came to. What was not measured is no attempt.
  struct Attempt {
    std::int64_t round = 0;
    record::RoundState state = record::RoundState::kUnfinished;
    double ratio = 1;
  };
  std::map<std::string, Attempt> attempts;
  std::int64_t last_accepted_round = 0;                 // 0: none
  std::int64_t consecutive_rollbacks = 0;               // at the end of the history
  std::set<std::string> refuted;                        // candidates that the memory says were measured and rolled back
  std::set<std::string> recent_categories;              // of those rollbacks, at most the last three
  const record::RoundSummary* last_rollback = nullptr;  // inside the request

  [[nodiscard]] bool spent(const std::string& mechanism) const;
  // A direction that was accepted may be tuned again once another one was accepted after it.
  [[nodiscard]] bool may_retune(const std::string& mechanism) const;
  [[nodiscard]] bool tried(const std::string& mechanism) const { return attempts.contains(mechanism); }
};

Past digest_history(const Space& space, const record::ProposalRequest& request);

}  // namespace ridge::propose
