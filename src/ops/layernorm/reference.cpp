// The definition, from which the full compare and the check after every launch are made.
#include "ops/layernorm/layernorm.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/layernorm/row_model.cuh"
// clang-format on

namespace ridge::ops::layernorm {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  const row_norm::Shape s = row_norm::shape_of(problem);
  rows::Places place(problem);
  const rows::i64 residual = place("residual"), sum = place.output("sum"), weight = place("weight", rows::kShared),
                  bias = place("bias", rows::kShared), mean = place.output("mean", rows::kScalar),
                  rstd = place.output("rstd", rows::kScalar);
  return rows::model(std::move(place.reads),
                     RowModel{rows::format_of(s.dtype), arguments.scalar(problem, row_norm::kEps).real(), residual,
                              weight, bias, s.zero_centred ? 1 : 0, sum, mean, rstd});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/layernorm/row_model.cuh"}, "layernorm::RowModel");
}

}  // namespace ridge::ops::layernorm
