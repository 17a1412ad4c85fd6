#include "ops/softmax/simd/pieces_body.h"

namespace ridge::ops::softmax {

const Pieces& pieces_avx512() { return kPieces; }

}  // namespace ridge::ops::softmax
