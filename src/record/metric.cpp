#include "record/metric.h"

#include "base/error.h"

namespace ridge::record {
namespace {

constexpr std::string_view kColumnPrefix = "column:", kHigher = ":higher", kLower = ":lower";

struct Row {
  std::string_view name;
  Quantity quantity;
  bool forward, backward;
  std::string_view percentile = {};
};
constexpr Row kRows[] = {
    {"forward_tflops", Quantity::kFlops, true, false},
    {"backward_tflops", Quantity::kFlops, false, true},
    {"combined_step_tflops", Quantity::kFlops, true, true},
    {"forward_gbps", Quantity::kBytes, true, false},
    {"backward_gbps", Quantity::kBytes, false, true},
    {"combined_step_gbps", Quantity::kBytes, true, true},
    {"latency", Quantity::kSeconds, true, false},
    {"latency_p50", Quantity::kSeconds, true, false, "p50"},
    {"latency_p99", Quantity::kSeconds, true, false, "p99"},
    {"forward_time", Quantity::kSeconds, true, false},  // what latency was called before
};

}  // namespace

std::string Metric::unit() const {
  switch (quantity) {
    case Quantity::kFlops: return "TFLOPS";
    case Quantity::kBytes: return "GB/s";
    case Quantity::kSeconds: return "us";
    case Quantity::kColumn: return column;
  }
  return {};
}

Result<Metric> parse_metric(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) {
      return Metric{std::string(name),
                    row.quantity,
                    row.forward,
                    row.backward,
                    std::string(row.percentile),
                    row.quantity != Quantity::kSeconds};
    }
  }
  const bool higher = name.ends_with(kHigher);
  if (name.starts_with(kColumnPrefix) && (higher || name.ends_with(kLower))) {
    const std::size_t begin = kColumnPrefix.size(), end = name.size() - (higher ? kHigher : kLower).size();
    if (end > begin) {
      return Metric{
          std::string(name), Quantity::kColumn, true, false, {}, higher, std::string(name.substr(begin, end - begin))};
    }
  }
  return invalid("primary_metric \"{}\" is not one of {}", name, metric_names());
}

std::string metric_names() {
  std::string names;
  for (const Row& row : kRows) {
    if (row.name != "forward_time") names += std::string(row.name) + ", ";
  }
  return names + "column:NAME:higher, column:NAME:lower";
}

}  // namespace ridge::record
