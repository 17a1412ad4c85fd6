#include "ops/rmsnorm/simd/pieces_body.h"

namespace ridge::ops::rmsnorm {

const Pieces& pieces_portable() { return kPieces; }

}  // namespace ridge::ops::rmsnorm
