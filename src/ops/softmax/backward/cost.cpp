#include "ops/softmax/backward/backward.h"

namespace ridge::ops::softmax_backward {

record::Cost cost(const Problem& problem) {
  return softmax::cost_of(problem, softmax::shape_of(problem).form == SoftmaxForm::kSoftmax ? 6 : 15);
}

}  // namespace ridge::ops::softmax_backward
