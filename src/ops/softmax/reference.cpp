// The definition, from which the full compare and the check after every launch are made.
#include "ops/row_device_check.h"
#include "ops/softmax/softmax.h"
// clang-format off
#include "ops/softmax/row_model.cuh"
// clang-format on

namespace ridge::ops::softmax {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  const SoftmaxForm form = shape_of(problem).form;
  const rows::Reads output = form == SoftmaxForm::kLogSumExp ? rows::kScalar : rows::kRow;
  return rows::model({rows::kRow, output},
                     RowModel{{arguments.scalar(problem, kScale).real()}, static_cast<rows::i64>(form)});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return with_right_infinities(rows::spot_check<row_model>(problem, arguments, seed));  // a logarithm may be -infinity
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/softmax/row_model.cuh"}, "softmax::RowModel");
}

}  // namespace ridge::ops::softmax
