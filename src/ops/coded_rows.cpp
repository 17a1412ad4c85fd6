#include "ops/coded_rows.h"

#include <algorithm>
#include <array>
#include <bit>

#include "numerics/convert.h"

namespace ridge::ops {
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

// Their upper halves: bf16 holds every one of them.
using Bf16Table = std::array<std::uint16_t, 256>;
const Bf16Table& bf16_table_of(DType format) {
  const auto narrow = [](const Table& table) {
    Bf16Table codes;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(table[i]) >> 16);
    }
    return codes;
  };
  static const Bf16Table e4m3fn = narrow(table_of(DType::kE4m3fn)), e5m2 = narrow(table_of(DType::kE5m2));
  return format == DType::kE4m3fn ? e4m3fn : e5m2;
}

const unsigned char* row_of(const TensorView& q, bool transposed, std::int64_t row) {
  return static_cast<const unsigned char*>(q.data) + (transposed ? row : row * q.stride[0]);
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
  const auto* const codes = row_of(q, transposed, row) + first * step;
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

void row_as_bf16(const TensorView& q, bool transposed, std::int64_t row, std::int64_t count, std::uint16_t* out) {
  const Bf16Table& value = bf16_table_of(q.dtype);
  const std::int64_t step = transposed ? q.stride[0] : 1;
  const unsigned char* const codes = row_of(q, transposed, row);
  for (std::int64_t i = 0; i < count; ++i) out[i] = value[codes[i * step]];
}

}  // namespace ridge::ops
