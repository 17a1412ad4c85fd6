#include "ops/softmax/simd/pieces_body.h"

namespace ridge::ops::softmax {

const Pieces& pieces_avx2() { return kPieces; }

}  // namespace ridge::ops::softmax
