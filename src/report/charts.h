// The drawings of a report. Each returns one <figure> body: an <svg> and its legend; empty when there is nothing to
// draw.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"

namespace ridge::report {

// Log-log: measured ceilings, and every shape before (hollow) and after (filled).
std::string roofline_chart(const Model& model);
// Speed over the baseline by round: accepted line with its band, hollow marks for what was rolled back.
std::string trend_chart(const Model& model);

// What rounds were expected to gain against what was measured; a point on the dashed line came as expected.
std::string expected_chart(const Model& model);

struct ForestRow {
  std::string key, label;  // key: beside the row; label: in its tooltip
  record::Effect effect;
  bool strong = false;  // the suite
};
// Ratios with their intervals, one per row; the line at 1 is "no difference".
std::string forest_chart(std::string_view id, std::string_view title, std::span<const ForestRow> rows);

// Every session of a trial as a dot, a row for the suite and one per shape. `threshold`: the gain to exceed.
std::string sessions_chart(std::string_view id, std::string_view title, const record::ReportTrial& trial,
                           std::span<const record::ReportShape> shapes, double threshold, std::string_view axis_title);
// The configurations of a sweep by score.
std::string sweep_chart(std::string_view id, const record::ReportRound& round);
// Where the time went, as one bar.
std::string time_chart(const Model& model);
// When what was done, a row for each kind of work.
std::string timeline_chart(const Model& model);
// What the measured rounds from `first` to `last` did to each shape, as colours with a sign.
std::string heat_map(const Model& model, std::int64_t first_round, std::int64_t last_round);
// The evidence of a decision after each session that counts, against what is needed.
std::string evidence_chart(std::string_view id, const record::ReportRound& round);
// The best speed over the baseline so far, without axes; `words` say it.
std::string sparkline(std::string_view id, std::span<const double> speeds, std::string_view words);

}  // namespace ridge::report
