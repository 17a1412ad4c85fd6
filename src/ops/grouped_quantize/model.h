// The row model of what is coded, for the reference and for the check on a GPU.
#pragma once

#include <utility>

#include "ops/grouped_quantize/grouped_quantize.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/gating/definition.cuh"
#include "ops/grouped_quantize/row_model.cuh"
#include "ops/grouped_quantize/factor_model.cuh"
// clang-format on

namespace ridge::ops::grouped_quantize {

inline rows::Model<RowModel> model_of(const Problem& problem, bool own_rows) {
  const Shape s = shape_of(problem);
  rows::Places place(problem, rows::kApart);
  const rows::i64 x = place("x", rows::kShared), offsets = place("offsets", rows::kShared),
                  index = place("index", rows::kShared), dy = place("dy", rows::kShared),
                  probs = place("probs", rows::kShared);
  return rows::model(std::move(place.reads),
                     RowModel{x, offsets, index, dy, probs, s.rows_of_x(), s.groups, s.rows, s.cols, s.align,
                              static_cast<rows::i64>(s.of), own_rows ? 1 : 0, rows::format_of(s.dtype)});
}
// Of y, and of m where its rows lie.
inline rows::Model<RowModel> padded_model(const Problem& problem, const Arguments&) { return model_of(problem, false); }
inline rows::Model<RowModel> own_model(const Problem& problem, const Arguments&) { return model_of(problem, true); }

// Of dprobs, along the rows of dy.
inline rows::Model<FactorModel> factor_model(const Problem& problem, const Arguments&) {
  rows::Places place(problem, rows::kApart);
  rows::Model<RowModel> made = model_of(problem, true);
  place.reads = std::move(made.reads);
  place("dy", rows::kRow);
  return rows::model(std::move(place.reads), FactorModel{made.definition, place.output("dprobs", rows::kScalar)});
}

}  // namespace ridge::ops::grouped_quantize
