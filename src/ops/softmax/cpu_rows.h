// What the CPU kernels of both directions share.
#pragma once

#include <algorithm>

#include "ops/row_of_matrix.h"
#include "ops/softmax/simd/pieces.h"
#include "ops/softmax/softmax.h"

namespace ridge::ops::softmax {

// z of a piece of x, in `memory` unless it lies in f32 as it is.
inline const float* scaled_piece(const Pieces& pieces, const RowOfMatrix& x, std::int64_t first, std::int64_t count,
                                 float scale, float* memory) {
  const float* const given = x.read(first, count, memory);
  if (scale == 1) return given;
  pieces.scale(given, scale, memory, count);
  return memory;
}

inline float scale_of(const Problem& problem, const Arguments& arguments) {
  return static_cast<float>(arguments.scalar(problem, kScale).real());
}
inline int threads_of(const Shape& s, const Stream& stream) {
  return static_cast<int>(std::clamp<std::int64_t>(s.rows, 1, std::max(stream.threads, 1)));
}

}  // namespace ridge::ops::softmax
