// Pieces of rows in fp32. Compiled once per instruction set; best_pieces() picks.
#pragma once

#include <cstdint>

namespace ridge::ops::embedding_backward {

inline constexpr std::int64_t kPiece = 2048;  // numbers that stay in the first-level cache between two conversions

struct Pieces {
  // sum += x
  void (*add)(const float* x, float* sum, std::int64_t count);
};

const Pieces& pieces_portable();
const Pieces& pieces_avx2();
const Pieces& pieces_avx512();
const Pieces& best_pieces();

}  // namespace ridge::ops::embedding_backward
