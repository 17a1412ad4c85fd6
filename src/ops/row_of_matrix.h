// Rows of a matrix for CPU kernels that compute in fp32: pieces of them as fp32 and back, and what they add up.
#pragma once

#include <cstdint>

#include "numerics/convert.h"
#include "ops/lanes.h"
#include "ridge/tensor.h"

namespace ridge::ops {

// The elements of one row of a matrix. Those of f32 are read where they lie.
class RowOfMatrix {
 public:
  RowOfMatrix(const TensorView& matrix, std::int64_t row)
      : dtype_(matrix.dtype),
        data_(static_cast<unsigned char*>(matrix.data) + size_bytes(matrix.dtype, row * matrix.stride[0])) {}

  // Elements first .. first + count as fp32, in `memory` unless they are that already.
  [[nodiscard]] const float* read(std::int64_t first, std::int64_t count, float* memory) const {
    if (dtype_ == DType::kF32 && aligned()) return reinterpret_cast<const float*>(data_) + first;
    numerics::to_float(dtype_, data_ + size_bytes(dtype_, first), memory, count);
    return memory;
  }
  // Where write() wants its numbers: in place for f32, else in `memory`.
  [[nodiscard]] float* target(std::int64_t first, float* memory) const {
    return dtype_ == DType::kF32 && aligned() ? reinterpret_cast<float*>(data_) + first : memory;
  }
  void write(std::int64_t first, std::int64_t count, const float* from) const {
    if (dtype_ == DType::kF32 && aligned()) return;
    numerics::from_float(dtype_, from, data_ + size_bytes(dtype_, first), count);
  }

 private:
  [[nodiscard]] bool aligned() const { return reinterpret_cast<std::uintptr_t>(data_) % alignof(float) == 0; }
  DType dtype_;
  unsigned char* data_;
};

// The sum of all lanes, in pairs.
inline float total_of(const Lanes& lanes) {
  float sums[64];
  for (int i = 0; i < 64; ++i) sums[i] = lanes.value[i];
  for (int width = 32; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) sums[i] += sums[i + width];
  }
  return sums[0];
}

}  // namespace ridge::ops
