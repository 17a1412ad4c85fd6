#include "ops/rmsnorm/rmsnorm.h"

namespace ridge::ops::rmsnorm {

Implementation cpu_rows() { return row_norm::forward_rows(kKind); }

}  // namespace ridge::ops::rmsnorm
