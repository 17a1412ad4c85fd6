// What earlier rounds teach: which directions are spent, which configurations were seen, what failed last and why.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "propose/space.h"
#include "record/campaign.h"

namespace ridge::propose {

// A configuration that was built and run, by what it came to.
struct Look {
  Config config;
  std::optional<double> time;  // in units of the roofline bound; nothing: it failed by its own fault
};

struct Past {
  std::set<Config> seen;    // configurations of the incumbent's source that were built, measured or looked at
  std::vector<Look> looks;  // of the same, each once, with the incumbent; oldest first
  double time = 0;          // of the incumbent, as in a look; 0: not measured
  // By mechanism: the round of its last attempt, and what it came to. What was not measured is no attempt.
  struct Attempt {
    std::int64_t round = 0;
    record::RoundState state = record::RoundState::kUnfinished;
    double ratio = 1;
  };
  std::map<std::string, Attempt> attempts;
  std::int64_t last_accepted_round = 0;    // 0: none
  std::int64_t consecutive_rollbacks = 0;  // at the end of the history
  std::set<std::string> refuted;           // candidates that the memory says were measured and rolled back
  // By category: rounds that were measured, and the sum of the shares of their expected gain that came, each 0 to 1.
  struct Promises {
    double rounds = 0, kept = 0;
  };
  std::map<std::string, Promises> promises;
  const record::RoundSummary* last_rollback = nullptr;  // inside the request

  [[nodiscard]] bool spent(const std::string& mechanism) const;
  // A direction that was accepted may be tuned again once another one was accepted after it.
  [[nodiscard]] bool may_retune(const std::string& mechanism) const;
  // The share of an expected gain that is believed to come: 1 before there were rounds of the category, which counts as
  // one round that kept its promise.
  [[nodiscard]] double trust_in(const std::string& category) const;
  [[nodiscard]] bool tried(const std::string& mechanism) const { return attempts.contains(mechanism); }
};

// The share of its roofline bound that the incumbent attains, the geometric mean over shapes; 0: not measured.
double attained_fraction(const record::ProposalRequest& request);

Past digest_history(const Space& space, const record::ProposalRequest& request);

}  // namespace ridge::propose
