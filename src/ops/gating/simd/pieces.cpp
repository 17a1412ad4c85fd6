#include "ops/gating/simd/pieces.h"

#include "device/cpu/cpu_info.h"

namespace ridge::ops::activation {

const Pieces& best_pieces() {
  static const Pieces& best = device::cpu::widest(pieces_avx512(), pieces_avx2(), pieces_portable());
  return best;
}

}  // namespace ridge::ops::activation
