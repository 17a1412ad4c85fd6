#include <algorithm>

#include "ops/embedding_backward/embedding_backward.h"

namespace ridge::ops::embedding_backward {

// With accumulate rows that no token names are not touched: at most as many rows as there are tokens.
record::Cost cost(const Problem& problem) {
  const Shape s = shape_of(problem);
  const auto bytes = [](DType dtype, std::int64_t count) { return static_cast<double>(size_bytes(dtype, count)); };
  record::Cost cost;
  cost.flop = static_cast<double>(s.tokens) * static_cast<double>(s.cols);
  cost.bytes = bytes(s.dtype, s.tokens * s.cols) + bytes(s.index, s.tokens);
  const std::int64_t named = std::min(s.tokens, s.vocabulary);
  cost.bytes += s.accumulate ? 2 * bytes(s.out, named * s.cols) : bytes(s.out, s.vocabulary * s.cols);
  return cost;
}

}  // namespace ridge::ops::embedding_backward
