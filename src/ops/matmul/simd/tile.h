// Register tile and packing templates, instantiated by each instruction set with its own vector type V:
//   V::Reg, V::kLanes, V::kRows, zero, load, load_part(p, count), store, store_part, broadcast, fma, add,
//   V::load_as<E>(p), V::load_part_as<E>(p, count)    kLanes steps of element E: widened, or pairs
//   V::widen_as<E>(p, count), V::narrow_as<E>(p, r, count)    values of a 16-bit C, kLanes or `count` fewer of them
//   V::kDepth           elements of k in a step: 1, or 2 of pairs, which V::fma multiplies and adds up
//   V::pair(p, q, count) with kDepth 2: steps of `count` columns from two rows; q may be null
//   V::transpose(Reg[kLanes])
// V must be a type of its own namespace, so that no instantiation is shared between instruction sets.
//
// Why this shape: each step of k loads `Vectors` vectors of B, then broadcasts one value of A per row; every loaded
// value of B is used Rows times and every one of A Vectors times. Rows * Vectors sums must fit the registers, and there
// must be enough of them to hide the latency of FMA (4 cycles x 2 units = 8).
#pragma once

#include "ops/matmul/simd/kernels.h"

namespace ridge::ops::matmul::simd {

// Calls each(sum, row, first column, number of columns) for all vectors of a tile.
template <class V, int Rows, int Vectors, bool kMasked, class Each>
[[gnu::always_inline]] inline void for_sums(typename V::Reg (&sum)[Rows][Vectors], int cols, const Each& each) {
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      const int first = j * V::kLanes;
      each(sum[i][j], i, first, kMasked && j == Vectors - 1 ? cols - first : V::kLanes);
    }
  }
}

// The sums of a tile, rounded to a 16-bit C.
template <class V, Element E, int Rows, int Vectors, bool kMasked>
[[gnu::always_inline]] inline void store_narrow(const Tile& t, typename V::Reg (&sum)[Rows][Vectors]) {
  const auto place = [&](int row, int first) __attribute__((always_inline)) {
    return t.narrow + row * t.narrow_stride + first;
  };
  if (t.add_old) {
    for_sums<V, Rows, Vectors, kMasked>(
        sum, t.cols, [&](auto& one, int row, int first, int count) __attribute__((always_inline)) {
          one = V::add(V::template widen_as<E>(place(row, first), count), one);
        });
  }
  for_sums<V, Rows, Vectors, kMasked>(
      sum, t.cols, [&](auto& one, int row, int first, int count) __attribute__((always_inline)) {
        V::template narrow_as<E>(place(row, first), one, count);
      });
}

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
      for (int j = 0; j < Vectors; ++j) {
        if (t.narrow == nullptr) {
          __builtin_prefetch(c + i * c_stride + j * kLanes, 1);
        } else if (j % 2 == 0) {
          __builtin_prefetch(t.narrow + i * t.narrow_stride + j * kLanes, 1);
        }
      }
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
  for (std::int64_t line = 0; p >= kUnroll; p -= kUnroll, ++line) {
    __builtin_prefetch(t.fetch + (line & t.fetch_mask) * t.fetch_near + (line >> t.fetch_shift) * t.fetch_far);
#pragma GCC unroll 8
    for (int u = 0; u < kUnroll; ++u) step(u);
    advance(kUnroll);
  }
  for (; p > 0; --p) {
    step(0);
    advance(1);
  }
  if (t.add) {
    for_sums<V, Rows, Vectors, kMasked>(
        sum, t.cols, [&](auto& one, int row, int first, int count) __attribute__((always_inline)) {
          const float* const old = c + row * c_stride + first;
          one = V::add(kMasked && count < kLanes ? V::load_part(old, count) : V::load(old), one);
        });
  }
  if (t.narrow != nullptr) {
    if (t.narrow_as == kBf16) return store_narrow<V, kBf16, Rows, Vectors, kMasked>(t, sum);
    return store_narrow<V, kF16, Rows, Vectors, kMasked>(t, sum);
  }
  for_sums<V, Rows, Vectors, kMasked>(
      sum, t.cols, [&](auto& one, int row, int first, int count) __attribute__((always_inline)) {
        float* const to = c + row * c_stride + first;
        if (kMasked && count < kLanes) {
          V::store_part(to, one, count);
        } else {
          V::store(to, one);
        }
      });
}

// kLanes steps along k of one column, of which the source has `elements`.
template <class V, Element E>
typename V::Reg load_steps(const typename V::template Stored<E>* from, std::int64_t elements) {
  constexpr int kWhole = V::kLanes * V::kDepth;
  return elements >= kWhole ? V::template load_as<E>(from)
                            : V::template load_part_as<E>(from, static_cast<int>(elements));
}

// One step of kLanes columns, of which the source has `count`; a pair is of two rows, or of one and zero.
template <class V, Element E>
typename V::Reg load_columns(const typename V::template Stored<E>* from, std::int64_t stride, std::int64_t rows,
                             int count) {
  if constexpr (V::kDepth == 2) {
    return V::pair(from, rows > 1 ? from + stride : nullptr, count);
  } else {
    return count >= V::kLanes ? V::template load_as<E>(from) : V::template load_part_as<E>(from, count);
  }
}

