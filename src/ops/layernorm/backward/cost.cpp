#include "ops/layernorm/backward/backward.h"

namespace ridge::ops::layernorm_backward {

record::Cost cost(const Problem& problem) {
  const row_norm::BackwardShape s = shape_of(problem);
  return row_norm::cost(problem, (s.dx ? 11 : 0) + (s.dweight ? 4 : 0) + (s.dbias ? 1 : 0));
}

}  // namespace ridge::ops::layernorm_backward
