// What the CPU kernels of both directions share.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/cross_entropy/simd/pieces.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::cross_entropy {

// The numbers of a call as fp32.
struct Numbers {
  float smoothing, z_loss, cap, scale;
  float spread;  // smoothing over the number of all columns
  std::int64_t ignored, first;
};
inline Numbers numbers_of(const Problem& problem, const Arguments& arguments) {
  const CrossEntropySettings s = settings_of(problem, arguments);
  return {static_cast<float>(s.label_smoothing),
          static_cast<float>(s.z_loss),
          static_cast<float>(s.soft_cap),
          static_cast<float>(s.grad_scale),
          static_cast<float>(s.label_smoothing / static_cast<double>(s.whole)),
          s.ignore_index,
          s.first};
}

// The logits of a piece as the formula knows them, in `memory` unless they lie in f32 as they are. `slope` as in
// Pieces::soften.
inline const float* logits_of(const Pieces& pieces, const RowOfMatrix& row, std::int64_t first, std::int64_t count,
                              float cap, float* memory, float* slope = nullptr) {
  const float* const x = row.read(first, count, memory);
  if (cap == 0) return x;
  pieces.soften(x, cap, memory, slope, count);
  return memory;
}

// Of the column that is the target.
inline Share of_target(const Share& share, const Numbers& n) {
  return {share.factor, share.shift + (1 - n.smoothing), share.scale};
}

// A row whose target is ignored.
inline void clear_row(const RowOfMatrix& row, std::int64_t columns) {
  alignas(64) float memory[kPiece];
  for (std::int64_t first = 0; first < columns; first += kPiece) {
    const std::int64_t count = std::min(kPiece, columns - first);
    float* const target = row.target(first, memory);
    std::fill_n(target, count, 0.0F);
    row.write(first, count, target);
  }
}

}  // namespace ridge::ops::cross_entropy
