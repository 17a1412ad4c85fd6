// Accumulators to global memory. Each warp owns 16 rows of the tile and moves them in slabs of 128 bytes by 16 rows
// through its own small buffers: registers -> swizzled shared memory -> one box store of the copy engine. Nothing here
// waits for another warp, the stores run on under the next tile, and the engine clips what lies outside the matrix.
#pragma once
#include "swizzle.cuh"
#include "tma.cuh"

namespace ridge::cuda {

enum class OutputType { kBf16, kF16, kF32 };
enum class StoreMode { kOverwrite, kAdd };
// Gelu: x Phi(x) with the error function. GeluTanh: its usual approximation by tanh. Silu: x / (1 + exp(-x)).
enum class Activation { kIdentity, kGelu, kGeluTanh, kSilu };

inline constexpr u32 kSlabRows = 16;
inline constexpr u32 kSlabBytes = kSlabRows * kRowBytes;

template <OutputType kOut>
inline constexpr int kSlabColumns = kOut == OutputType::kF32 ? 32 : 64;

template <OutputType kOut>
__device__ __forceinline__ u32 pack_pair(float low, float high) {
  if constexpr (kOut == OutputType::kBf16) {
    return pack_bf16(low, high);
  } else {
    return pack_f16(low, high);
  }
}

// One element of a matrix or vector of the output's type. Volatile, here and below: free to move these reads, the
// compiler gathers those of a whole tile in front of the stores and runs out of registers.
template <OutputType kOut>
__device__ __forceinline__ float load_output(const void* data, i64 index) {
  if constexpr (kOut == OutputType::kF32) {
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(static_cast<const float*>(data) + index));
    return value;
  } else {
    u16 bits;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(bits) : "l"(static_cast<const u16*>(data) + index));
    if constexpr (kOut == OutputType::kBf16) {
      return __uint_as_float(static_cast<u32>(bits) << 16);
    } else {
      return half_to_float(bits);
    }
  }
}

// Two neighbours in a row, as they lie in memory. The reads carry a predicate instead of a branch: with a branch each
// one would be waited for before the next is issued.
template <OutputType kOut, bool kAligned>
struct RawPair {
  u32 first, second;  // 16-bit values: both in `first`

  // `left`, `right`: whether these elements exist. kAligned: they exist together, and the address is a multiple of both
  // together.
  __device__ __forceinline__ void load(const void* data, i64 index, bool left, bool right) {
    constexpr bool kWide = kOut == OutputType::kF32;
    const u64 address = reinterpret_cast<u64>(data) + static_cast<u64>(index * (kWide ? 4 : 2));
    const u32 has_left = left, has_right = right;
    first = second = 0;
    if constexpr (kWide && kAligned) {
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n@p ld.global.v2.b32 {%0, %1}, [%2];\n}\n"
                   : "+r"(first), "+r"(second)
                   : "l"(address), "r"(has_left));
    } else if constexpr (kAligned) {
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p ld.global.b32 %0, [%1];\n}\n"
                   : "+r"(first)
                   : "l"(address), "r"(has_left));
    } else if constexpr (kWide) {
      asm volatile(
          "{\n.reg .pred p, q;\nsetp.ne.b32 p, %3, 0;\nsetp.ne.b32 q, %4, 0;\n@p ld.global.b32 %0, [%2];\n"
          "@q ld.global.b32 %1, [%2+4];\n}\n"
          : "+r"(first), "+r"(second)
          : "l"(address), "r"(has_left), "r"(has_right));
    } else {
      u16 low = 0, high = 0;
      asm volatile(
          "{\n.reg .pred p, q;\nsetp.ne.b32 p, %3, 0;\nsetp.ne.b32 q, %4, 0;\n@p ld.global.b16 %0, [%2];\n"
          "@q ld.global.b16 %1, [%2+2];\n}\n"
          : "+h"(low), "+h"(high)
          : "l"(address), "r"(has_left), "r"(has_right));
      first = low | static_cast<u32>(high) << 16;
    }
  }
  __device__ __forceinline__ float left() const {
    if constexpr (kOut == OutputType::kF32) return __uint_as_float(first);
    if constexpr (kOut == OutputType::kBf16) return __uint_as_float(first << 16);
    return half_to_float(static_cast<u16>(first));
  }
  __device__ __forceinline__ float right() const {
    if constexpr (kOut == OutputType::kF32) return __uint_as_float(second);
    if constexpr (kOut == OutputType::kBf16) return __uint_as_float(first & 0xFFFF0000u);
    return half_to_float(static_cast<u16>(first >> 16));
  }
};

