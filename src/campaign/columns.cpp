#include "campaign/columns.h"

#include <algorithm>

#include "campaign/target.h"

namespace ridge::campaign {
namespace {

constexpr const char* kProductHeader =
    "label,B,M,N,K,Check,Forward TFLOPS,Forward TFLOPS_stddev,Backward TFLOPS,Backward TFLOPS_stddev,"
    "Forward Time (ms),Backward Time (ms),out_snr,da_snr,db_snr";

}  // namespace

bool are_products(const std::vector<record::Case>& cases) {
  const auto has = [&](const char* name) { return cases.empty() || !cases.front().get(name).empty(); };
  return has("m") && has("n") && has("k");
}

std::vector<ShapeColumn> shape_columns(const std::vector<record::Case>& cases) {
  if (are_products(cases)) return {{"M", "m"}, {"N", "n"}, {"K", "k"}};
  std::vector<ShapeColumn> columns;
  for (const record::Case& one : cases) {
    for (const record::Param& param : one.params) {
      if (std::ranges::find(columns, param.name, &ShapeColumn::param) == columns.end())
        columns.push_back({param.name, param.name});
    }
  }
  return columns;
}

std::string benchmark_header(const std::vector<record::Case>& cases) {
  if (are_products(cases)) return kProductHeader;
  std::string header = "label";
  for (const ShapeColumn& column : shape_columns(cases)) header += "," + column.title;
  return header +
         ",Check,Forward TFLOPS,Forward TFLOPS_stddev,Forward GB/s,Forward GB/s_stddev,Forward Time (ms),"
         "out_snr";
}

Rate rate_of(const State& state) {
  if (!state.baseline) return {};
  const std::vector<record::RooflinePoint>& points = state.baseline->evaluation.roofline;
  return {!points.empty() && std::ranges::all_of(points, [](const auto& point) { return point.bound == "memory"; })};
}

double geomean_rate(const std::vector<record::RooflinePoint>& points, Rate rate) {
  return rate.bytes ? geomean_bytes(points) / 1e9 : geomean_flops(points) / 1e12;
}

}  // namespace ridge::campaign
