// What the CPU kernels of both directions share beside their pieces.
#pragma once

#include <memory>
#include <new>

#include "base/error.h"
#include "ops/row_norm/row_norm.h"
#include "ops/row_norm/simd/pieces.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::row_norm {

// A vector with a number for each column as fp32, each plus `more`; null where the operand is left out.
inline Result<std::unique_ptr<float[]>> columns_of(const Problem& problem, const TensorView& vector, float more) {
  std::unique_ptr<float[]> numbers;
  if (vector.rank == 0) return numbers;
  const std::int64_t cols = vector.shape[0];
  numbers.reset(new (std::nothrow) float[static_cast<std::size_t>(cols)]);
  if (numbers == nullptr) {
    return with_hint(
        make_error(ErrorCode::kIo, "{}: no memory for {} floats of weights", problem.problem_case.text(), cols),
        "free some memory");
  }
  numerics::to_float(vector.dtype, vector.data, numbers.get(), cols);
  for (std::int64_t j = 0; more != 0 && j < cols; ++j) numbers[static_cast<std::size_t>(j)] += more;
  return numbers;
}

}  // namespace ridge::ops::row_norm