template <Activation kKind>
__device__ __forceinline__ float activate(float x) {
  if constexpr (kKind == Activation::kGelu) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  } else if constexpr (kKind == Activation::kGeluTanh) {
    // 0.5 x (1 + tanh u) is x / (1 + exp(-2u)), which keeps its relative precision for negative x.
    const float u = 0.79788456f * x * (1.0f + 0.044715f * x * x);
    return x * reciprocal(1.0f + __expf(-2.0f * u));
  } else if constexpr (kKind == Activation::kSilu) {
    return x * reciprocal(1.0f + __expf(-x));
  } else {
    return x;
  }
}

// One slab of 16-bit values: two column groups of eight per stmatrix.
template <OutputType kOut, int kCount>
__device__ __forceinline__ void write_slab_16bit(const float (&d)[kCount], int first, u32 buffer, u32 lane) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    const int j = first + 8 * pair;
    const u32 address = buffer + swizzled_chunk(lane & 15u, 2 * pair + (lane >> 4));
    store_matrix_x4(address, pack_pair<kOut>(d[j + 0], d[j + 1]), pack_pair<kOut>(d[j + 2], d[j + 3]),
                    pack_pair<kOut>(d[j + 4], d[j + 5]), pack_pair<kOut>(d[j + 6], d[j + 7]));
  }
}

// One slab of fp32 values, 8 bytes per lane. A half-warp covers four rows; the swizzle alone would put rows 2i and 2i+1
// into the same banks, so odd rows write column groups in the order 2,3,0,1 while even rows write 0,1,2,3.
template <int kCount>
__device__ __forceinline__ void write_slab_32bit(const float (&d)[kCount], int first, u32 buffer, u32 lane) {
  const u32 row = lane >> 2;
  const bool odd = (row & 1u) != 0;
  const u32 inner = (lane & 1u) * 8;
#pragma unroll
  for (int group = 0; group < 4; ++group) {
    const int even_j = first + 4 * group;
    const int odd_j = first + 4 * (group ^ 2);
    const u32 chunk = 2 * (static_cast<u32>(group) ^ (odd ? 2u : 0u)) + ((lane & 3u) >> 1);
    store_shared_v2(buffer + swizzled_chunk(row, chunk) + inner, odd ? d[odd_j] : d[even_j],
                    odd ? d[odd_j + 1] : d[even_j + 1]);
    store_shared_v2(buffer + swizzled_chunk(row + 8, chunk) + inner, odd ? d[odd_j + 2] : d[even_j + 2],
                    odd ? d[odd_j + 3] : d[even_j + 3]);
  }
}

