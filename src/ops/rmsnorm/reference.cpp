// The definition, from which the full compare and the check after every launch are made.
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/rmsnorm/row_model.cuh"
// clang-format on

namespace ridge::ops::rmsnorm {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  rows::Places place(problem);
  const rows::i64 residual = place("residual"), sum = place.output("sum"), weight = place("weight", rows::kShared),
                  rstd = place.output("rstd", rows::kScalar);
  return rows::model(std::move(place.reads), RowModel{rows::format_of(s.dtype), arguments.scalar(problem, kEps).real(),
                                                      residual, weight, s.zero_centred ? 1 : 0, sum, rstd});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/rmsnorm/row_model.cuh"}, "rmsnorm::RowModel");
}

}  // namespace ridge::ops::rmsnorm
