// Register tile and packing templates, instantiated by each instruction set with its own vector type V:
//   V::Reg, V::kLanes, V::kRows, zero, load, load_part(p, count), store, store_part, broadcast, fma, add,
//   V::load_as<E>(p), V::load_part_as<E>(p, count)    widened from element E
//   V::transpose(Reg[kLanes])
// V must be a type of its own namespace, so that no instantiation is shared between instruction sets.
//
// Why this shape: each step of k loads `Vectors` vectors of B, then broadcasts one value of A per row; every loaded
// value of B is used Rows times and every one of A Vectors times. Rows * Vectors sums must fit the registers, and there
// must be enough of them to hide the latency of FMA (4 cycles x 2 units = 8).
#pragma once

#include "ops/gemm/simd/kernels.h"

namespace ridge::ops::gemm::simd {

template <class V, int Rows, int Vectors, bool kMasked, AMode kMode>
void tile_kernel(const Tile& t) {
  using Reg = typename V::Reg;
  constexpr int kLanes = V::kLanes, kUnroll = 2;
  const int tail = t.cols - (Vectors - 1) * kLanes;
  const std::int64_t c_stride = t.c_stride, a_stride = t.a_stride, b_stride = t.b_stride;
  float* const c = t.c;
  if (t.fetch_c) {  // it is needed only at the end, and comes meanwhile
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) __builtin_prefetch(c + i * c_stride + j * kLanes, 1);
    }
  }
  Reg sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) sum[i][j] = V::zero();
  }
  const float* b = t.b;
  // Rows of A in groups of three around one pointer each, so that an address is base, base + stride or base + 2 stride:
  // with one pointer per row the integer registers run out and the compiler parks them in vector registers.
  constexpr int kBases = kMode == kAByRow ? (Rows + 2) / 3 : 1;
  const float* base[kBases];
#pragma GCC unroll 8
  for (int g = 0; g < kBases; ++g) base[g] = t.a + 3 * g * a_stride;
  const auto step = [&](int ahead) __attribute__((always_inline)) {
    Reg right[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      right[j] = kMasked && j == Vectors - 1 ? V::load_part(b + j * kLanes, tail) : V::load(b + j * kLanes);
    }
    b += b_stride;
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const Reg left =
          V::broadcast(kMode == kAByRow ? base[i / 3] + (i % 3) * a_stride + ahead : base[0] + ahead * a_stride + i);
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sum[i][j] = V::fma(left, right[j], sum[i][j]);
    }
  };
  const auto advance = [&](int steps) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int g = 0; g < kBases; ++g) {
      base[g] += kMode == kAByRow ? steps : steps * a_stride;
      __asm__("" : "+r"(base[g]));  // keeps the bases apart
    }
  };
  std::int64_t p = t.k;
  for (; p >= kUnroll; p -= kUnroll) {
#pragma GCC unroll 8
    for (int u = 0; u < kUnroll; ++u) step(u);
    advance(kUnroll);
  }
  for (; p > 0; --p) {
    step(0);
    advance(1);
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      float* const place = c + i * c_stride + j * kLanes;
      if (kMasked && j == Vectors - 1) {
        V::store_part(place, t.add ? V::add(V::load_part(place, tail), sum[i][j]) : sum[i][j], tail);
      } else {
        V::store(place, t.add ? V::add(V::load(place), sum[i][j]) : sum[i][j]);
      }
    }
  }
}

template <class V, Element E>
void pack_interleave(const void* source, std::int64_t stride, std::int64_t k, int width, int dest_width, float* dest) {
  using Stored = typename V::template Stored<E>;
  const Stored* row = static_cast<const Stored*>(source);
  for (std::int64_t p = 0; p < k; ++p, row += stride, dest += dest_width) {
    int j = 0;
    for (; j + V::kLanes <= width; j += V::kLanes) V::store(dest + j, V::template load_as<E>(row + j));
    if (j < width) {
      V::store(dest + j, V::template load_part_as<E>(row + j, width - j));
      j += V::kLanes;
    }
    for (; j < dest_width; j += V::kLanes) V::store(dest + j, V::zero());
  }
}

