// What a campaign is judged by: a rate over the time of one or both directions, a time, or a column of a project's
// table.
#pragma once

#include <string>
#include <string_view>

#include "ridge/result.h"

namespace ridge::record {

enum class Quantity { kFlops, kBytes, kSeconds, kColumn };

struct Metric {
  std::string name;  // as in the manifest
  Quantity quantity = Quantity::kFlops;
  bool forward = true, backward = false;  // the directions whose times count
  std::string percentile = {};            // of a time: "p50", "p99"; empty: the benchmark's own mean or median
  bool higher = true;                     // whether more is better
  std::string column = {};                // of kColumn

  // "TFLOPS", "GB/s", "us"; a column is called by its name.
  [[nodiscard]] std::string unit() const;
};

// forward_tflops, backward_tflops, combined_step_tflops; the same in _gbps; latency, latency_p50, latency_p99; or
// column:NAME:higher, column:NAME:lower. An error lists them.
Result<Metric> parse_metric(std::string_view name);
// The names above, separated by commas.
std::string metric_names();

}  // namespace ridge::record
