#include "ops/row_norm/simd/pieces_body.h"

namespace ridge::ops::row_norm {

const Pieces& pieces_avx512() { return kPieces; }

}  // namespace ridge::ops::row_norm
