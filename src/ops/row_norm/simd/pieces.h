// Pieces of rows in fp32, vectors of 16 numbers at a time. Compiled once per instruction set; best_pieces() picks.
#pragma once

#include <cstdint>

#include "ops/lanes.h"

namespace ridge::ops::row_norm {

inline constexpr std::int64_t kPiece = 1024;  // numbers that stay in the first-level cache between two conversions

// What is taken off every x, in two steps: the difference of near numbers is exact, and a mean as one number is not.
struct Centre {
  float shift = 0, rest = 0;
};

struct Pieces {
  // lanes += x^2
  void (*square)(Lanes& lanes, const float* x, std::int64_t count);
  // sums += x - shift, squares += (x - shift)^2
  void (*moments)(Lanes& sums, Lanes& squares, const float* x, float shift, std::int64_t count);
  // y = (x - centre) factor w + b; centre, w and b may be null
  void (*scale)(const float* x, const Centre* centre, float factor, const float* w, const float* b, float* y,
                std::int64_t count);
  // y = x + more
  void (*add)(const float* x, const float* more, float* y, std::int64_t count);
  // products += dy w (x - mean), and where there is a mean plain += dy w; mean and w may be null
  void (*product)(Lanes& products, Lanes& plain, const float* dy, const float* w, const float* x, const float* mean,
                  std::int64_t count);
  // dx = (dy w - plain - c (x - mean)) rstd + more; mean, w and more may be null. dx may be dy.
  void (*gradient)(const float* dy, const float* w, const float* x, const float* mean, float plain, float c, float rstd,
                   const float* more, float* dx, std::int64_t count);
  // weight += dy ((x - mean) rstd); mean may be null
  void (*weight)(const float* dy, const float* x, const float* mean, float rstd, float* weight, std::int64_t count);
};

const Pieces& pieces_portable();
const Pieces& pieces_avx2();
const Pieces& pieces_avx512();
const Pieces& best_pieces();

}  // namespace ridge::ops::row_norm
