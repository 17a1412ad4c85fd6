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
using record::column_values;
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

// Log ratios incumbent / candidate of one session, positive when the candidate is better: the suite's (equal weights)
// and each shape's, in the order of `labels`; then those of every direction of a project's table ("label=small,
// backward"). Of what the primary metric says, which is a time but where the table has a column for it. An error when
// the session's labels are not exactly `labels`, or a launch is not a positive finite time.
struct SessionRatios {
  double suite = 0;
  std::vector<double> per_shape;
  std::vector<std::string> directions;
  std::vector<double> per_direction;
};
Result<SessionRatios> session_ratios(const record::Session& session, const std::vector<std::string>& labels);

// The directions that a session's columns hold for these shapes, named as in SessionRatios.
std::vector<std::string> directions_of(const record::Session& session, const std::vector<std::string>& labels);

// The ratios of several sessions, transposed: all suite values, and all values of each shape.
struct RatioTable {
  std::vector<double> suite;
  std::vector<std::vector<double>> per_shape;
  std::vector<double> slacks;  // of each session; empty: none
  std::vector<std::string> directions;
  std::vector<std::vector<double>> per_direction;
};
// An error where a session has other directions than the first.
Result<RatioTable> ratio_table(const std::vector<const record::Session*>& sessions,
                               const std::vector<std::string>& labels, const stats::GuardRule* guards = nullptr);

// Suite first, then every shape: Hodges-Lehmann estimate and an interval of the speed-up. The interval inverts the sign
// betting where a test decided when to stop, and the sign test where the number of sessions was fixed beforehand.
enum class Stopping { kByTest, kFixed };
std::vector<record::Effect> effects_of(const RatioTable& table, const std::vector<std::string>& labels,
                                       Stopping stopping);

// The same of every direction of a project's table.
std::vector<record::Effect> direction_effects(const RatioTable& table, Stopping stopping);

// A signal-to-noise ratio of one shape: the worst of all processes, in dB; NaN when one has none.
struct SignalToNoise {
  std::string column, label;
  double worst = 0;
};
std::vector<SignalToNoise> worst_noise(const std::vector<record::Session>& sessions);
// The least value; NaN when there is none, or one is NaN.
double least_or_nan(const std::vector<double>& values);

// The labels of cases, in order.
std::vector<std::string> labels_of(const std::vector<record::Case>& cases);

}  // namespace ridge::journal
