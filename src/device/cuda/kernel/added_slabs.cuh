// Accumulators to global memory as in epilogue.cuh, but a matrix is added on the way: C's old content, or a residual.
// The copy engine brings its slabs into the buffers that the sums leave through, so no thread waits for global memory:
// the first are asked for while the tile is multiplied, the others as soon as a buffer has been stored.
#pragma once
#include "gemm_build.cuh"
#include "pipeline.cuh"

namespace ridge::cuda {

// Adds what a slab holds to accumulators first .. of a thread, from `from` on, and puts the sums in its place.
template <OutputType kOut, int kCount>
__device__ __forceinline__ void add_slab_16bit(float (&d)[kCount], int first, int from, u32 buffer, u32 lane) {
  const auto add = [&](int j, u32 pair) {
    const RawPair<kOut, true> old{pair, 0};
    d[j] += old.left();
    d[j + 1] += old.right();
  };
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    const int j = first + 8 * pair;
    if (j < from) continue;
    u32 m0, m1, m2, m3;
    load_matrix_x4(buffer + swizzled_chunk(lane & 15u, 2 * pair + (lane >> 4)), m0, m1, m2, m3);
    add(j, m0);
    add(j + 2, m1);
    add(j + 4, m2);
    add(j + 6, m3);
  }
  write_slab_16bit<kOut>(d, first, buffer, lane);
}
// Odd rows read column groups in the order 2,3,0,1, as they write them.
template <int kCount>
__device__ __forceinline__ void add_slab_32bit(float (&d)[kCount], int first, int from, u32 buffer, u32 lane) {
  const u32 row = lane >> 2, inner = (lane & 1u) * 8;
  const bool odd = (row & 1u) != 0;
  const auto read = [&](u32 at, int group, float& left, float& right) {
    const u32 chunk = 2 * (static_cast<u32>(group) ^ (odd ? 2u : 0u)) + ((lane & 3u) >> 1);
    load_shared_v2(buffer + swizzled_chunk(at, chunk) + inner, left, right);
  };
#pragma unroll
  for (int group = 0; group < 2; ++group) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float near[2], far[2];
      read(row + 8 * half, group, near[0], near[1]);
      read(row + 8 * half, group + 2, far[0], far[1]);
      const int j = first + 4 * group + 2 * half;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (j >= from) d[j + i] += odd ? far[i] : near[i];
        if (j + 8 >= from) d[j + 8 + i] += odd ? near[i] : far[i];
      }
    }
  }
  write_slab_32bit(d, first, buffer, lane);
}

// How many steps before the end of K a tile's first slabs are asked for, where nothing else is waited for meanwhile: so
// late that those which L2 prefetches are still there.
inline constexpr u32 kStepsAhead = 16;

// Places in a matrix, and in a stack of them whose maps have four dimensions.
struct MatrixPlaces {
  __device__ __forceinline__ void load(u32 to, const TensorMap& map, u32 barrier, i32 x, i32 y) const {
    load_box(to, map, barrier, x, y);
  }
  __device__ __forceinline__ void prefetch(const TensorMap& map, i32 x, i32 y) const { prefetch_box(map, x, y); }
  __device__ __forceinline__ void store(const TensorMap& map, u32 from, i32 x, i32 y) const {
    store_box(map, from, x, y);
  }
};
struct StackPlaces {
  i32 matrix = 0;

  __device__ __forceinline__ void load(u32 to, const TensorMap& map, u32 barrier, i32 x, i32 y) const {
    load_box(to, map, barrier, BoxCorner{x, y, matrix, 0});
  }
  __device__ __forceinline__ void prefetch(const TensorMap& map, i32 x, i32 y) const {
    prefetch_box(map, BoxCorner{x, y, matrix, 0});
  }
  __device__ __forceinline__ void store(const TensorMap& map, u32 from, i32 x, i32 y) const {
    store_box(map, from, BoxCorner{x, y, matrix, 0});
  }
};

