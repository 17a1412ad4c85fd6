#include "ops/scaling.h"

#include "numerics/convert.h"

namespace ridge::ops {
namespace {

std::int64_t blocks(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

}  // namespace

std::string_view to_string(Granularity granularity) {
  switch (granularity) {
    case Granularity::kTensor: return "tensor";
    case Granularity::kRow: return "row";
    case Granularity::kVector: return "1x128";
    case Granularity::kBlock: return "128x128";
    case Granularity::kMx: return "mx";
  }
  return "?";
}

DType scale_dtype(Granularity granularity) { return granularity == Granularity::kMx ? DType::kE8m0 : DType::kF32; }

std::vector<std::int64_t> scale_shape(Granularity granularity, std::int64_t rows, std::int64_t cols) {
  switch (granularity) {
    case Granularity::kTensor: return {1};
    case Granularity::kRow: return {rows};
    case Granularity::kVector: return {blocks(cols, kScaleBlock), rows};
    case Granularity::kBlock: return {blocks(rows, kScaleBlock), blocks(cols, kScaleBlock)};
    case Granularity::kMx: return {blocks(cols, kMxBlock), rows};
  }
  return {};
}

std::int64_t scale_index(Granularity granularity, std::int64_t rows, std::int64_t cols, std::int64_t row,
                         std::int64_t col) {
  switch (granularity) {
    case Granularity::kTensor: return 0;
    case Granularity::kRow: return row;
    case Granularity::kVector: return col / kScaleBlock * rows + row;
    case Granularity::kBlock: return row / kScaleBlock * blocks(cols, kScaleBlock) + col / kScaleBlock;
    case Granularity::kMx: return col / kMxBlock * rows + row;
  }
  return 0;
}

std::vector<double> dequantized(const TensorView& q, bool transposed, const TensorView& scale,
                                Granularity granularity) {
  const std::vector<double> stored = numerics::to_doubles(q), scales = numerics::to_doubles(scale);
  const std::int64_t rows = q.shape[transposed ? 1 : 0], cols = q.shape[transposed ? 0 : 1];
  std::vector<double> values(stored.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto from = static_cast<std::size_t>(transposed ? c * rows + r : r * cols + c);
      const auto at = static_cast<std::size_t>(scale_index(granularity, rows, cols, r, c));
      values[static_cast<std::size_t>(r * cols + c)] = stored[from] * scales[at];
    }
  }
  return values;
}

}  // namespace ridge::ops
