// One session: incumbent and candidate, each freshly started on a measurement, interleaved over all problems in quads.
// The same code for every backend.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/measurement_backend.h"
#include "measure/quads.h"
#include "record/measurement.h"
#include "ridge/result.h"
#include "stats/session.h"

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
};

// Says where we are: problem index and count.
using SessionProgress = std::function<void(std::size_t, std::size_t)>;

SessionResult run_session(MeasurementBackend& measurement, const record::Protocol& protocol, const Subject& incumbent,
                          const Subject& candidate, const ops::Operator& op, const std::vector<ops::Problem>& problems,
                          const SessionOptions& options, const SessionProgress& progress = {});

// What a session on an undisturbed machine shows at most, under a protocol.
std::vector<stats::GuardLimit> guard_limits(const record::Protocol& protocol);

// The session as numbers: log ratios incumbent time / candidate time of every shape, and their mean.
Result<stats::SessionStatistic> statistic(const record::Session& session);

// All launches of one arm of one shape, in seconds.
std::vector<double> latencies(const record::ShapeSamples& shape, measure::Arm arm);

}  // namespace ridge::evaluate
