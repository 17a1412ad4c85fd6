// The definition, from which the full compare and the check after every launch are made.
#include "ops/layernorm/backward/backward.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/layernorm/backward/row_model.cuh"
// clang-format on

namespace ridge::ops::layernorm_backward {
namespace {

auto row_model(const Problem& problem, const Arguments&) {
  rows::Places place(problem);
  const row_norm::BackwardShape s = shape_of(problem);
  for (const char* name : {"mean", "rstd"}) place(name, rows::kScalar);
  const rows::i64 weight = place("weight", rows::kShared), dsum = place("dsum"),
                  dweight = place.output("dweight", rows::kSum), dbias = place.output("dbias", rows::kSum);
  return rows::model(std::move(place.reads), RowModel{weight, dsum, s.zero_centred ? 1 : 0, dweight, dbias});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/layernorm/backward/row_model.cuh"}, "layernorm_backward::RowModel");
}

}  // namespace ridge::ops::layernorm_backward
