#include "ops/rmsnorm/simd/pieces_body.h"

namespace ridge::ops::rmsnorm {

const Pieces& pieces_avx2() { return kPieces; }

}  // namespace ridge::ops::rmsnorm
