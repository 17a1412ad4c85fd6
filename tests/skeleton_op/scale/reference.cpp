// The definition: y as a row model, from which all of its checks are made, and where the largest x is.
#include <cmath>

#include "base/error.h"
#include "numerics/convert.h"
#include "ops/row_device_check.h"
#include "scale/row_model.cuh"
#include "scale/scale.h"

namespace ridge::ops::scale {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  std::vector<rows::Reads> reads(problem.operands.size(), rows::kRow);
  if (const auto top = problem.position("top")) reads[*top] = rows::kApart;
  const auto gain = problem.position("gain");
  return rows::model(std::move(reads),
                     RowModel{static_cast<float>(problem.real(kAlpha)), arguments.scalar(problem, kBeta).real(),
                              gain ? static_cast<rows::i64>(*gain) : -1});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_TRY(outputs, rows::reference<row_model>(problem, arguments));
  if (!problem.position("top")) return outputs;
  const std::vector<double> x = numerics::to_doubles(arguments[0]);
  double top = -1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool larger = top < 0 || std::abs(x[i]) > std::abs(x[static_cast<std::size_t>(top)]);
    if (!std::isnan(x[i]) && larger) top = static_cast<double>(i);
  }
  outputs[1] = {{top}, {}, {}, {}};
  return outputs;
}

// Work per element is so small that the cheap check is the whole one.
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t) {
  return spot_check_by_reference(problem, arguments, reference);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"scale/row_model.cuh"}, "scale::RowModel");
}

}  // namespace ridge::ops::scale
