#include "ops/attention/simd/tile_body.h"

namespace ridge::ops::attention {

void tile_step_avx512(Tile& tile, std::int64_t rows) { tile_step(tile, rows); }

}  // namespace ridge::ops::attention
