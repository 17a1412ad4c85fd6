// The definition: codes and scales of both gradients by their row model, with its errors.
#include "ops/activation/quantize/backward/backward.h"
#include "ops/coding/device_check.h"
// clang-format off
#include "ops/gating/definition.cuh"
#include "ops/activation/quantize/backward/row_model.cuh"
// clang-format on

namespace ridge::ops::activation_quantize_backward {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  const activation::Shape s = shape_of(problem);
  rows::Places place(problem, rows::kApart);
  place("dy", rows::kRow), place("x", rows::kRow);
  const rows::i64 up = place("up", rows::kRow), probs = place("probs", rows::kScalar),
                  mask = place("mask", rows::kScalar);
  const activation::Definition f{static_cast<rows::i64>(s.function),
                                 arguments.scalar(problem, activation::kAlpha).real(),
                                 arguments.scalar(problem, activation::kLimit).real()};
  return rows::model(std::move(place.reads), RowModel{f, up, probs, mask, s.cols});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return coding::reference<row_model, coding_of>(problem, arguments);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return coding::device_check<row_model, coding_of>(
      {"ops/gating/definition.cuh", "ops/activation/quantize/backward/row_model.cuh"},
      "activation_quantize_backward::RowModel");
}

}  // namespace ridge::ops::activation_quantize_backward