// The slabs of one warp, C::kSlabBuffers of them at a time in turns. A slab's barrier is of one arrival: lane 0's, with
// the bytes that the copy engine will bring. Everything is called by all lanes.
template <class C, class Places = MatrixPlaces>
struct AddedSlabs {
  static constexpr int kBuffers = C::kSlabBuffers;
  static constexpr int kCount = C::kBlockN / 2, kPerSlab = kSlabColumns<C::kTypeC> / 2;  // accumulators of a thread
  static constexpr int kInRow = (kCount + kPerSlab - 1) / kPerSlab;
  static constexpr int kInTile = C::kSubtiles * kInRow;
  // How far ahead a slab is asked for behind the first kBuffers: the buffer before the one that was just stored is free
  // sooner than that one.
  static constexpr int kAhead = kBuffers > 1 ? kBuffers - 1 : 1;
  static_assert(kCount >= kPerSlab, "the tile is at least one 128-byte slab wide");
  static_assert(!C::kPrefetches || kBuffers <= kInTile, "a slab that no tile has would never be waited for");

  const TensorMap& source;  // of what is added
  const TensorMap& target;  // of C
  u32 buffers, barriers;    // shared addresses
  u32 lane;
  Places places = {};  // of the tile
  RingPosition<kBuffers> asked = {}, used = {};

  // By one thread, before any other use; the caller makes them visible.
  static __device__ __forceinline__ void init(u32 barriers) {
#pragma unroll
    for (u32 i = 0; i < kBuffers; ++i) barrier_init(barriers + i * kBarrierBytes, 1);
  }

  // The first accumulator of a slab of a row. A width that is not whole slabs ends with one that overlaps the one
  // before it: what both hold is added once and stored twice.
  static __device__ __forceinline__ constexpr int first(int slab) {
    return slab * kPerSlab <= kCount - kPerSlab ? slab * kPerSlab : kCount - kPerSlab;
  }

  // Before a tile's store: asks for its first slabs, and has L2 ask for the others. `n`, `m`: column and row in C of
  // the warp's first accumulator. Waits until the stores of the tile before have left the buffers.
  __device__ __forceinline__ void begin(i32 n, i32 m) {
    if (lane == 0) wait_stores_read<0>();
#pragma unroll
    for (int i = 0; i < kInTile; ++i) {
      if (i < kBuffers) {
        ask(i, n, m);
      } else if (lane == 0) {
        places.prefetch(source, column(i, n), row(i, m));
      }
    }
  }

  // Accumulators of 64 rows. `finish(i)` as in store_warp_tile.
  template <class Finish>
  __device__ __forceinline__ void store(float (&d)[kCount], int subtile, i32 n, i32 m, const Finish& finish) {
#pragma unroll
    for (int slab = 0; slab < kInRow; ++slab) {
      finish(slab * kPerSlab);
      const u32 buffer = buffers + used.stage * kSlabBytes;
      barrier_wait(barriers + used.stage * kBarrierBytes, used.parity);
      used.advance();
      if constexpr (C::kTypeC == OutputType::kF32) {
        add_slab_32bit(d, first(slab), slab * kPerSlab, buffer, lane);
      } else {
        add_slab_16bit<C::kTypeC>(d, first(slab), slab * kPerSlab, buffer, lane);
      }
      fence_proxy_async_shared();
      __syncwarp();  // also: no lane still waits for the phase that the next question to this buffer ends
      if (lane == 0) {
        places.store(target, buffer, n + 2 * first(slab), m + subtile * 64);
        commit_stores();
      }
      const int next = subtile * kInRow + slab + kAhead;
      if (next < kBuffers || next >= kInTile) continue;
      if (lane == 0) wait_stores_read<(kBuffers > 1 ? 1 : 0)>();
      ask(next, n, m);
    }
  }

 private:
  static __device__ __forceinline__ i32 column(int index, i32 n) { return n + 2 * first(index % kInRow); }
  static __device__ __forceinline__ i32 row(int index, i32 m) { return m + index / kInRow * 64; }
  __device__ __forceinline__ void ask(int index, i32 n, i32 m) {
    if (lane == 0) {
      const u32 barrier = barriers + asked.stage * kBarrierBytes;
      barrier_arrive_expect_bytes(barrier, kSlabBytes);
      places.load(buffers + asked.stage * kSlabBytes, source, barrier, column(index, n), row(index, m));
    }
    asked.advance();
  }
};

}  // namespace ridge::cuda
