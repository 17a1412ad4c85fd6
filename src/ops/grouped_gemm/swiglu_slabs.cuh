// SwiGLU where the sums of a grouped product are stored, and its gradients. Each warp owns 16 rows of a tile, and moves
// them in slabs of 64 columns as grouped_tiles.cuh does, so nothing here waits for another warp. `Config` says besides
// what that asks of it
//   kProbs  whether y has a factor for each row
// Gate and up are halves of the rows of C: maps over C, over gate_up and over a B of both have the half as a dimension,
// so that the copy engine ends at the end of each.
#pragma once
#include "../../device/cuda/kernel/pipeline.cuh"
#include "../gating/functions.cuh"
#include "../matmul/grouped_tiles.cuh"

namespace ridge::cuda {

// As the launch plan fills it.
struct SwigluView {
  void* y;
  i64 y_stride;  // elements
  const float* probs;
  float* parts;  // of dprobs: of every tile of columns, its part of each row
};

// A half of C, or y, as what one slab is stored to.
struct SlabTarget {
  const TensorMap& map;
  OutputView view;  // of the half
  i32 half;
};

__device__ __forceinline__ OutputView half_of(const OutputView& c, i32 half) {
  OutputView view = c;
  view.data = static_cast<u16*>(c.data) + half * static_cast<i64>(c.cols);
  return view;
}

// Whether all rows of a slab are the group's own, so that the copy engine may store it.
__device__ __forceinline__ bool is_whole(const Place& place) { return place.rows >= static_cast<i32>(kSlabRows); }

// Stores what a buffer holds to columns from `x` on. By all lanes, behind a fence. The engine's store is not committed.
template <class C>
__device__ __forceinline__ void store_slab(u32 buffer, const SlabTarget& to, const Place& place, i32 x, u32 lane) {
  if (!is_whole(place)) {
    if (place.rows > 0) copy_slab<C>(buffer, to.view, place, x, lane);
  } else if (lane == 0) {
    store_box(to.map, buffer, BoxCorner{x, place.y, to.half, 0});
  }
}

// p of the rows of this thread: lane / 4 and 8 rows on.
template <class C>
__device__ __forceinline__ void load_probs(float (&probs)[2], const SwigluView& view, const Place& place, u32 lane) {
#pragma unroll
  for (u32 i = 0; i < 2; ++i) {
    const i32 row = static_cast<i32>(lane / 4 + 8 * i);
    probs[i] = C::kProbs && row < place.rows ? __ldg(view.probs + place.y + row) : 1.0f;
  }
}

// p silu(gate) up, rounded as activation's.
template <class C>
__device__ __forceinline__ float swiglu(float silu, float up, float probs) {
  return C::kProbs ? silu * up * probs : silu * up;
}

// ---- SwiGLU of sums: the first half of a thread's accumulators is of gate, the second of up

template <class C>
struct SwigluSlabs {
  const TensorMap &map_c, &map_y;
  OutputView gate, up, y;
  u32 buffers, lane;
  u32 turn = 0;  // which of the buffers is next

  // Both halves of C and y, from column `place.x` of each on. Overwrites the accumulators of gate by those of y.
  template <int kCount>
  __device__ __forceinline__ void store(float (&d)[kCount], const Place& place, const float (&probs)[2]) {
    constexpr int kUp = kCount / 2, kPerSlab = kSlabColumns<C::kTypeC> / 2;
    static_assert(kUp % kPerSlab == 0, "gate and up are whole slabs");
#pragma unroll
    for (int first = 0; first < kUp; first += kPerSlab) {
      const i32 x = place.x + 2 * first;
      put(d, first, {map_c, gate, 0}, place, x);
      put(d, kUp + first, {map_c, up, 1}, place, x);
#pragma unroll
      for (int j = first; j < first + kPerSlab; j += 2) {
        const RawPair<C::kTypeC, true> g{pack_pair<C::kTypeC>(d[j], d[j + 1]), 0};
        const RawPair<C::kTypeC, true> u{pack_pair<C::kTypeC>(d[kUp + j], d[kUp + j + 1]), 0};
        const float p = probs[j / 2 % 2];
        d[j] = swiglu<C>(value_of<Function::kSilu>(g.left(), {}).f, u.left(), p);
        d[j + 1] = swiglu<C>(value_of<Function::kSilu>(g.right(), {}).f, u.right(), p);
      }
      put(d, first, {map_y, y, 0}, place, x);
    }
  }

