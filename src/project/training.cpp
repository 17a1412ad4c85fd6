#include "project/training.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "stats/summary.h"

namespace ridge::project {
namespace {

constexpr double kMilli = 1e-3;
constexpr double kClockSlack = 1.001;  // a part is timed by the same clock as the whole

template <class T>
bool read(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

struct Row {
  double step = 0, kernel = 0, weight = 0;
  std::int64_t weight_hits = 0, tensor_hits = 0;
  bool passed = false;
};

Result<Row> row_of(const std::string& line, int number) {
  const std::vector<std::string> cells = split(line, ',');
  const auto refused = [&](std::string_view what) { return invalid("training trace, step {}: {}", number, what); };
  if (cells.size() != 7) return refused("it has not seven cells");
  long step = 0;
  if (!read(cells[0], step) || step != number) return refused("another step stands in its place");
  Row row;
  if (!read(cells[1], row.step) || !read(cells[2], row.kernel) || !read(cells[3], row.weight)) {
    return refused("a time is no number");
  }
  for (const double value : {row.step, row.kernel, row.weight}) {
    if (!std::isfinite(value) || value < 0) return refused("a time is negative or not finite");
  }
  if (!(row.step > 0) || !(row.kernel > 0)) return refused("it takes no time");
  if (row.kernel > kClockSlack * row.step || row.weight > kClockSlack * row.kernel) {
    return refused("a part takes longer than the whole");
  }
  if (!read(cells[4], row.weight_hits) || !read(cells[5], row.tensor_hits) || row.weight_hits < 0 ||
      row.tensor_hits < 0) {
    return refused("a count of hits is none");
  }
  if (cells[6] != "PASS" && cells[6] != "FAIL") return refused("Check is neither PASS nor FAIL");
  row.passed = cells[6] == "PASS";
  return row;
}

}  // namespace

Result<record::TrainingTrace> read_training_trace(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line = trimmed(line, "\r");
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.empty() || lines.front() != kTrainingHeader) {
    return invalid("training trace: the first line is not \"{}\"", kTrainingHeader);
  }
  if (lines.size() != kTrainingSteps + 1u) {
    return invalid("training trace: {} steps where {} belong", lines.size() - 1, kTrainingSteps);
  }
  record::TrainingTrace trace;
  std::vector<double> steps, kernels, weights;
  for (int i = 1; i <= kTrainingSteps; ++i) {
    RIDGE_TRY(row, row_of(lines[static_cast<std::size_t>(i)], i));
    steps.push_back(row.step * kMilli);
    kernels.push_back(row.kernel * kMilli);
    weights.push_back(row.weight * kMilli);
    trace.failed += row.passed ? 0 : 1;
    trace.weight_hits += row.weight_hits;
    trace.tensor_hits += row.tensor_hits;
    trace.least_weight_hits = i == 1 ? row.weight_hits : std::min(trace.least_weight_hits, row.weight_hits);
  }
  trace.steps = kTrainingSteps;
  trace.step = stats::median(steps);
  trace.kernel = stats::median(kernels);
  trace.weight = stats::median(weights);
  return trace;
}

}  // namespace ridge::project
