#include "campaign/session_size.h"

#include <algorithm>

namespace ridge::campaign {
namespace {

constexpr double kSessionOverhead = 0.3;  // seconds: two fresh processes, buffers, guards
constexpr double kLaunchFactor = 1.6;     // fresh inputs and the verification of every launch
constexpr double kUntimed = 2.0;          // launches of each session that are verified but not timed

double session_seconds(double launch, std::int64_t quads, std::int64_t launches) {
  return kSessionOverhead + kLaunchFactor * launch * (static_cast<double>(4 * quads * launches) + kUntimed);
}

}  // namespace

SessionSize fit_sessions(double launch, double allowed, std::int64_t fewest, std::int64_t most,
                         const record::Protocol& protocol) {
  const auto cost = [&](std::int64_t sessions, std::int64_t quads, std::int64_t launches) {
    return static_cast<double>(sessions) * session_seconds(launch, quads, launches);
  };
  SessionSize size{1, 1, fewest, 0};
  while (size.sessions < most && cost(size.sessions + 1, 1, 1) <= allowed) ++size.sessions;
  while (size.launches < std::min<std::int64_t>(3, protocol.max_launches) &&
         cost(size.sessions, 1, size.launches + 1) <= allowed) {
    ++size.launches;
  }
  while (size.quads < protocol.max_quads && cost(size.sessions, size.quads + 1, size.launches) <= allowed) ++size.quads;
  size.seconds = cost(size.sessions, size.quads, size.launches);
  return size;
}

double launch_seconds(const std::vector<record::RooflinePoint>& points) {
  double sum = 0.0;
  for (const record::RooflinePoint& point : points) sum += point.latency;
  return sum;
}

}  // namespace ridge::campaign
