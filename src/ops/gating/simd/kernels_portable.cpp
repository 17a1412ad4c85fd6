#include "ops/gating/simd/pieces_body.h"

namespace ridge::ops::activation {

const Pieces& pieces_portable() { return kPieces; }

}  // namespace ridge::ops::activation
