#include "ops/rmsnorm/backward/backward.h"

namespace ridge::ops::rmsnorm_backward {

Implementation cpu_rows() { return row_norm::backward_rows(); }

}  // namespace ridge::ops::rmsnorm_backward
