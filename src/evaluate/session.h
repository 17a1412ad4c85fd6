// One session: two fresh processes, incumbent and candidate, interleaved over all problems in quads.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/station.h"
#include "measure/quads.h"
#include "record/measurement.h"
#include "ridge/result.h"

namespace ridge::evaluate {

struct SessionOptions {
  std::int64_t index = 0;
  std::string role = "confirm";
  std::int64_t quads = 1, launches = 3;
  bool full_first_check = true;  // the candidate's first call of every problem is compared element by element
};

// Which arm failed, on which problem.
struct ArmFailure {
  measure::Arm arm = measure::Arm::kCandidate;
  std::string label;
  Failure failure;
};

struct SessionResult {
  record::Session session;
  std::optional<ArmFailure> failure;       // the session then ended early
  std::vector<Verification> verification;  // of the candidate, per problem
  std::uint32_t sandbox = 0;               // of the candidate's process
};

// Says where we are: problem index and count.
using SessionProgress = std::function<void(std::size_t, std::size_t)>;

SessionResult run_session(const Subject& incumbent, const Subject& candidate, const ops::Operator& op,
                          const std::vector<ops::Problem>& problems, const Harness& harness,
                          const SessionOptions& options, const SessionProgress& progress = {});

// The session as one number: log of the geometric mean over shapes of incumbent time / candidate time.
Result<double> log_ratio(const record::Session& session);

// All launches of one arm of one shape, in seconds.
std::vector<double> latencies(const record::ShapeSamples& shape, measure::Arm arm);

}  // namespace ridge::evaluate
