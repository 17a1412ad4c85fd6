#include "ops/layernorm/layernorm.h"

namespace ridge::ops::layernorm {

Implementation cpu_rows() { return row_norm::forward_rows(kKind); }

}  // namespace ridge::ops::layernorm
