#include "ops/layernorm/backward/backward.h"

namespace ridge::ops::layernorm_backward {

Implementation cpu_rows() { return row_norm::backward_rows(); }

}  // namespace ridge::ops::layernorm_backward
