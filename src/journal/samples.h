// From raw sessions to numbers. Everything a decision rests on is computed here from the launches that were timed,
// never read from a summary that a worker wrote.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "record/campaign.h"
#include "record/launches.h"
#include "record/measurement.h"
#include "ridge/result.h"
#include "stats/session.h"

namespace ridge::journal {

inline constexpr double kConfidence = 0.95;  // of every interval that is shown

// Sessions of one role that were not voided, in the order they ran.
std::vector<const record::Session*> valid_sessions(const std::vector<record::Session>& sessions, std::string_view role);
// Whether there are sessions and not one of them counts.
bool all_void(const std::vector<record::Session>& sessions);
// How many valid sessions belong to the sequential test; a decision that looked at any has used a share of alpha.
std::int64_t confirmation_count(const std::vector<record::Session>& sessions);

using record::Arm;
using record::launches;

// `bounds` with latency and fraction recomputed as the median launch of the candidate. A shape without samples is left
// out.
std::vector<record::RooflinePoint> measured_roofline(const std::vector<record::RooflinePoint>& bounds,
                                                     const std::vector<record::Session>& sessions);

// One launch of every shape.
double launch_seconds(const std::vector<record::RooflinePoint>& points);

// Whether decisions may be planned from a calibration: it measured something and no arm is favoured. Noise alone is no
// objection, because the test of a decision holds for any; it costs sessions.
bool fair(const record::Calibration& calibration);

// Log ratios incumbent / candidate of one session: the suite's (equal weights) and each shape's, in the order of
// `labels`. An error when the session's labels are not exactly `labels`, or a launch is not a positive finite time.
struct SessionRatios {
  double suite = 0;
  std::vector<double> per_shape;
};
Result<SessionRatios> session_ratios(const record::Session& session, const std::vector<std::string>& labels);

// The same for several sessions, transposed: all suite values, and all values of each shape.
struct RatioTable {
  std::vector<double> suite;
  std::vector<std::vector<double>> per_shape;
  std::vector<double> slacks;  // of each session; empty: none
};
Result<RatioTable> ratio_table(const std::vector<const record::Session*>& sessions,
                               const std::vector<std::string>& labels, const stats::GuardRule* guards = nullptr);

// Suite first, then every shape: Hodges-Lehmann estimate and an interval of the speed-up. The interval inverts the sign
// betting where a test decided when to stop, and the sign test where the number of sessions was fixed beforehand.
enum class Stopping { kByTest, kFixed };
std::vector<record::Effect> effects_of(const RatioTable& table, const std::vector<std::string>& labels,
                                       Stopping stopping);

// The labels of cases, in order.
std::vector<std::string> labels_of(const std::vector<record::Case>& cases);

}  // namespace ridge::journal
