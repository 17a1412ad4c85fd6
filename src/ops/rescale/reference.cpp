// The definition, from which the full compare and the check after every launch are made.
#include "ops/rescale/rescale.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/rescale/row_model.cuh"
// clang-format on

namespace ridge::ops::rescale {
namespace {

auto row_model(const Problem& problem, const Arguments&) {
  rows::Places place(problem);
  const rows::i64 factor = place("factor", shape_of(problem).per_row ? rows::kScalar : rows::kShared), x = place("x");
  return rows::model(std::move(place.reads), RowModel{factor, x});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/rescale/row_model.cuh"}, "rescale::RowModel");
}

}  // namespace ridge::ops::rescale
