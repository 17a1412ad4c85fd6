// Heads in fp32. Compiled once per instruction set; best_pieces() picks.
#pragma once

#include <cstdint>

namespace ridge::ops::rope {

struct Pieces {
  // Turns the pairs (i, i + pairs), or neighbours, of x by the angles of cos and sign sin. y may be x.
  void (*halves)(const float* x, const float* cos, const float* sin, float sign, float* y, std::int64_t pairs);
  void (*neighbours)(const float* x, const float* cos, const float* sin, float sign, float* y, std::int64_t pairs);
  // Sums over a head, in one order whatever the instruction set: of x^2, and of g w x.
  float (*squares)(const float* x, std::int64_t count);
  float (*products)(const float* g, const float* w, const float* x, std::int64_t count);
};

const Pieces& pieces_portable();
const Pieces& pieces_avx2();
const Pieces& pieces_avx512();
const Pieces& best_pieces();

}  // namespace ridge::ops::rope
