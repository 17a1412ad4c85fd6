// The timed launches of one arm of one shape, which every median, floor and table of a campaign and of its report is
// computed from.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "record/measurement.h"

namespace ridge::record {

enum class Arm { kIncumbent, kCandidate };

// Seconds, over all sessions that were not voided, the screening session included: its launches were verified like all
// others, and a round that the screening ended has no more.
std::vector<double> launches(std::span<const Session> sessions, std::string_view label, Arm arm);

// The same of a column of a project's table.
std::vector<double> column_values(std::span<const Session> sessions, std::string_view column, std::string_view label,
                                  Arm arm);

// The column of the primary metric, where that is no time; null: the times of the session are.
const ColumnSamples* metric_column(const Session& session);

}  // namespace ridge::record
