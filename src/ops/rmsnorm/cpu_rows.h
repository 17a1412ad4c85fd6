// What the CPU kernels share beside their pieces.
#pragma once

#include <memory>
#include <new>

#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rmsnorm/simd/pieces.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::rmsnorm {

// The factors of the columns as fp32; empty where there is no weight. Null: no memory.
inline std::unique_ptr<float[]> weights_of(const TensorView& weight, bool zero_centred, std::int64_t cols) {
  std::unique_ptr<float[]> factors(new (std::nothrow) float[static_cast<std::size_t>(cols)]);
  if (factors == nullptr || weight.rank == 0) return factors;
  numerics::to_float(weight.dtype, weight.data, factors.get(), cols);
  for (std::int64_t j = 0; zero_centred && j < cols; ++j) factors[static_cast<std::size_t>(j)] += 1;
  return factors;
}

}  // namespace ridge::ops::rmsnorm
