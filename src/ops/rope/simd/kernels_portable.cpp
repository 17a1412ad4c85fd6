#include "ops/rope/simd/pieces_body.h"

namespace ridge::ops::rope {

const Pieces& pieces_portable() { return kPieces; }

}  // namespace ridge::ops::rope
