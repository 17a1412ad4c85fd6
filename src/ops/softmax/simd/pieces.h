// Pieces of rows in fp32. Compiled once per instruction set; best_pieces() picks.
#pragma once

#include <cstdint>

#include "ops/lanes.h"

namespace ridge::ops::softmax {

inline constexpr std::int64_t kPiece = 2048;  // numbers that stay in the first-level cache between two conversions

struct Pieces {
  // z = scale x; z may be x.
  void (*scale)(const float* x, float scale, float* z, std::int64_t count);
  // The largest number, -infinity if there is none; NaN counts as none.
  float (*largest)(const float* z, std::int64_t count);
  // lanes += e^(z - most), which is kept in e unless that is null. No z is larger than `most`, which is finite.
  void (*powers)(const float* z, float most, float* e, Lanes& lanes, std::int64_t count);
  // out = (z - most) - log_sum
  void (*logs)(const float* z, float most, float log_sum, float* out, std::int64_t count);
  // lanes += dy; lanes += dy y.
  void (*sum)(const float* dy, Lanes& lanes, std::int64_t count);
  void (*products)(const float* dy, const float* y, Lanes& lanes, std::int64_t count);
  // out = scale (y (dy - sum)); out = scale (dy - e^y sum).
  void (*of_shares)(const float* dy, const float* y, float sum, float scale, float* out, std::int64_t count);
  void (*of_logs)(const float* dy, const float* y, float sum, float scale, float* out, std::int64_t count);
  // out = scale e^(z - lse)
  void (*of_sum)(const float* z, float lse, float scale, float* out, std::int64_t count);
};

const Pieces& pieces_portable();
const Pieces& pieces_avx2();
const Pieces& pieces_avx512();
const Pieces& best_pieces();

}  // namespace ridge::ops::softmax
