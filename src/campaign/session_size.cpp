#include "campaign/session_size.h"

#include <algorithm>

#include "stats/summary.h"

namespace ridge::campaign {
namespace {

constexpr double kUntimed = 2.0;         // launches of each session that are verified but not timed
constexpr double kLeastOverhead = 0.05;  // seconds
constexpr double kWorkerSeconds = 0.5;   // starting a worker, opening its device and reading its answer
constexpr double kLeastLaunchFactor = 1.0;
constexpr std::int64_t kFewestFinals = 3, kMostFinals = 8;
constexpr double kFinalSeconds = 120.0;  // without a wall budget
constexpr double kFinalShare = 0.15;     // of the wall budget
constexpr std::int64_t kQuickQuads = 2;  // a quick look has no more in a session

double launches_of(std::int64_t quads, std::int64_t launches) {
  return static_cast<double>(4 * quads * launches) + kUntimed;
}

}  // namespace

SessionSize fit_sessions(double launch, double allowed, std::int64_t fewest, std::int64_t most,
                         const record::Protocol& protocol, const SessionCost& cost) {
  const auto seconds = [&](std::int64_t sessions, std::int64_t quads, std::int64_t launches) {
    const double one = cost.overhead + cost.launch_factor * launch * launches_of(quads, launches);
    return cost.fixed + static_cast<double>(sessions) * one;
  };
  SessionSize size{1, 1, fewest, 0};
  while (size.sessions < most && seconds(size.sessions + 1, 1, 1) <= allowed) ++size.sessions;
  while (size.launches < std::min<std::int64_t>(3, protocol.max_launches) &&
         seconds(size.sessions, 1, size.launches + 1) <= allowed) {
    ++size.launches;
  }
  while (size.quads < protocol.max_quads && seconds(size.sessions, size.quads + 1, size.launches) <= allowed) {
    ++size.quads;
  }
  size.seconds = seconds(size.sessions, size.quads, size.launches);
  return size;
}

SessionCost cost_of_look(const record::Evaluation& look) {
  SessionCost cost;
  const auto spent = [&](const char* what) {
    const auto found = look.seconds.find(what);
    return found == look.seconds.end() ? 0.0 : found->second;
  };
  if (spent("measure") <= 0) return cost;
  cost.fixed = spent("build") + spent("check") + kWorkerSeconds;
  cost.overhead = std::max(kLeastOverhead,
                           spent("measure") - cost.launch_factor * launch_seconds(look.roofline) * launches_of(1, 1));
  return cost;
}

SessionCost measured_cost(const record::Baseline& baseline) {
  const double launch = launch_seconds(baseline.evaluation.roofline);
  std::vector<double> walls;
  record::Evaluation look = baseline.evaluation;
  for (const record::Session& session : baseline.evaluation.sessions) {
    const auto wall = session.guards.find("wall");
    if (wall == session.guards.end() || session.role != "calibrate") continue;
    walls.push_back(wall->second);
    look.seconds["measure"] -= wall->second;  // what is left is the first short look at the baseline
  }
  SessionCost cost = cost_of_look(look);
  if (walls.empty() || launch <= 0) return cost;
  const double wall = stats::median(walls);
  const double work = launches_of(baseline.calibration.quads, baseline.calibration.launches);
  const double more = work - launches_of(1, 1);
  const double look_wall = look.seconds["measure"];
  // Two sizes of sessions were measured, so overhead and launches can be told apart.
  if (more > 0 && look_wall > 0) {
    cost.launch_factor = std::max(kLeastLaunchFactor, (wall - look_wall) / (more * launch));
  }
  cost.overhead = std::max(kLeastOverhead, wall - cost.launch_factor * launch * work);
  return cost;
}

double seconds_of_final(const State& state) {
  return state.wall_budget > 0 ? kFinalShare * state.wall_budget : kFinalSeconds;
}

// The mean of a fast and a slow launch is about half of the slow one.
SessionSize size_of_final(const State& state, double allowed) {
  if (!state.baseline) return {};
  const double slow = launch_seconds(state.baseline->evaluation.roofline);
  const double both = (slow + launch_seconds(state.incumbent.roofline)) / 2;
  record::Protocol protocol = state.spec().protocol;
  protocol.max_quads = std::min(protocol.max_quads, kQuickQuads);
  return fit_sessions(both, allowed, kFewestFinals, kMostFinals, protocol, measured_cost(*state.baseline));
}

}  // namespace ridge::campaign