// Four steps of a panel of two vectors: eight loads that do not wait for each other, and no question about its width.
template <class V, Element E>
void copy_four_steps(const typename V::template Stored<E>* row, std::int64_t stride, float* dest) {
  typename V::Reg block[4][2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    block[i][0] = V::template load_as<E>(row + i * stride);
    block[i][1] = V::template load_as<E>(row + i * stride + V::kLanes);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    V::store(dest + 2 * i * V::kLanes, block[i][0]);
    V::store(dest + (2 * i + 1) * V::kLanes, block[i][1]);
  }
}

template <class V, Element E>
void pack_interleave(const void* source, std::int64_t stride, std::int64_t k, int width, int dest_width, float* dest) {
  const auto* row = static_cast<const typename V::template Stored<E>*>(source);
  if constexpr (V::kDepth == 1) {
    const bool whole = width == dest_width && width == 2 * V::kLanes;
    for (; whole && k >= 4; k -= 4, row += 4 * stride, dest += 8 * V::kLanes) copy_four_steps<V, E>(row, stride, dest);
  }
  for (std::int64_t p = 0; p < k; p += V::kDepth, row += V::kDepth * stride, dest += dest_width) {
    for (int j = 0; j < dest_width; j += V::kLanes) {
      V::store(dest + j, j < width ? load_columns<V, E>(row + j, stride, k - p, width - j) : V::zero());
    }
  }
}

template <class V, Element E>
void pack_transpose(const void* source, std::int64_t stride, std::int64_t k, int width, int dest_width, float* dest) {
  constexpr int kLanes = V::kLanes;
  const auto* const base = static_cast<const typename V::template Stored<E>*>(source);
  const std::int64_t steps = (k + V::kDepth - 1) / V::kDepth;
  constexpr int kAhead = 256 / sizeof(*base);  // rows are too many for the prefetcher to follow
  for (std::int64_t p = 0; p < steps; p += kLanes) {
    const std::int64_t rest = k - p * V::kDepth, count = steps - p < kLanes ? steps - p : kLanes;
    float* const out = dest + p * dest_width;
    typename V::Reg block[kLanes];
    // A store may run over the first values of the next step, which are written after it: ascending order matters.
    for (int j0 = 0; j0 < dest_width; j0 += kLanes) {
      for (int j = 0; j < kLanes; ++j) {
        const auto* const from = base + (j0 + j) * stride + p * V::kDepth;
        block[j] = j0 + j < width ? load_steps<V, E>(from, rest) : V::zero();
        if (j0 + j < width) __builtin_prefetch(from + kAhead);
      }
      V::transpose(block);
      for (std::int64_t s = 0; s < count; ++s) V::store(out + s * dest_width + j0, block[s]);
    }
  }
}

// Rows of x by kDotCols columns of the matrix, both along k, with lanes that each sum their share of the steps.
template <class V, Element E, int Rows>
void dot_tile(const float* x, std::int64_t x_stride, const typename V::template Stored<E>* const (&column)[kDotCols],
              std::int64_t k, bool add, int cols, float* out, std::int64_t out_stride) {
  using Reg = typename V::Reg;
  constexpr int kLanes = V::kLanes, kSums = Rows == 1 ? 2 : 1, kElementsAtOnce = kLanes * V::kDepth;
  Reg sum[kSums][Rows][kDotCols];
  for (auto& part : sum) {
    for (auto& row : part) {
      for (auto& one : row) one = V::zero();
    }
  }
  const auto step = [&](int s, std::int64_t p, auto load) __attribute__((always_inline)) {
    Reg right[kDotCols];
#pragma GCC unroll 4
    for (int j = 0; j < kDotCols; ++j) right[j] = load(column[j] + p);
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      const Reg left = V::load(x + i * x_stride + p / V::kDepth);
#pragma GCC unroll 4
      for (int j = 0; j < kDotCols; ++j) sum[s][i][j] = V::fma(left, right[j], sum[s][i][j]);
    }
  };
  const auto whole = [](const auto* from) __attribute__((always_inline)) { return V::template load_as<E>(from); };
  std::int64_t p = 0;
  for (; p + kSums * kElementsAtOnce <= k; p += kSums * kElementsAtOnce) {
#pragma GCC unroll 2
    for (int s = 0; s < kSums; ++s) step(s, p + s * kElementsAtOnce, whole);
  }
  for (; p < k; p += kElementsAtOnce) {
    step(
        0, p, [&](const auto* from) __attribute__((always_inline)) { return load_steps<V, E>(from, k - p); });
  }
  // Lane l of the sum of all turned registers is the total of register l.
  Reg turned[kLanes];
