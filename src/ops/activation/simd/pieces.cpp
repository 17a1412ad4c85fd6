#include "ops/activation/simd/pieces.h"

#include "device/cpu/cpu_info.h"

namespace ridge::ops::activation {

const Pieces& best_pieces() {
  static const Pieces& best = []() -> const Pieces& {
    const device::cpu::CpuInfo& cpu = device::cpu::cpu_info();
    if (cpu.has_avx512()) return pieces_avx512();
    return cpu.has("avx2") && cpu.has("fma") ? pieces_avx2() : pieces_portable();
  }();
  return best;
}

}  // namespace ridge::ops::activation