template <class V, Element E>
void pack_transpose(const void* source, std::int64_t stride, std::int64_t k, int width, int dest_width, float* dest) {
  using Stored = typename V::template Stored<E>;
  constexpr int kLanes = V::kLanes;
  const Stored* const base = static_cast<const Stored*>(source);
  for (std::int64_t p = 0; p < k; p += kLanes) {
    const int steps = k - p < kLanes ? static_cast<int>(k - p) : kLanes;
    float* const out = dest + p * dest_width;
    typename V::Reg block[kLanes];
    // A store may run over the first values of the next step, which are written after it: ascending order matters.
    for (int j0 = 0; j0 < dest_width; j0 += kLanes) {
      for (int j = 0; j < kLanes; ++j) {
        const Stored* const from = base + (j0 + j) * stride + p;
        block[j] = j0 + j >= width   ? V::zero()
                   : steps == kLanes ? V::template load_as<E>(from)
                                     : V::template load_part_as<E>(from, steps);
      }
      V::transpose(block);
      for (int s = 0; s < steps; ++s) V::store(out + s * dest_width + j0, block[s]);
    }
  }
}

// Steps of k that are summed in one go, as a block of the tiles is: sums of more would lose what a block keeps.
inline constexpr std::int64_t kVectorBlock = 512;

