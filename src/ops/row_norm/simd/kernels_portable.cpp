#include "ops/row_norm/simd/pieces_body.h"

namespace ridge::ops::row_norm {

const Pieces& pieces_portable() { return kPieces; }

}  // namespace ridge::ops::row_norm
