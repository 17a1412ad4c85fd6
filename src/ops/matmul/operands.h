// Operands of a matrix product in the kernels' words: types, rows, alignments.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/matmul/case.h"
#include "ops/op.h"
#include "ridge/dtype.h"

namespace ridge::ops::matmul {

inline ridge::cuda::GemmType cuda_type(DType dtype) {
  using ridge::cuda::GemmType;
  switch (dtype) {
    case DType::kBf16: return GemmType::kBf16;
    case DType::kF16: return GemmType::kF16;
    case DType::kE4m3fn: return GemmType::kE4m3;
    case DType::kE5m2: return GemmType::kE5m2;
    default: return GemmType::kF32;
  }
}

// Rows rounded up to what `alignment` bytes allow.
inline std::int64_t padded_row(std::int64_t row, DType dtype, int alignment) {
  const std::int64_t elements = std::max<std::int64_t>(1, alignment / static_cast<int>(size_bytes(dtype, 1)));
  return (row + elements - 1) / elements * elements;
}

// The stride of a single row is never used, so it may be one that every engine takes.
inline std::int64_t row_stride(const TensorView& view) {
  return view.shape[0] > 1 ? view.stride[0] : padded_row(view.shape[1], view.dtype, 16);
}

// With the strides and alignments of these operands.
inline ridge::cuda::GemmCase with_memory(ridge::cuda::GemmCase g, const TensorView& a, const TensorView& b,
                                         const TensorView& c) {
  g.lda = row_stride(a);
  g.ldb = row_stride(b);
  g.ldc = row_stride(c);
  g.base_alignment_ab = std::min(view_alignment(a), view_alignment(b));
  g.base_alignment_c = view_alignment(c);
  return g;
}

}  // namespace ridge::ops::matmul
