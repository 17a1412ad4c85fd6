#include "roofline/roofline.h"

#include <algorithm>

#include "base/error.h"
#include "roofline/machine.h"

namespace ridge::roofline {
namespace {

Result<double> find(std::span<const record::Ceiling> ceilings, std::string_view name, std::int64_t threads) {
  std::string known;
  for (const record::Ceiling& ceiling : ceilings) {
    if (ceiling.name == name && ceiling.threads == threads && ceiling.value > 0) return ceiling.value;
    known += fmt::format("{}{} ({} thread{})", known.empty() ? "" : ", ", ceiling.name, ceiling.threads,
                         ceiling.threads == 1 ? "" : "s");
  }
  return with_hint(make_error(ErrorCode::kNotFound, "no ceiling \"{}\" for {} thread(s); there is: {}", name, threads,
                              known.empty() ? "none" : known),
                   "measure them with: ridge ceilings");
}

}  // namespace

Result<Limits> limits(std::span<const record::Ceiling> ceilings, std::int64_t threads, std::string_view flops_name,
                      std::string_view bandwidth_name) {
  RIDGE_TRY(flops, find(ceilings, flops_name, threads));
  RIDGE_TRY(bandwidth, find(ceilings, bandwidth_name, threads));
  return Limits{flops, bandwidth, std::string(flops_name), std::string(bandwidth_name)};
}

Result<Limits> limits_of_type(std::span<const record::Ceiling> ceilings, std::int64_t threads, std::string_view dtype) {
  const Result<std::string> metric = peak_metric(dtype);
  if (metric) {
    Result<Limits> matrix = limits(ceilings, threads, *metric);
    if (matrix) return matrix;
  }
  return limits(ceilings, threads, "fma_" + std::string(canonical_type(dtype)));
}

record::RooflinePoint place(std::string label, const record::Cost& cost, const Limits& limits, double latency) {
  record::RooflinePoint point;
  point.label = std::move(label);
  point.cost = cost;
  point.intensity = cost.bytes > 0 ? cost.flop / cost.bytes : 0.0;
  const double compute = limits.flops > 0 ? cost.flop / limits.flops : 0.0;
  const double memory = limits.bandwidth > 0 ? cost.bytes / limits.bandwidth : 0.0;
  point.bound_time = std::max(compute, memory);
  point.bound = compute >= memory ? "compute" : "memory";
  point.latency = std::max(latency, 0.0);
  point.fraction = latency > 0 ? point.bound_time / latency : 0.0;
  return point;
}

}  // namespace ridge::roofline
