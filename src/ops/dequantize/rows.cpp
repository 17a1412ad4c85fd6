#include "ops/dequantize/rows.h"

#include <algorithm>
#include <array>

#include "numerics/convert.h"

namespace ridge::ops::dequantize {
namespace {

// The 256 values of a format.
using Table = std::array<float, 256>;
const Table& table_of(DType format) {
  const auto fill = [](DType dtype) {
    Table table;
    for (std::size_t code = 0; code < table.size(); ++code) {
      table[code] = static_cast<float>(numerics::decode(dtype, code));
    }
    return table;
  };
  static const Table e4m3fn = fill(DType::kE4m3fn), e5m2 = fill(DType::kE5m2);
  return format == DType::kE4m3fn ? e4m3fn : e5m2;
}

float scale_of(const TensorView& scale, Granularity granularity, std::int64_t row, std::int64_t col) {
  std::int64_t offset = 0;
  switch (granularity) {
    case Granularity::kTensor: break;
    case Granularity::kRow: offset = row; break;
    case Granularity::kVector: offset = col / kScaleBlock * scale.stride[0] + row; break;
    case Granularity::kBlock: offset = row / kScaleBlock * scale.stride[0] + col / kScaleBlock; break;
    case Granularity::kMx: offset = col / kMxBlock * scale.stride[0] + row; break;
  }
  if (scale.dtype == DType::kF32) return static_cast<const float*>(scale.data)[offset];
  return static_cast<float>(numerics::load(scale.dtype, scale.data, offset));
}

}  // namespace

void scaled_row(const TensorView& q, bool transposed, const TensorView& scale, Granularity granularity,
                std::int64_t row, std::int64_t first, std::int64_t count, float* out) {
  const Table& value = table_of(q.dtype);
  const std::int64_t step = transposed ? q.stride[0] : 1;
  const auto* codes = static_cast<const unsigned char*>(q.data) + (transposed ? row : row * q.stride[0]) + first * step;
  const bool blocks = granularity != Granularity::kTensor && granularity != Granularity::kRow;
  const std::int64_t block = granularity == Granularity::kMx ? kMxBlock : kScaleBlock;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t col = first + done;
    const std::int64_t part = blocks ? std::min(count - done, block - col % block) : count;
    const float factor = scale.rank == 0 ? 1.0f : scale_of(scale, granularity, row, col);
    for (std::int64_t i = 0; i < part; ++i) out[done + i] = value[codes[(done + i) * step]] * factor;
    done += part;
  }
}

}  // namespace ridge::ops::dequantize