// Vectors of x and of kRows rows of the matrix, two sums for each row; `out` gets them added with `add`.
template <class V, Element E, int kRows>
void dot_rows(const float* x, const typename V::template Stored<E>* matrix, std::int64_t stride, std::int64_t k,
              bool add, float* out) {
  constexpr int kLanes = V::kLanes, kSums = 2;
  typename V::Reg sum[kRows][kSums];
  for (auto& row : sum) {
    for (auto& one : row) one = V::zero();
  }
  std::int64_t p = 0;
  for (; p + kSums * kLanes <= k; p += kSums * kLanes) {
#pragma GCC unroll 2
    for (int s = 0; s < kSums; ++s) {
      const typename V::Reg right = V::load(x + p + s * kLanes);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        sum[i][s] = V::fma(V::template load_as<E>(matrix + i * stride + p + s * kLanes), right, sum[i][s]);
      }
    }
  }
  for (; p < k; p += kLanes) {
    const int rest = k - p < kLanes ? static_cast<int>(k - p) : kLanes;
    const typename V::Reg right = V::load_part(x + p, rest);
    for (int i = 0; i < kRows; ++i) {
      sum[i][0] = V::fma(V::template load_part_as<E>(matrix + i * stride + p, rest), right, sum[i][0]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    float lanes[kLanes];
    V::store(lanes, V::add(sum[i][0], sum[i][1]));
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    out[i] = add ? out[i] + lanes[0] : lanes[0];
  }
}

template <class V, Element E>
void vector_along(const float* x, const void* source, std::int64_t stride, std::int64_t k, std::int64_t count,
                  float* out) {
  const auto* matrix = static_cast<const typename V::template Stored<E>*>(source);
  constexpr int kRows = 4;
  // A lane sums its share of the steps, so that as many blocks as there are lanes are as good as one.
  constexpr std::int64_t kSteps = kVectorBlock * V::kLanes;
  for (std::int64_t j = 0; j < count;) {
    const bool whole = j + kRows <= count;
    for (std::int64_t p = 0; p < k; p += kSteps) {
      const auto* const at = matrix + j * stride + p;
      const std::int64_t steps = k - p < kSteps ? k - p : kSteps;
      if (whole) {
        dot_rows<V, E, kRows>(x + p, at, stride, steps, p > 0, out + j);
      } else {
        dot_rows<V, E, 1>(x + p, at, stride, steps, p > 0, out + j);
      }
    }
    j += whole ? kRows : 1;
  }
}

// Rows of the matrix in order, so that memory is read as it lies; the sums of a block stay in L1.
template <class V, Element E>
void vector_across(const float* x, const void* source, std::int64_t stride, std::int64_t k, std::int64_t count,
                   float* out) {
  using Reg = typename V::Reg;
  const auto* const matrix = static_cast<const typename V::template Stored<E>*>(source);
  constexpr int kLanes = V::kLanes;
  constexpr std::int64_t kInL1 = 2048, kRows = 4;
  float part[kInL1];
  for (std::int64_t begin = 0; begin < count; begin += kInL1) {
    const std::int64_t cols = count - begin < kInL1 ? count - begin : kInL1;
    for (std::int64_t first = 0; first < k; first += kVectorBlock) {
      const std::int64_t last = k - first < kVectorBlock ? k : first + kVectorBlock;
      for (std::int64_t p = first; p < last; p += kRows) {
        const std::int64_t rows = last - p < kRows ? last - p : kRows;
        const auto* const row = matrix + p * stride + begin;
        for (std::int64_t j = 0; j < cols; j += kLanes) {
          const int width = cols - j < kLanes ? static_cast<int>(cols - j) : kLanes;
          Reg sum = p == first ? V::zero() : V::load(part + j);
          for (std::int64_t i = 0; i < rows; ++i) {
            const auto* const from = row + i * stride + j;
            sum =
                V::fma(V::broadcast(x + p + i),
                       width == kLanes ? V::template load_as<E>(from) : V::template load_part_as<E>(from, width), sum);
          }
          V::store(part + j, sum);
        }
      }
      for (std::int64_t j = 0; j < cols; ++j) out[begin + j] = first == 0 ? part[j] : out[begin + j] + part[j];
    }
  }
}

template <class V, AMode kMode, bool kMasked, int Vectors, int Rows>
constexpr void fill_rows(KernelSet& set) {
  set.tile[kMode][kMasked][Vectors - 1][Rows - 1] = &tile_kernel<V, Rows, Vectors, kMasked, kMode>;
  if constexpr (Rows > 1) fill_rows<V, kMode, kMasked, Vectors, Rows - 1>(set);
}

template <class V, int Vectors>
constexpr void fill_vectors(KernelSet& set) {
  fill_rows<V, kAByRow, false, Vectors, V::kRows>(set);
  fill_rows<V, kAByRow, true, Vectors, V::kRows>(set);
  fill_rows<V, kAByStep, false, Vectors, V::kRows>(set);
  fill_rows<V, kAByStep, true, Vectors, V::kRows>(set);
  if constexpr (Vectors > 1) fill_vectors<V, Vectors - 1>(set);
}

template <class V, int Vectors>
constexpr KernelSet make_kernels(const char* name) {
  KernelSet set{};
  set.name = name;
  set.lanes = V::kLanes;
  set.max_rows = V::kRows;
  set.max_vectors = Vectors;
  fill_vectors<V, Vectors>(set);
  set.interleave[kF32] = &pack_interleave<V, kF32>;
  set.interleave[kBf16] = &pack_interleave<V, kBf16>;
  set.interleave[kF16] = &pack_interleave<V, kF16>;
  set.transpose[kF32] = &pack_transpose<V, kF32>;
  set.transpose[kBf16] = &pack_transpose<V, kBf16>;
  set.transpose[kF16] = &pack_transpose<V, kF16>;
  set.along[kF32] = &vector_along<V, kF32>;
  set.along[kBf16] = &vector_along<V, kBf16>;
  set.along[kF16] = &vector_along<V, kF16>;
  set.across[kF32] = &vector_across<V, kF32>;
  set.across[kBf16] = &vector_across<V, kBf16>;
  set.across[kF16] = &vector_across<V, kF16>;
  return set;
}

}  // namespace ridge::ops::gemm::simd
