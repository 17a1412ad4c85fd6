#include "ops/rmsnorm/backward/backward.h"

namespace ridge::ops::rmsnorm_backward {

record::Cost cost(const Problem& problem) {
  const row_norm::BackwardShape s = shape_of(problem);
  return row_norm::cost(problem, (s.dx ? 7 : 0) + (s.dweight ? 3 : 0));
}

}  // namespace ridge::ops::rmsnorm_backward
