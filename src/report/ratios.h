// From raw launches to log ratios and effects. ln(incumbent latency / candidate latency): > 0, the candidate is faster.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "record/launches.h"
#include "record/measurement.h"
#include "record/report.h"

namespace ridge::report {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double geomean_of_usable(std::span<const double> values);  // of the finite positive ones; NaN when there are none
std::vector<double> finite_only(std::span<const double> values);

// The session of raw launches reduced to one log ratio per shape and for the suite.
record::SessionRatios reduce(const record::Session& session);

// Median latency of one arm of one shape, as the campaign's own files give it. NaN when nothing was timed.
double arm_latency(std::span<const record::Session> sessions, std::string_view label, record::Arm arm);

// The same of the column of the primary metric; nothing where that is no column.
std::optional<double> metric_value(std::span<const record::Session> sessions, std::string_view label, record::Arm arm);

// Sessions that carry the claim: not voided, of the role given.
std::vector<double> suite_log_ratios(const record::ReportTrial& trial, std::string_view role);

}  // namespace ridge::report
