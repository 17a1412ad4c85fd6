#include "ops/rmsnorm/simd/pieces_body.h"

namespace ridge::ops::rmsnorm {

const Pieces& pieces_avx512() { return kPieces; }

}  // namespace ridge::ops::rmsnorm
