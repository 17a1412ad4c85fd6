// Pieces of rows in fp32, vectors of 16 numbers at a time. Compiled once per instruction set; best_pieces() picks.
#pragma once

#include <cstdint>

#include "ops/lanes.h"

namespace ridge::ops::rmsnorm {

inline constexpr std::int64_t kPiece = 1024;  // numbers that stay in the first-level cache between two conversions

struct Pieces {
  // lanes += x^2
  void (*square)(Lanes& lanes, const float* x, std::int64_t count);
  // y = x scale w; w may be null: 1
  void (*scale)(const float* x, const float* w, float scale, float* y, std::int64_t count);
  // y = x + more
  void (*add)(const float* x, const float* more, float* y, std::int64_t count);
  // lanes += dy w x; w may be null
  void (*product)(Lanes& lanes, const float* dy, const float* w, const float* x, std::int64_t count);
  // dx = (dy w - c x) rstd + more; w and more may be null. dx may be dy.
  void (*gradient)(const float* dy, const float* w, const float* x, float c, float rstd, const float* more, float* dx,
                   std::int64_t count);
  // total += dy (x rstd)
  void (*weight)(const float* dy, const float* x, float rstd, float* total, std::int64_t count);
};

const Pieces& pieces_portable();
const Pieces& pieces_avx2();
const Pieces& pieces_avx512();
const Pieces& best_pieces();

}  // namespace ridge::ops::rmsnorm