#pragma GCC unroll 16
  for (int l = 0; l < kLanes; ++l) {
    if (l >= Rows * kDotCols) {
      turned[l] = V::zero();
    } else {
      const int i = l / kDotCols, j = l % kDotCols;
      turned[l] = kSums == 2 ? V::add(sum[0][i][j], sum[kSums - 1][i][j]) : sum[0][i][j];
    }
  }
  V::transpose(turned);
#pragma GCC unroll 4
  for (int half = kLanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int l = 0; l < half; ++l) turned[l] = V::add(turned[l], turned[l + half]);
  }
  float totals[kLanes];
  V::store(totals, turned[0]);
  for (int i = 0; i < Rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      float& to = out[i * out_stride + j];
      to = add ? to + totals[i * kDotCols + j] : totals[i * kDotCols + j];
    }
  }
}

template <class V, Element E, int Rows>
void dot_rows(const FewRows& f, const typename V::template Stored<E>* const (&column)[kDotCols], std::int64_t p,
              std::int64_t k, std::int64_t i, int cols, float* out) {
  if constexpr (Rows > 1) {
    if (f.rows - i < Rows) return dot_rows<V, E, Rows - 1>(f, column, p, k, i, cols, out);
  }
  dot_tile<V, E, Rows>(f.x + i * f.x_stride + p / V::kDepth, f.x_stride, column, k, p > 0, cols, out + i * f.out_stride,
                       f.out_stride);
}

template <class V, Element E>
void few_rows_along(const FewRows& f) {
  using Stored = typename V::template Stored<E>;
  constexpr int kRows = V::kLanes / kDotCols;
  constexpr std::int64_t kBlock = 1024 * V::kDepth;  // of k: so much of x and of the columns stays in L1
  const auto* const matrix = static_cast<const Stored*>(f.matrix);
  const std::int64_t block = f.rows == 1 ? 8 * kBlock : kBlock;  // what one row reads is not used again
  for (std::int64_t p = 0; p < f.k; p += block) {
    const std::int64_t k = f.k - p < block ? f.k - p : block;
    for (std::int64_t j = 0; j < f.cols; j += kDotCols) {
      const int cols = f.cols - j < kDotCols ? static_cast<int>(f.cols - j) : kDotCols;
      const Stored* column[kDotCols];
      for (int c = 0; c < kDotCols; ++c) column[c] = matrix + (j + (c < cols ? c : cols - 1)) * f.stride + p;
      for (std::int64_t i = 0; i < f.rows; i += kRows) dot_rows<V, E, kRows>(f, column, p, k, i, cols, f.out + j);
    }
  }
}

// Rows of the matrix in order, so that memory is read as it lies; the sums of a block stay in L1. Sums of more steps
// than a block would lose what those of the tiles keep.
template <class V, Element E>
void one_row_across(const FewRows& f) {
  using Reg = typename V::Reg;
  const auto* const matrix = static_cast<const typename V::template Stored<E>*>(f.matrix);
  constexpr int kLanes = V::kLanes;
  constexpr std::int64_t kInL1 = 2048, kRows = 4, kBlock = 512;
  float part[kInL1];
  for (std::int64_t begin = 0; begin < f.cols; begin += kInL1) {
    const std::int64_t cols = f.cols - begin < kInL1 ? f.cols - begin : kInL1;
    for (std::int64_t first = 0; first < f.k; first += kBlock) {
      const std::int64_t last = f.k - first < kBlock ? f.k : first + kBlock;
      for (std::int64_t p = first; p < last; p += kRows) {
        const std::int64_t rows = last - p < kRows ? last - p : kRows;
        const auto* const row = matrix + p * f.stride + begin;
        for (std::int64_t j = 0; j < cols; j += kLanes) {
          const int width = cols - j < kLanes ? static_cast<int>(cols - j) : kLanes;
          Reg sum = p == first ? V::zero() : V::load(part + j);
          for (std::int64_t i = 0; i < rows; ++i) {
            sum = V::fma(V::broadcast(f.x + p + i), load_columns<V, E>(row + i * f.stride + j, 0, 1, width), sum);
          }
          V::store(part + j, sum);
        }
      }
      for (std::int64_t j = 0; j < cols; ++j) f.out[begin + j] = first == 0 ? part[j] : f.out[begin + j] + part[j];
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

template <class V, Element E>
constexpr void fill_element(KernelSet& set) {
  set.interleave[E] = &pack_interleave<V, E>;
  set.transpose[E] = &pack_transpose<V, E>;
  set.along[E] = &few_rows_along<V, E>;
  if constexpr (V::kDepth == 1) set.across[E] = &one_row_across<V, E>;
}

template <class V, int Vectors>
constexpr KernelSet make_kernels(const char* name) {
  KernelSet set{};
  set.name = name;
  set.lanes = V::kLanes;
  set.max_rows = V::kRows;
  set.max_vectors = Vectors;
  set.depth = V::kDepth;
  fill_vectors<V, Vectors>(set);
  fill_element<V, kBf16>(set);
  if constexpr (V::kDepth == 1) {
    fill_element<V, kF32>(set);
    fill_element<V, kF16>(set);
  }
  return set;
}

}  // namespace ridge::ops::matmul::simd
