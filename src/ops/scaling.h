// Where the scale of an element lies, for everything that reads or writes scales (ridge/scaling.h has the layouts).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ridge/scaling.h"
#include "ridge/tensor.h"

namespace ridge::ops {

// By the value of a parameter: "tensor", "row", "1x128", "128x128", "mx".
inline constexpr Granularity kGranularities[] = {Granularity::kTensor, Granularity::kRow, Granularity::kVector,
                                                 Granularity::kBlock, Granularity::kMx};
std::string_view to_string(Granularity granularity);

inline constexpr std::int64_t kScaleBlock = 128, kMxBlock = 32;

DType scale_dtype(Granularity granularity);
std::vector<std::int64_t> scale_shape(Granularity granularity, std::int64_t rows, std::int64_t cols);
// Position of the scale of element (row, col) in row-major order of that shape.
std::int64_t scale_index(Granularity granularity, std::int64_t rows, std::int64_t cols, std::int64_t row,
                         std::int64_t col);

// op(Q) times its scales in fp64, row-major: what references read. `q` is stored [cols, rows] when `transposed`; the
// scales are always those of [rows, cols].
std::vector<double> dequantized(const TensorView& q, bool transposed, const TensorView& scale, Granularity granularity);

}  // namespace ridge::ops
