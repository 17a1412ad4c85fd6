// What the tables of a campaign's files have of a shape and of its speed: the parameters of its operator, and the unit
// of what bounds it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "campaign/state.h"

namespace ridge::campaign {

// Whether cases are of a matrix product: they have m, n and k. No case at all is a project's, which times products.
bool are_products(const std::vector<record::Case>& cases);

// A column of a table and the parameter of a case that stands in it.
struct ShapeColumn {
  std::string title, param;
};
// M, N and K of a matrix product, as other people's tools read them; else every parameter of the cases, by its name.
std::vector<ShapeColumn> shape_columns(const std::vector<record::Case>& cases);

// Of benchmark.csv, frozen at BASELINE: the same in every round, lines end in CR LF. A matrix product has the columns
// that other people's tools read; another operator its parameters, and both rates.
std::string benchmark_header(const std::vector<record::Case>& cases);

// FLOP or bytes over seconds, as a campaign's files write it.
struct Rate {
  bool bytes = false;
  [[nodiscard]] std::string_view unit() const { return bytes ? "GB/s" : "TFLOPS"; }
  [[nodiscard]] double of(const record::Cost& cost, double latency) const {
    return bytes ? cost.bytes / latency / 1e9 : cost.flop / latency / 1e12;
  }
};
// Bytes where memory bounds every shape of the baseline.
Rate rate_of(const State& state);
double geomean_rate(const std::vector<record::RooflinePoint>& points, Rate rate);

}  // namespace ridge::campaign
