// The definition, from which the full compare and the check after every launch are made.
#include "ops/activation/backward/backward.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/gating/definition.cuh"
#include "ops/activation/backward/row_model.cuh"
// clang-format on

namespace ridge::ops::activation_backward {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  rows::Places place(problem);
  const rows::i64 up = place("up"), probs = place("probs", rows::kScalar), mask = place("mask", rows::kScalar);
  const rows::i64 dup = place.output("dup"), dprobs = place.output("dprobs", rows::kScalar);
  const activation::Definition f{static_cast<rows::i64>(shape_of(problem).function),
                                 arguments.scalar(problem, activation::kAlpha).real(),
                                 arguments.scalar(problem, activation::kLimit).real()};
  return rows::model(std::move(place.reads), RowModel{f, up, probs, mask, dup, dprobs});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/gating/definition.cuh", "ops/activation/backward/row_model.cuh"},
                                       "activation_backward::RowModel");
}

}  // namespace ridge::ops::activation_backward
