#include "execute/project_session.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include "base/error.h"

namespace ridge::execute {
namespace {

using project::BenchTableRow;
using Holds = record::ColumnSamples::Holds;

const BenchTableRow* row_of(const std::vector<BenchTableRow>& rows, const std::string& label) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.label == label; });
  return found == rows.end() ? nullptr : &*found;
}

const BenchTableRow::Direction* direction_of(const BenchTableRow& row, const std::string& name) {
  const auto found =
      std::find_if(row.directions.begin(), row.directions.end(), [&](const auto& one) { return one.name == name; });
  return found == row.directions.end() ? nullptr : &*found;
}

double noise_of(const BenchTableRow& row, const std::string& name) {
  for (const auto& [column, value] : row.noise_db) {
    if (column == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// Whether the time of this direction is what the metric counts, and stands in the session already.
bool is_the_metric(const record::Metric& metric, const std::string& direction) {
  const bool time = metric.quantity != record::Quantity::kColumn && metric.percentile.empty();
  return time && metric.forward != metric.backward && metric.forward == (direction == "forward");
}

}  // namespace

std::string case_label(const std::string& label) { return "label=" + label; }

Result<ProjectSession> session_of(const std::vector<std::string>& labels, const std::string& order,
                                  const std::vector<std::vector<BenchTableRow>>& processes,
                                  const record::Metric& metric) {
  ProjectSession made;
  const auto samples = [&](const std::string& label, const std::function<double(const BenchTableRow&)>& value) {
    record::ShapeSamples shape{case_label(label), {{order, {}}}};
    for (const auto& rows : processes) shape.quads.front().blocks.push_back({value(*row_of(rows, label))});
    return shape;
  };
  const auto add = [&](record::ColumnSamples column) {
    if (!column.shapes.empty()) made.session.columns.push_back(std::move(column));
  };
  const std::vector<BenchTableRow>& first = processes.at(order.find('A'));
  for (const std::string& label : labels)
    made.session.shapes.push_back(samples(label, [](const BenchTableRow& row) { return row.latency; }));
  for (const std::string name : {"forward", "backward"}) {
    record::ColumnSamples column{name, Holds::kSeconds, {}};
    for (const std::string& label : labels) {
      const bool there = direction_of(*row_of(first, label), name) != nullptr;
      for (std::size_t i = 0; i < processes.size(); ++i) {
        if ((direction_of(*row_of(processes[i], label), name) != nullptr) == there) continue;
        if (order[i] == 'A') {
          return make_error(ErrorCode::kToolFailed, "the incumbent: {} has a {} pass in one table and none in another",
                            label, name);
        }
        if (there) made.missing = fmt::format("{}: the table has no {} pass, and the incumbent's has one", label, name);
      }
      if (!made.missing.empty()) return made;
      if (there && !is_the_metric(metric, name)) {
        column.shapes.push_back(
            samples(label, [&](const BenchTableRow& row) { return direction_of(row, name)->seconds; }));
      }
    }
    add(std::move(column));
  }
  for (const auto& [name, ignored] : first.front().noise_db) {
    record::ColumnSamples column{name, Holds::kDecibel, {}};
    for (const std::string& label : labels) {
      if (std::isnan(noise_of(*row_of(first, label), name))) continue;
      column.shapes.push_back(samples(label, [&name = name](const BenchTableRow& row) { return noise_of(row, name); }));
    }
    add(std::move(column));
  }
  if (metric.quantity == record::Quantity::kColumn) {
    record::ColumnSamples column{metric.column, metric.higher ? Holds::kHigher : Holds::kLower, {}};
    for (const std::string& label : labels)
      column.shapes.push_back(samples(label, [](const BenchTableRow& row) { return row.value; }));
    add(std::move(column));
  }
  return made;
}

}  // namespace ridge::execute