// Stores the 16 x (2 * kCount) part of a tile that this warp holds, at column `x`, row `y` of the output. `buffers` is
// the warp's own run of kBuffers slabs, 1024-byte aligned. All lanes of the warp take part. `finish(i)` turns the
// sums from i on, as many as a slab has or are left, into what is stored; slab by slab, because all at once would need
// the registers that the others hold.
template <OutputType kOut, StoreMode kMode, u32 kBuffers, int kCount, class Finish>
__device__ __forceinline__ void store_warp_tile(const float (&d)[kCount], const TensorMap& map, u32 buffers, i32 x,
                                                i32 y, u32 lane, const Finish& finish) {
  constexpr int kColumns = kSlabColumns<kOut>;
  constexpr int kPerSlab = kColumns / 2;
  // A width that is not whole slabs ends with a slab that overlaps the one before it: the same values are stored twice.
  // Adding must not do that.
  constexpr int kSlabs = (kCount + kPerSlab - 1) / kPerSlab;
  static_assert(kCount >= kPerSlab, "the tile is at least one 128-byte slab wide");
  static_assert(kMode == StoreMode::kOverwrite || kCount % kPerSlab == 0, "adding needs a whole number of slabs");
#pragma unroll  // fully: `d` is in registers, so its indices must be constants
  for (int slab = 0; slab < kSlabs; ++slab) {
    const int first = slab * kPerSlab <= kCount - kPerSlab ? slab * kPerSlab : kCount - kPerSlab;
    const u32 buffer = buffers + (static_cast<u32>(slab) % kBuffers) * kSlabBytes;
    finish(slab * kPerSlab);
    // The buffer is free once all but the latest kBuffers - 1 stores have been read out. Lane 0 issues them, so it
    // alone knows. Where the slabs of a tile do not fill whole rounds of buffers, a tile starts on a buffer that a
    // later store of the tile before may have used, so it waits for all of them.
    constexpr bool kWholeRounds = kSlabs % kBuffers == 0;
    if (lane == 0) {
      if (slab == 0 && !kWholeRounds) {
        wait_stores_read<0>();
      } else {
        wait_stores_read<kBuffers - 1>();
      }
    }
    __syncwarp();
    if constexpr (kOut == OutputType::kF32) {
      write_slab_32bit(d, first, buffer, lane);
    } else {
      write_slab_16bit<kOut>(d, first, buffer, lane);
    }
    fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) {
      if constexpr (kMode == StoreMode::kAdd) {
        store_box_add(map, buffer, x + 2 * first, y);
      } else {
        store_box(map, buffer, x + 2 * first, y);
      }
      commit_stores();
    }
  }
}

// C as the generic store path sees it.
struct OutputView {
  void* data;
  i64 row_stride;  // elements
  u32 rows, cols;
};

template <OutputType kOut, StoreMode kMode>
__device__ __forceinline__ void store_element(const OutputView& c, u32 row, u32 col, float value) {
  if (row >= c.rows || col >= c.cols) return;
  const i64 index = static_cast<i64>(row) * c.row_stride + col;
  if constexpr (kOut == OutputType::kF32) {
    float* const element = static_cast<float*>(c.data) + index;
    *element = kMode == StoreMode::kAdd ? *element + value : value;
  } else {
    static_cast<u16*>(c.data)[index] = static_cast<u16>(pack_pair<kOut>(value, 0.0f));
  }
}

// The same part of a tile without the copy engine, for an output it cannot address. The engine writes whole 16-byte
// chunks: it clips a row that ends inside a chunk only at the chunk's end, so such rows (N times the element size not a
// multiple of 16) take this path too, or the padding behind them would be overwritten.
template <OutputType kOut, StoreMode kMode, int kCount, class Finish>
__device__ __forceinline__ void store_warp_tile_direct(const float (&d)[kCount], const OutputView& c, u32 x, u32 y,
                                                       u32 lane, const Finish& finish) {
  const u32 row = y + (lane >> 2);
  const u32 col = x + 2 * (lane & 3u);
#pragma unroll
  for (int j = 0; j < kCount / 4; ++j) {
    if (4 * j % (kSlabColumns<kOut> / 2) == 0) finish(4 * j);
    store_element<kOut, kMode>(c, row, col + 8 * j, d[4 * j]);
    store_element<kOut, kMode>(c, row, col + 8 * j + 1, d[4 * j + 1]);
    store_element<kOut, kMode>(c, row + 8, col + 8 * j, d[4 * j + 2]);
    store_element<kOut, kMode>(c, row + 8, col + 8 * j + 1, d[4 * j + 3]);
  }
}

}  // namespace ridge::cuda
