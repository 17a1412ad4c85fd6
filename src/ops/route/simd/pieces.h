// Scores of a row in fp64, as close to exact as the choice asks. Compiled once per instruction set; best_pieces()
// picks.
#pragma once

#include <cstdint>

namespace ridge::ops::route {

// Every count is a multiple of this, so that all elements go the same way: equal logits must have equal scores.
inline constexpr std::int64_t kLanes = 16;
inline std::int64_t padded(std::int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

struct Pieces {
  // The largest number, -infinity if there is none; NaN counts as none.
  float (*largest)(const float* x, std::int64_t count);
  // to = e^(x - most): 1 where x is `most`, infinite or not, and 0 where it is NaN. Returns their sum.
  double (*powers)(const float* x, float most, double* to, std::int64_t count);
  // to = 1 / (1 + e^-x); NaN of NaN.
  void (*sigmoids)(const float* x, double* to, std::int64_t count);
};

const Pieces& pieces_portable();
const Pieces& pieces_avx2();
const Pieces& pieces_avx512();
const Pieces& best_pieces();

}  // namespace ridge::ops::route