 private:
  template <int kCount>
  __device__ __forceinline__ void put(const float (&d)[kCount], int first, const SlabTarget& to, const Place& place,
                                      i32 x) {
    const u32 buffer = buffers + turn * kSlabBytes;
    turn = turn + 1 == C::kSlabBuffers ? 0 : turn + 1;
    if (lane == 0) {
      // Slabs that are copied are no stores of the engine, so their number tells nothing of those before.
      if (is_whole(place)) {
        wait_stores_read<C::kSlabBuffers - 1>();
      } else {
        wait_stores_read<0>();
      }
    }
    __syncwarp();
    write_slab_16bit<C::kTypeC>(d, first, buffer, lane);
    fence_proxy_async_shared();
    __syncwarp();
    store_slab<C>(buffer, to, place, x, lane);
    if (lane == 0) commit_stores();
  }
};

// ---- Gradients of SwiGLU from sums that are the gradient of y

// The slabs of one warp: C::kSlabBuffers sets of three, of which the copy engine brings gate and up, the gradients take
// their places, and y goes into the third. A set's barrier is that of a slab that is added (AddedSlabs::init).
// Everything is called by all lanes.
template <class C>
struct GradientSlabs {
  static constexpr int kSets = C::kSlabBuffers;
  static constexpr int kCount = C::kBlockN / 2, kPerSlab = kSlabColumns<C::kTypeC> / 2;  // accumulators of a thread
  static constexpr int kInRow = kCount / kPerSlab, kInTile = C::kSubtiles * kInRow;
  static constexpr u32 kSetBytes = 3 * kSlabBytes;
  // How far ahead a set is asked for behind the first: the one before that was just stored is free sooner.
  static constexpr int kAhead = kSets > 1 ? kSets - 1 : 1;
  static_assert(!C::kGradients || (kCount % kPerSlab == 0 && kSets <= kInTile),
                "a tile is whole slabs, and has one for each set");

  const TensorMap &map_gate_up, &map_c, &map_y;
  OutputView gate, up, y;
  u32 buffers, barriers;  // shared addresses
  u32 lane;
  RingPosition<kSets> asked = {}, used = {};

  // Before a tile's store: asks for its first sets, and has L2 ask for the others. Waits until the stores of the tile
  // before have left the buffers.
  __device__ __forceinline__ void begin(const Place& first) {
    if (lane == 0) wait_stores_read<0>();
#pragma unroll
    for (int i = 0; i < kInTile; ++i) {
      if (i < kSets) {
        ask(i, first);
      } else if (lane == 0) {
        prefetch_box(map_gate_up, corner(i, first, 0));
        prefetch_box(map_gate_up, corner(i, first, 1));
      }
    }
  }

  // Accumulators of 64 rows of the tile whose first place is `first`. `sums`: of a thread's two rows, its part of
  // dprobs.
  __device__ __forceinline__ void store(const float (&d)[kCount], int subtile, const Place& first,
                                        const float (&probs)[2], float (&sums)[2]) {
    const Place place{first.x, first.y + subtile * 64, 0, first.rows - subtile * 64};
    sums[0] = sums[1] = 0.0f;
#pragma unroll
    for (int slab = 0; slab < kInRow; ++slab) {
      const u32 buffer = buffers + used.stage * kSetBytes;
      const i32 x = place.x + 2 * slab * kPerSlab;
      barrier_wait(barriers + used.stage * kBarrierBytes, used.parity);
      used.advance();
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        differentiate(&d[slab * kPerSlab + 8 * pair], buffer + swizzled_chunk(lane & 15u, 2 * pair + (lane >> 4)),
                      x + 16 * pair + 2 * static_cast<i32>(lane & 3u), probs, sums);
      }
      fence_proxy_async_shared();
      __syncwarp();  // also: no lane still waits for the phase that the next question to this set ends
      store_slab<C>(buffer, {map_c, gate, 0}, place, x, lane);
      store_slab<C>(buffer + kSlabBytes, {map_c, up, 1}, place, x, lane);
      store_slab<C>(buffer + 2 * kSlabBytes, {map_y, y, 0}, place, x, lane);
      if (lane == 0) commit_stores();
      const int next = subtile * kInRow + slab + kAhead;
      if (next < kSets || next >= kInTile) continue;
      if (lane == 0) {
        if (kSets > 1 && is_whole(place)) {
          wait_stores_read<1>();
        } else {
          wait_stores_read<0>();
        }
      }
      ask(next, first);
    }
  }

