#include "ops/attention/backward/simd/tile_body.h"

namespace ridge::ops::attention_backward {

TileKernels tile_kernels_avx512() {
  return {[](Tile& tile, std::int64_t rows) { weigh(tile, rows); }, [](const Product& product) { add(product); }};
}

}  // namespace ridge::ops::attention_backward
