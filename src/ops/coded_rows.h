// Rows of 8-bit codes as f32, for the CPU implementations that multiply or write them.
#pragma once

#include <cstdint>

#include "ops/scaling.h"

namespace ridge::ops {

// op(Q)[row, first ... first + count) times its scales, each product rounded to f32. `q` is stored [cols, rows] when
// `transposed`; the scales are those of op(Q) [rows, cols]. Without a scale (rank 0) the codes as they are.
void scaled_row(const TensorView& q, bool transposed, const TensorView& scale, Granularity granularity,
                std::int64_t row, std::int64_t first, std::int64_t count, float* out);

// The first `count` codes of op(Q)[row, :], without scales, as bf16, which is exact.
void row_as_bf16(const TensorView& q, bool transposed, std::int64_t row, std::int64_t count, std::uint16_t* out);

}  // namespace ridge::ops