 private:
  static __device__ __forceinline__ BoxCorner corner(int index, const Place& first, i32 half) {
    return {first.x + index % kInRow * 2 * kPerSlab, first.y + index / kInRow * 64, half, 0};
  }
  __device__ __forceinline__ void ask(int index, const Place& first) {
    if (lane == 0) {
      const u32 barrier = barriers + asked.stage * kBarrierBytes, to = buffers + asked.stage * kSetBytes;
      barrier_arrive_expect_bytes(barrier, 2 * kSlabBytes);
      load_box(to, map_gate_up, barrier, corner(index, first, 0));
      load_box(to + kSlabBytes, map_gate_up, barrier, corner(index, first, 1));
    }
    asked.advance();
  }

  // Eight sums of a thread and the gate and up at their places; `at` is the lane's address of them. `column`: of the
  // first sum.
  __device__ __forceinline__ void differentiate(const float* d, u32 at, i32 column, const float (&probs)[2],
                                                float (&sums)[2]) const {
    u32 g[4], u[4], of_y[4];
    load_matrix_x4(at, g[0], g[1], g[2], g[3]);
    load_matrix_x4(at + kSlabBytes, u[0], u[1], u[2], u[3]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const RawPair<C::kTypeC, true> gates{g[i], 0}, ups{u[i], 0};
      const float gate_pair[2] = {gates.left(), gates.right()}, up_pair[2] = {ups.left(), ups.right()};
      const float p = probs[i % 2];
      float to_gate[2], to_up[2], made[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const Value f = value_of<Function::kSilu>(gate_pair[k], {});
        const float dy = d[2 * i + k], scaled = C::kProbs ? dy * p : dy;
        to_gate[k] = scaled * up_pair[k] * f.slope;
        to_up[k] = scaled * f.f;
        made[k] = swiglu<C>(f.f, up_pair[k], p);
        // Behind the last column a row with an infinity has NaN, which is infinity times the zeros that were loaded.
        if (C::kProbs && column + i / 2 * 8 < static_cast<i32>(y.cols)) sums[i % 2] += dy * (f.f * up_pair[k]);
      }
      g[i] = pack_pair<C::kTypeC>(to_gate[0], to_gate[1]);
      u[i] = pack_pair<C::kTypeC>(to_up[0], to_up[1]);
      of_y[i] = pack_pair<C::kTypeC>(made[0], made[1]);
    }
    store_matrix_x4(at, g[0], g[1], g[2], g[3]);
    store_matrix_x4(at + kSlabBytes, u[0], u[1], u[2], u[3]);
    store_matrix_x4(at + 2 * kSlabBytes, of_y[0], of_y[1], of_y[2], of_y[3]);
  }
};

// The parts of dprobs of a thread's rows, added up over the four lanes that share them, to `parts` of the tile's
// columns.
__device__ __forceinline__ void store_parts(float* parts, float (&sums)[2], const Place& place, u32 lane) {
#pragma unroll
  for (u32 i = 0; i < 2; ++i) {
    sums[i] += __shfl_xor_sync(~0u, sums[i], 1);
    sums[i] += __shfl_xor_sync(~0u, sums[i], 2);
    const i32 row = static_cast<i32>(lane / 4 + 8 * i);
    if (lane % 4 == 0 && row < place.rows) parts[place.y + row] = sums[i];
  }
}

}  // namespace ridge::cuda
