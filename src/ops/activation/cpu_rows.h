// What the CPU kernels of both directions share.
#pragma once

#include <algorithm>

#include "ops/activation/activation.h"
#include "ops/gating/simd/pieces.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::activation {

inline Factors factors_of(const Problem& problem, const Arguments& arguments) {
  return {1, static_cast<float>(arguments.scalar(problem, kAlpha).real()),
          static_cast<float>(arguments.scalar(problem, kLimit).real())};
}

// A masked row, whose inputs are not read.
inline void clear_row(const RowOfMatrix& row, std::int64_t cols) {
  alignas(64) float memory[kPiece];
  for (std::int64_t first = 0; first < cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, cols - first);
    float* const target = row.target(first, memory);
    std::fill_n(target, count, 0.0F);
    row.write(first, count, target);
  }
}

}  // namespace ridge::ops::activation
