// The definition, from which the full compare and the check after every launch are made.
#include <fmt/format.h>

#include "ops/combine_rows/combine_rows.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/combine_rows/row_model.cuh"
// clang-format on

namespace ridge::ops::combine_rows {
namespace {

auto row_model(const Problem& problem, const Arguments&) {
  const Shape s = shape_of(problem);
  rows::Places place(problem);
  const rows::i64 x = place("x", rows::kShared), from = place("from", rows::kShared),
                  weights = place("weights", rows::kShared);
  return rows::model(std::move(place.reads), RowModel{x, from, weights, s.sources, s.cols, s.top});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_CHECK_OK(check_sources("combine_rows", shape_of(problem), arguments[kFrom]));
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>(
      *rows::device_check<row_model>({"ops/combine_rows/row_model.cuh"}, "combine_rows::RowModel"));
  check->refuses = too_large_to_check;
  return check;
}

std::optional<std::string> too_large_to_check(const Problem& problem) {
  if (problem.operands[kX].element_count() < std::int64_t{1} << 32) return std::nullopt;
  return fmt::format("x has {} elements; they are counted in 32 bits", problem.operands[kX].element_count());
}

}  // namespace ridge::ops::combine_rows
