// The loops of cpu_amx, in AMX and AVX-512 instructions (kernels_amx.cpp). The blocking around them is in driver.cpp.
//
// A tile is 1 KiB: 16 rows of 16 pairs of bf16, a pair being two neighbours along k. TDPBF16PS multiplies a tile of A
// (rows of A by pairs) with a tile of B (pairs by columns of B) into 16 x 16 fp32 sums. Packed operands are panels: 16
// rows of A, or 16 columns of B, tile after tile along k, with zeros beyond the operand's end.
#pragma once

#include <cstdint>

namespace ridge::ops::matmul::amx {

inline constexpr std::int64_t kSide = 16;         // rows and columns of the sums of one tile
inline constexpr std::int64_t kDepth = 32;        // of k in one tile
inline constexpr std::int64_t kTileBytes = 1024;  // of operands; of sums as well

// Up to two panels of each operand into 32 x 32 sums.
inline constexpr std::int64_t kPair = 2 * kSide;
struct Job {
  const void* a[2] = {};
  const void* b[2] = {};
  std::int64_t tiles = 0;  // along k
  float* sums = nullptr;   // rows of 32
  bool add = false;        // to what the sums hold
};

struct Kernels {
  // Between the two, on one thread, jobs may run.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
  void (*job[2][2])(const Job&) = {};  // by panels of A - 1, panels of B - 1
  // Packs `width` rows of A or columns of B, up to 32, into one or two panels that lie `panel_bytes` apart. Element
  // (j, p) is at src[j * stride + p] (along k) or at src[p * stride + j] (across).
  using Pack = void (*)(const std::uint16_t* src, std::int64_t stride, int width, std::int64_t k, char* dest,
                        std::int64_t panel_bytes);
  Pack a_along = nullptr, a_across = nullptr, b_along = nullptr, b_across = nullptr;
  // A job's sums to C, plus the old C with `add`: rounded once to bf16, or as they are.
  using Finish = void (*)(const float* sums, std::int64_t rows, std::int64_t cols, bool add, void* c,
                          std::int64_t c_stride);
  Finish to_bf16 = nullptr, to_f32 = nullptr;
};

// Null where the compiler cannot target them; the caller checks that the processor can run them.
const Kernels* amx_kernels();

}  // namespace ridge::ops::matmul::amx
