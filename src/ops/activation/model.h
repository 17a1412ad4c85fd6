// The row model of y, for the references of activation and of what codes its result.
#pragma once

#include <utility>

#include "ops/activation/activation.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/gating/definition.cuh"
#include "ops/activation/row_model.cuh"
// clang-format on

namespace ridge::ops::activation {

// `others`: how the operands behind the inputs meet the rows.
inline rows::Model<RowModel> model_of(const Problem& problem, const Arguments& arguments, rows::Reads others) {
  rows::Places place(problem, others);
  place("x", rows::kRow);
  const rows::i64 up = place("up", rows::kRow), probs = place("probs", rows::kScalar),
                  mask = place("mask", rows::kScalar);
  const Definition f{static_cast<rows::i64>(shape_of(problem).function), arguments.scalar(problem, kAlpha).real(),
                     arguments.scalar(problem, kLimit).real()};
  return rows::model(std::move(place.reads), RowModel{f, up, probs, mask});
}

}  // namespace ridge::ops::activation
