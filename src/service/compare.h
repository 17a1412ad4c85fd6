// Is one kernel source faster than another, with an answer one may rely on?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/campaign.h"
#include "record/worker.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct CompareRequest {
  std::string op, incumbent, candidate;  // the files of the two sources
  std::vector<std::string> words;        // shapes that count together; empty: the operator's own
  std::vector<std::string> defines;      // NAME=VALUE of both
  std::string budget;                    // "2m": stop undecided after that; empty: none
  std::int64_t threads = 1;
  std::int64_t planned = 1;  // how many comparisons share the 5 % chance of any false answer
  double min_effect = 0.01;  // smallest gain that counts
  bool quick_look = false;   // three sessions and an estimate, without control of errors: never an accept
};
Result<record::Comparison> compare_sources(const Context& context, const CompareRequest& request);

// The same of candidates; `request` has cases, protocol and ceilings.
Result<record::Comparison> compare_candidates(const Context& context, const record::Candidate& incumbent,
                                              const record::Candidate& candidate, record::WorkerRequest request);

}  // namespace ridge::service
