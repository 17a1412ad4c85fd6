#include "ops/embedding_backward/simd/pieces_body.h"

namespace ridge::ops::embedding_backward {

const Pieces& pieces_avx512() { return kPieces; }

}  // namespace ridge::ops::embedding_backward
