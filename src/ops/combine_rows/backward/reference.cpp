// The definition, from which the full compare and the check after every launch are made.
#include "ops/combine_rows/backward/backward.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/combine_rows/row_model.cuh"
#include "ops/combine_rows/backward/row_model.cuh"
// clang-format on

namespace ridge::ops::combine_rows_backward {
namespace {

auto row_model(const Problem& problem, const Arguments&) {
  const Shape s = shape_of(problem);
  rows::Places place(problem, rows::kShared);
  const rows::i64 x = place("x"), from = place("from"), dy = place("dy");
  place("dweights", rows::kRow);
  return rows::model(std::move(place.reads), RowModel{x, from, dy, s.sources, s.cols, s.top});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_CHECK_OK(combine_rows::check_sources("combine_rows_backward", shape_of(problem), arguments[kFrom]));
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>(
      *rows::device_check<row_model>({"ops/combine_rows/row_model.cuh", "ops/combine_rows/backward/row_model.cuh"},
                                     "combine_rows_backward::RowModel"));
  check->refuses = combine_rows::too_large_to_check;
  return check;
}

}  // namespace ridge::ops::combine_rows_backward
