#include "ops/route/simd/pieces_body.h"

namespace ridge::ops::route {

const Pieces& pieces_portable() { return kPieces; }

}  // namespace ridge::ops::route
