#include <algorithm>

#include "ops/grouped_gemm/grouped_gemm.h"

namespace ridge::ops::grouped_gemm {

// Of offsets that leave no row out. Of a gathered operand at most as many rows are read as it has, with the index.
record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  const auto rows = static_cast<double>(s.rows), groups = static_cast<double>(s.groups), n = static_cast<double>(s.n);
  const auto depth = static_cast<double>(s.along_sums ? s.m : s.k);
  const double in = size_bits(s.dtype) / 8.0, out = size_bits(s.out) / 8.0;
  const double offsets = (groups + 1) * size_bits(s.offsets) / 8.0, stack = groups * depth * n;
  record::Cost cost;
  cost.flop = 2 * rows * depth * n;
  const auto sources = static_cast<double>(std::min(s.sources, s.rows));
  const double rows_a = s.gather == kOfA ? sources : rows, rows_b = s.gather == kOfB ? sources : rows;
  cost.bytes = s.along_sums ? (rows_a * depth + rows_b * n) * in + stack * out * (s.accumulate ? 2 : 1)
                            : (rows_a * depth + stack) * in + rows * n * out;
  cost.bytes += offsets + (s.gather == kNone ? 0 : rows * 4);
  if (s.epilogue == kSums) return cost;
  // About 20 FLOP for an element of y, or 40 of its gradients; y, and with gradients gate_up and twice as much of C.
  const bool backward = s.epilogue == kSwigluBackward;
  const double elements = rows * static_cast<double>(s.inner());
  cost.flop += elements * (backward ? 40 : 20);
  cost.bytes += elements * in * (backward ? 4 : 1) + (s.probs ? rows * (backward ? 8 : 4) : 0);
  return cost;
}

}  // namespace ridge::ops::grouped_gemm
