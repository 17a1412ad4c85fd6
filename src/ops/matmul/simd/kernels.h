// The inner loops of cpu_simd, compiled once per instruction set (portable.cpp, kernels_*.cpp)
// from the same templates (tile.h). The blocking around them is in driver.cpp and knows no instruction set.
#pragma once

#include <cstdint>

namespace ridge::ops::matmul::simd {

enum Element { kF32, kBf16, kF16, kElements };  // of the source of a panel, or of C

// One register tile of C: up to max_rows x (max_vectors * lanes) elements, one block of k in one go.
struct Tile {
  const float* a = nullptr;  // element (i, p) at a[i * a_stride + p] or a[i + p * a_stride], by the kernel's mode
  std::int64_t a_stride = 0;
  const float* b = nullptr;  // row p at b + p * b_stride
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t k = 0;
  int cols = 0;      // the last of the kernel's vectors has cols - (vectors - 1) * lanes of them
  bool add = false;  // C += tile instead of C = tile
  // Where it is not null the sums leave as 16-bit values instead: `c`, with `add`, plus the tile, plus with `add_old`
  // what is there, rounded once.
  std::uint16_t* narrow = nullptr;
  std::int64_t narrow_stride = 0;
  Element narrow_as = kBf16;
  bool add_old = false;
  bool fetch_c = false;  // C is far away: prefetch it
  // What the next tiles want, a line for every two steps: at (line & mask) * near + (line >> shift) * far bytes.
  const char* fetch = nullptr;
  std::int64_t fetch_near = 0, fetch_far = 0;
  int fetch_mask = 0, fetch_shift = 0;
};
using TileKernel = void (*)(const Tile&);

// Packs a panel so that the `width` values a tile needs at step p lie together: dest[p * dest_width + j], zeros for
// j >= width. Source element (p, j) is src[p * stride + j] (interleave) or src[j * stride + p] (transpose), for p < k.
// A step is one element widened to f32, or a pair of neighbours along k as they are stored (`depth` of the set), the
// last with a zero where k is odd. May write up to one vector beyond the panel's end.
using Pack = void (*)(const void* src, std::int64_t stride, std::int64_t k, int width, int dest_width, float* dest);

enum AMode { kAByRow, kAByStep, kAModes };  // A as stored row-major; packed, or stored transposed

// Few rows times a matrix that is read once, as it is stored: out[i * out_stride + j] = sum over p of x(i, p) *
// matrix(p, j), for `cols` of j. Rows of x are steps, as packed, `x_stride` apart, zeros up to a whole vector.
struct FewRows {
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  std::int64_t rows = 0, cols = 0, k = 0;
  const void* matrix = nullptr;
  std::int64_t stride = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
};
inline constexpr int kDotCols = 4;  // columns that a kernel along k sums at once, by lanes / kDotCols rows
using FewRowsKernel = void (*)(const FewRows&);

inline constexpr int kMaxRows = 14, kMaxVectors = 2;

struct KernelSet {
  const char* name = nullptr;
  int lanes = 0, max_rows = 0, max_vectors = 0;
  int depth = 1;    // elements of k in a step: 1, or 2 where the instructions multiply pairs
  int block = 512;  // steps of k at most that a panel of B has, where k is cut
  TileKernel tile[kAModes][2 /* masked last vector */][kMaxVectors][kMaxRows] = {};  // by vectors - 1, rows - 1
  Pack interleave[kElements] = {}, transpose[kElements] = {};
  // Matrix element (p, j) at j * stride + p; or one row (of f32 steps always) with it at p * stride + j.
  FewRowsKernel along[kElements] = {}, across[kElements] = {};
};

const KernelSet& portable_kernels();
// Null where the compiler cannot target them; the caller checks that the processor can run them.
const KernelSet* avx2_kernels();
const KernelSet* avx512_kernels();
const KernelSet* bf16dot_kernels();  // of bf16 alone

}  // namespace ridge::ops::matmul::simd
