// The definition as a row model, from which the full compare and the checks after every launch are made.
#include "ops/route/backward/backward.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/route/power.cuh"
#include "ops/route/backward/row_model.cuh"
// clang-format on

namespace ridge::ops::route_backward {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  rows::Places place(problem);
  place("experts", rows::kShared);
  place("dweights", rows::kShared);
  return rows::model(std::move(place.reads), RowModel{s.sigmoid ? 1 : 0, s.top_first ? 1 : 0, s.renormalize ? 1 : 0,
                                                      s.top, arguments.scalar(problem, route::kScale).real()});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_CHECK_OK(check_experts(problem, arguments));
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  RIDGE_CHECK_OK(check_experts(problem, arguments));
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/route/power.cuh", "ops/route/backward/row_model.cuh"},
                                       "route_backward::RowModel");
}

}  // namespace ridge::ops::route_backward
