// A view of memory that the caller owns: pointer, dtype, shape, strides in elements.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "ridge/dtype.h"

namespace ridge {

inline constexpr int kMaxRank = 5;

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> stride{};  // in elements

  // Row-major, no padding between rows.
  static TensorView contiguous(void* data, DType dtype, std::initializer_list<std::int64_t> shape);
  // A [rows, cols] matrix whose consecutive rows are `row_stride` elements apart.
  static TensorView matrix(void* data, DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t row_stride);

  [[nodiscard]] std::int64_t element_count() const;
  // "bf16 [4096, 7168]", or with strides when they are not row-major; used in error messages.
  [[nodiscard]] std::string describe() const;
};

}  // namespace ridge
