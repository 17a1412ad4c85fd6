// The definition, from which the full compare and the check after every launch are made.
#include "ops/rmsnorm/backward/backward.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/rmsnorm/backward/row_model.cuh"
// clang-format on

namespace ridge::ops::rmsnorm_backward {
namespace {

auto row_model(const Problem& problem, const Arguments&) {
  rows::Places place(problem);
  const row_norm::BackwardShape s = shape_of(problem);
  place("rstd", rows::kScalar);
  const rows::i64 weight = place("weight", rows::kShared), dsum = place("dsum"),
                  dweight = place.output("dweight", rows::kSum);
  return rows::model(std::move(place.reads), RowModel{weight, dsum, s.zero_centred ? 1 : 0, dweight});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/rmsnorm/backward/row_model.cuh"}, "rmsnorm_backward::RowModel");
}

}  // namespace ridge::ops::rmsnorm_backward
