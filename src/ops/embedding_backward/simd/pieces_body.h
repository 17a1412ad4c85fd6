// What pieces.h declares, for the instruction set of the file that includes this.
#pragma once

#include "ops/embedding_backward/simd/pieces.h"

namespace ridge::ops::embedding_backward {
namespace {

void add(const float* __restrict x, float* __restrict sum, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) sum[j] += x[j];
}

constexpr Pieces kPieces = {add};

}  // namespace
}  // namespace ridge::ops::embedding_backward
