// The definition, from which the full compare and the check after every launch are made.
#include "ops/row_device_check.h"
#include "ops/softmax/backward/backward.h"
// clang-format off
#include "ops/softmax/row_model.cuh"
#include "ops/softmax/backward/row_model.cuh"
// clang-format on

namespace ridge::ops::softmax_backward {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  const SoftmaxForm form = softmax::shape_of(problem).form;
  const std::vector<rows::Reads> reads = form == SoftmaxForm::kLogSumExp
                                             ? std::vector{rows::kScalar, rows::kRow, rows::kScalar, rows::kRow}
                                             : std::vector{rows::kRow, rows::kRow, rows::kRow};
  return rows::model(reads,
                     RowModel{{arguments.scalar(problem, softmax::kScale).real()}, static_cast<rows::i64>(form)});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/softmax/row_model.cuh", "ops/softmax/backward/row_model.cuh"},
                                       "softmax_backward::RowModel");
}

}  // namespace ridge::ops::softmax_backward
