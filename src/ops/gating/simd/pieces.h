// Pieces of rows in fp32. Compiled once per instruction set; best_pieces() picks.
#pragma once

#include <cstdint>

#include "ops/lanes.h"
#include "ridge/activation_function.h"

namespace ridge::ops::activation {

inline constexpr std::int64_t kPiece = 1024;  // numbers that stay in the first-level cache between two conversions

struct Factors {
  float probs = 1, alpha = 0, limit = 0;  // of the row; of clamped_silu
};
// The inputs and outputs of a piece of backward; up and dup are null without a gate.
struct Gradients {
  const float *dy, *x, *up;
  float *dx, *dup;
};

struct Pieces {
  // y = probs f(x) u(up); up may be null: 1
  void (*forward)(ActivationFunction function, const Factors& factors, const float* x, const float* up, float* y,
                  std::int64_t count);
  // dx = probs dy u f'(x); dup = probs dy f(x) u'; lanes += dy f(x) u
  void (*backward)(ActivationFunction function, const Factors& factors, const Gradients& piece, Lanes& lanes,
                   std::int64_t count);
};

const Pieces& pieces_portable();
const Pieces& pieces_avx2();
const Pieces& pieces_avx512();
const Pieces& best_pieces();

}  // namespace ridge::ops::activation
