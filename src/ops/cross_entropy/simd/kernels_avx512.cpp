#include "ops/cross_entropy/simd/pieces_body.h"

namespace ridge::ops::cross_entropy {

const Pieces& pieces_avx512() { return kPieces; }

}  // namespace ridge::ops::cross_entropy
