// The inner loops of cpu_simd, compiled once per instruction set (portable.cpp, kernels_avx2.cpp, kernels_avx512.cpp)
// from the same templates (tile.h). The blocking around them is in driver.cpp and knows no instruction set.
#pragma once

#include <cstdint>

namespace ridge::ops::gemm::simd {

// One register tile of C: up to max_rows x (max_vectors * lanes) elements, one block of k in one go.
struct Tile {
  const float* a = nullptr;  // element (i, p) at a[i * a_stride + p] or a[i + p * a_stride], by the kernel's mode
  std::int64_t a_stride = 0;
  const float* b = nullptr;  // row p at b + p * b_stride
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t k = 0;
  int cols = 0;          // the last of the kernel's vectors has cols - (vectors - 1) * lanes of them
  bool add = false;      // C += tile instead of C = tile
  bool fetch_c = false;  // C is far away: prefetch it
};
using TileKernel = void (*)(const Tile&);

// Packs a panel so that the `width` values a tile needs at step p lie together: dest[p * dest_width + j], zeros for
// j >= width. Source element (p, j) is src[p * stride + j] (interleave) or src[j * stride + p] (transpose). Values are
// widened to f32. May write up to one vector beyond the panel's end.
using Pack = void (*)(const void* src, std::int64_t stride, std::int64_t k, int width, int dest_width, float* dest);

enum AMode { kAByRow, kAByStep, kAModes };      // A as stored row-major; packed, or stored transposed
enum Element { kF32, kBf16, kF16, kElements };  // of the source of a panel

// A vector times a matrix: out[j] = sum over p of x[p] * matrix(p, j), for `count` of j. Element (p, j) is at
// matrix[j * stride + p] (along k) or at matrix[p * stride + j] (across).
using VectorProduct = void (*)(const float* x, const void* matrix, std::int64_t stride, std::int64_t k,
                               std::int64_t count, float* out);

inline constexpr int kMaxRows = 14, kMaxVectors = 2;

struct KernelSet {
  const char* name = nullptr;
  int lanes = 0, max_rows = 0, max_vectors = 0;
  TileKernel tile[kAModes][2 /* masked last vector */][kMaxVectors][kMaxRows] = {};  // by vectors - 1, rows - 1
  Pack interleave[kElements] = {}, transpose[kElements] = {};
  VectorProduct along[kElements] = {}, across[kElements] = {};
};

const KernelSet& portable_kernels();
// Null where the compiler cannot target them; the caller checks that the processor can run them.
const KernelSet* avx2_kernels();
const KernelSet* avx512_kernels();

}  // namespace ridge::ops::gemm::simd
