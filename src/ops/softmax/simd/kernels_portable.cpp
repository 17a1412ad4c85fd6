#include "ops/softmax/simd/pieces_body.h"

namespace ridge::ops::softmax {

const Pieces& pieces_portable() { return kPieces; }

}  // namespace ridge::ops::softmax
