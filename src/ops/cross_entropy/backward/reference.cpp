// The definition, from which the full compare and the check after every launch are made.
#include "ops/cross_entropy/backward/backward.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/cross_entropy/row_model.cuh"
#include "ops/cross_entropy/backward/row_model.cuh"
// clang-format on

namespace ridge::ops::cross_entropy_backward {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  const CrossEntropySettings s = cross_entropy::settings_of(problem, arguments);
  const cross_entropy::Definition f{s.label_smoothing,
                                    s.z_loss,
                                    s.soft_cap,
                                    static_cast<double>(s.ignore_index),
                                    static_cast<double>(s.first),
                                    static_cast<double>(s.whole)};
  return rows::model({rows::kScalar, rows::kRow, rows::kScalar, rows::kScalar, rows::kRow}, RowModel{f, s.grad_scale});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_CHECK_OK(cross_entropy::check_targets(problem, arguments));
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  RIDGE_CHECK_OK(cross_entropy::check_targets(problem, arguments));
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/cross_entropy/row_model.cuh", "ops/cross_entropy/backward/row_model.cuh"},
                                       "cross_entropy_backward::RowModel");
}

}  // namespace ridge::ops::cross_entropy_backward
