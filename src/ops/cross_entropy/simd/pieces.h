// Pieces of rows in fp32. Compiled once per instruction set; best_pieces() picks.
#pragma once

#include <cstdint>

#include "ops/lanes.h"

namespace ridge::ops::cross_entropy {

inline constexpr std::int64_t kPiece = 2048;  // numbers that stay in the first-level cache between two conversions

// Of a gradient: what a power is multiplied by, what is taken away, and what that is multiplied by.
struct Share {
  float factor = 1, shift = 0, scale = 1;
};

struct Pieces {
  // The largest number, -infinity if there is none; NaN counts as none.
  float (*largest)(const float* x, std::int64_t count);
  // lanes += e^(x - most), which is kept in e unless that is null. No x is larger than `most`, which is finite.
  void (*powers)(const float* x, float most, float* e, Lanes& lanes, std::int64_t count);
  // lanes += x
  void (*sum)(const float* x, Lanes& lanes, std::int64_t count);
  // y = cap tanh(x / cap); slope = 1 - tanh^2, unless that is null. y may be x.
  void (*soften)(const float* x, float cap, float* y, float* slope, std::int64_t count);
  // out = scale (factor e - shift); out may be e.
  void (*scale)(const float* e, const Share& share, float* out, std::int64_t count);
  // out = scale (factor e^(x - base) - shift); out may be x.
  void (*gradient)(const float* x, float base, const Share& share, float* out, std::int64_t count);
  // out *= factor
  void (*multiply)(const float* factor, float* out, std::int64_t count);
};

const Pieces& pieces_portable();
const Pieces& pieces_avx2();
const Pieces& pieces_avx512();
const Pieces& best_pieces();

}  // namespace ridge::ops::cross_entropy
