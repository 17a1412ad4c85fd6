#include "ops/adamw/simd/pieces.h"

#include "device/cpu/cpu_info.h"

namespace ridge::ops::adamw {

Step best_step() { return device::cpu::widest<Step>(step_avx512, step_avx2, step_portable); }

}  // namespace ridge::ops::adamw
