// Matrix product on Hopper's tensor cores: C = op(A) * op(B) (+ C), 16-bit or 8-bit inputs, fp32 accumulation.
//
// One persistent block per multiprocessor keeps a ring of shared-memory stages full through the copy engine (one
// producer thread) while two warpgroups multiply straight out of the ring and hold the whole tile in registers. Pairs
// of blocks form a cluster and share the wider operand by multicast, because one 128 x 256 tile alone would ask L2 for
// more than it delivers; tiles are walked in compact groups for the same reason. Finished tiles leave through small
// per-warp buffers as box stores that run under the next tile.
//
// Wins on shapes with at least one wave of tiles (M and N in the thousands). Loses below about 64 tiles, where most
// multiprocessors idle and a split of K would be needed, and refuses what the copy engine cannot address: a base or a
// row stride that is not a multiple of 16 bytes (see cuda_simt.cu). Figures: docs/operators/gemm-hopper.md.
//
// A build is chosen by the macros below (cuda_wgmma_plan.h writes them); the entry point is `ridge_gemm`.
#include "../../device/cuda/kernel/cluster_sum.cuh"
#include "../../device/cuda/kernel/finish.cuh"
#include "../../device/cuda/kernel/main_loop.cuh"
#include "../../device/cuda/kernel/tile_scheduler.cuh"

#ifndef RIDGE_BLOCK_M
#define RIDGE_BLOCK_M 128
#endif
#ifndef RIDGE_BLOCK_N
#define RIDGE_BLOCK_N 256
#endif
#ifndef RIDGE_STAGES
#define RIDGE_STAGES 4
#endif
#ifndef RIDGE_CLUSTER_M
#define RIDGE_CLUSTER_M 2
#endif
#ifndef RIDGE_CLUSTER_N
#define RIDGE_CLUSTER_N 1
#endif
#ifndef RIDGE_CONSUMERS  // warpgroups that multiply
#define RIDGE_CONSUMERS 2
#endif
#ifndef RIDGE_PINGPONG  // 0: the warpgroups share a tile; 1: each has its own, and one stores while the other
                        // multiplies
#define RIDGE_PINGPONG 0
#endif
#ifndef RIDGE_SLAB_BUFFERS  // output slabs in flight per warp
#define RIDGE_SLAB_BUFFERS 2
#endif
#ifndef RIDGE_SPLIT_K  // blocks of a cluster that share a tile, each with a part of K
#define RIDGE_SPLIT_K 1
#endif
#ifndef RIDGE_DIRECT_STORE  // 1: an output that the copy engine cannot address (odd N or row stride)
#define RIDGE_DIRECT_STORE 0
#endif
#ifndef RIDGE_PROMOTE  // 1: 8-bit sums move to fp32 registers every 128 of K; Block and Vector scales need it
#define RIDGE_PROMOTE 0
#endif
#ifndef RIDGE_INSTRUCTION_N  // promotion: columns of one instruction
#define RIDGE_INSTRUCTION_N RIDGE_BLOCK_N
#endif
#ifndef RIDGE_PARTS  // promotion: sets of instruction accumulators
#define RIDGE_PARTS 1
#endif

namespace ridge::cuda {
namespace {

struct Config : GemmBuild {
  static constexpr u32 kBlockM = RIDGE_BLOCK_M;
  static constexpr u32 kBlockN = RIDGE_BLOCK_N;
  static constexpr u32 kStages = RIDGE_STAGES;
  static constexpr u32 kClusterM = RIDGE_CLUSTER_M;
  static constexpr u32 kClusterN = RIDGE_CLUSTER_N;
  static constexpr u32 kSplitK = RIDGE_SPLIT_K;
  static constexpr u32 kClusterBlocks = kClusterM * kClusterN * kSplitK;
  static constexpr bool kMulticast = kClusterM * kClusterN > 1;
  static constexpr u32 kConsumers = RIDGE_CONSUMERS;
  static constexpr bool kPingpong = RIDGE_PINGPONG != 0;
  static constexpr u32 kSlabBuffers = RIDGE_SLAB_BUFFERS;
  static constexpr bool kDirectStore = RIDGE_DIRECT_STORE != 0;
  static constexpr bool kPromote = RIDGE_PROMOTE != 0;
  static constexpr u32 kInstructionN = RIDGE_INSTRUCTION_N;
  static constexpr u32 kParts = RIDGE_PARTS;
  static constexpr bool kScalesA = kScaling == Scaling::kBlock || kScaling == Scaling::kVector;
  static constexpr bool kScalesB = kScaling == Scaling::kVector;

  // One stage is one swizzle row of K: 32 elements of four bytes, 64 of two, 128 of one.
  static constexpr u32 kBlockK = kRowBytes / kTypeBytes<kTypeA>;
  static constexpr u32 kStageBytesA = kBlockM * kRowBytes;
  static constexpr u32 kStageBytesB = kBlockN * kRowBytes;
  static constexpr u32 kStageBytes = kStageBytesA + kStageBytesB;
  static constexpr u32 kScaleBytes = (kScalesA ? kBlockM * 4 : 0) + (kScalesB ? kBlockN * 4 : 0);  // per stage

  static constexpr u32 kRowsPerWarpgroup = kPingpong ? kBlockM : kBlockM / kConsumers;
  static constexpr u32 kSubtiles = kRowsPerWarpgroup / 64;
  static constexpr u32 kThreads = (kConsumers + 1) * kWarpgroupThreads;
  static constexpr u32 kWarpsPerTile = kPingpong ? 4 : 4 * kConsumers;

  // An operand shared by several blocks is cut into that many equal parts and each block multicasts one. K-major: parts
  // are rows of the tile. MN-major: parts are whole 64-wide columns where the count divides, else ranges of K rows.
  static constexpr u32 kColumnsA = kBlockM / 64;
  static constexpr u32 kColumnsB = kBlockN / 64;
  static constexpr bool kSplitColumnsA = kColumnsA % kClusterN == 0;
  static constexpr bool kSplitColumnsB = kColumnsB % kClusterM == 0;

  // 64512 registers are handed out in all: the producer keeps what it needs, the consumers get the rest.
  // A producer that also fetches scales spills at 40.
  static constexpr int kProducerRegisters = kScalesA ? 56 : 40;
  static constexpr int kConsumerRegisters = kScalesA ? 224 : 232;

  static_assert(kBlockM % 64 == 0 && kRowsPerWarpgroup % 64 == 0, "wgmma computes 64 rows at a time");
  static_assert(kConsumers == 2, "with three, wgmma of this width does not fit the registers at entry");
  static_assert(!kPingpong || kConsumers == 2, "pingpong alternates between two warpgroups");
  static_assert(!kPromote || (kEightBit && !kPingpong),
                "promotion hides under the other warpgroup's K loop: no taking turns at whole tiles");
  static_assert(kPromote || !kScalesA, "scales along K are applied while promoting");
  static_assert(kBlockN % kInstructionN == 0, "a stage is whole instructions");
  static_assert(kSplitK == 1 || (!kPingpong && !kMulticast && kBlockN % 64 == 0),
                "a split tile is summed in pieces of 64 x 64 by blocks in step");
  static_assert(kMajorA == Major::kK || kBlockM % 64 == 0, "MN-major tiles are columns of 64 elements");
  static_assert(kMajorB == Major::kK || kBlockN % 64 == 0, "MN-major tiles are columns of 64 elements");
  static_assert(kBlockM / kClusterN <= 256 && kBlockN / kClusterM <= 256, "a box side is at most 256");
  static_assert((kBlockM / kClusterN) % 8 == 0 && (kBlockN / kClusterM) % 8 == 0, "parts must be whole swizzle atoms");
};

// Shared memory, from a 1024-byte aligned base: stages of A, stages of B, output slabs, scales, vectors of
// the epilogue, barriers.
struct SharedLayout {
  static constexpr u32 kA = 0;
  static constexpr u32 kB = kA + Config::kStages * Config::kStageBytesA;
  static constexpr u32 kSlabs = kB + Config::kStages * Config::kStageBytesB;
  static constexpr u32 kScales = kSlabs + Config::kConsumers * 4 * Config::kSlabBuffers * kSlabBytes;
  static constexpr u32 kVectors = kScales + Config::kStages * Config::kScaleBytes;
  static constexpr u32 kBarriers = kVectors + Config::kConsumers * TileFinish<Config>::kBytes;
  static constexpr u32 kBytes = kBarriers + Ring<Config::kStages>::kBytes;
  static_assert(kBytes <= 232448, "a block has 227 KiB of shared memory: fewer stages, a smaller tile or fewer slabs");
  // The pieces that arrive when a tile is split lie over the stages, which are empty by then.
  static constexpr u32 kPieces = (Config::kBlockM / 64) * (Config::kBlockN / 64);
  static constexpr u32 kOwnPieces = (kPieces + Config::kSplitK - 1) / Config::kSplitK;
  static_assert(kOwnPieces * (Config::kSplitK - 1) * kPieceBytes <= kSlabs, "the pieces must fit over the stages");
};

inline constexpr u32 kFinishBarrier = 3;  // and 4: named barriers of one warpgroup each

struct BlockPlace {
  u32 in_m, in_n;    // position in the cluster
  u16 share_a_mask;  // blocks that read the same A tile: same in_m
  u16 share_b_mask;  // blocks that read the same B tile: same in_n
};

__device__ __forceinline__ BlockPlace place_in_cluster() {
  BlockPlace place{};
  const u32 rank = Config::kMulticast ? cluster_rank() : 0;
  place.in_m = rank % Config::kClusterM;
  place.in_n = rank / Config::kClusterM;
  for (u32 n = 0; n < Config::kClusterN; ++n)
    place.share_a_mask |= static_cast<u16>(1u << (place.in_m + Config::kClusterM * n));
  for (u32 m = 0; m < Config::kClusterM; ++m)
    place.share_b_mask |= static_cast<u16>(1u << (m + Config::kClusterM * place.in_n));
  return place;
}

// Bytes of scales for the rows (or columns) of a tile that lie inside the matrix.
__device__ __forceinline__ u32 scale_bytes(u32 count, u32 first, u32 tile) {
  return count > first ? min(tile, count - first) * 4 : 0;
}

// Loads this block's part of one operand's stage. `parts` blocks share the tile and this one brings part `part`.
template <Major kMajor, u32 kTileRows, u32 kParts, bool kSplitColumns>
__device__ __forceinline__ void load_operand(u32 stage_address, const TensorMap& map, u32 barrier, i32 k, i32 mn,
                                             u32 part, u16 mask) {
  auto load = [&](u32 offset, i32 x, i32 y) {
    if constexpr (kParts == 1) {
      load_box(stage_address + offset, map, barrier, x, y);
    } else {
      load_box_multicast(stage_address + offset, map, barrier, x, y, mask);
    }
  };
  if constexpr (kMajor == Major::kK) {
    constexpr u32 kRows = kTileRows / kParts;
    load(part * kRows * kRowBytes, k, mn + static_cast<i32>(part * kRows));
  } else {
    constexpr u32 kColumns = kTileRows / 64;
    constexpr u32 kColumnBytes = Config::kBlockK * kRowBytes;
    if constexpr (kSplitColumns) {
      constexpr u32 kMine = kColumns / kParts;
#pragma unroll
      for (u32 i = 0; i < kMine; ++i) {
        const u32 column = part * kMine + i;
        load(column * kColumnBytes, mn + static_cast<i32>(column * 64), k);
      }
    } else {
      constexpr u32 kDepth = Config::kBlockK / kParts;
#pragma unroll
      for (u32 column = 0; column < kColumns; ++column) {
        load(column * kColumnBytes + part * kDepth * kRowBytes, mn + static_cast<i32>(column * 64),
             k + static_cast<i32>(part * kDepth));
      }
    }
  }
}

// Finishes and stores accumulators of a warp.
struct TileStore {
  const TensorMap& map;
  const OutputView& output;
  const EpilogueView& extra;
  const TileFinish<Config>& finish;
  u32 slabs, lane;
  i32 n, m;  // column and row in C of the warp's first accumulator

  // `values` begin at column `column` of the tile, row `subtile` * 64 of the warp's.
  template <int kCount>
  __device__ __forceinline__ void operator()(float (&values)[kCount], u32 column, u32 subtile) const {
    using C = Config;
    const i32 x = n + static_cast<i32>(column), y = m + static_cast<i32>(subtile * 64);
    auto finish_slab = [&](int first) {
      constexpr int kPerSlab = kSlabColumns<C::kTypeC> / 2;
      if constexpr (C::kFinishes) {
        // Half a slab at a time: its residual is read at once, and more than that does not fit the registers.
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          ResidualPairs<C, kPerSlab / 2, !C::kDirectStore> residual;
          const int begin = first + half * kPerSlab / 2;
          if constexpr (C::kResidual) {
            residual.load(output, extra, begin, static_cast<u32>(x), static_cast<u32>(y), lane);
          }
#pragma unroll
          for (int i = 0; i < kPerSlab / 2; i += 2) {
            const int at = begin + i;
            if (at >= kCount) continue;
            finish.apply(values[at], values[at + 1], at, subtile, column + 2 * (lane & 3u) + 8 * (at / 4));
            if constexpr (C::kResidual) {
              values[at] += residual.pairs[i / 2].left();
              values[at + 1] += residual.pairs[i / 2].right();
            }
          }
        }
      }
    };
    if constexpr (C::kDirectStore) {
      store_warp_tile_direct<C::kTypeC, C::kStore>(values, output, static_cast<u32>(x), static_cast<u32>(y), lane,
                                                   finish_slab);
    } else {
      store_warp_tile<C::kTypeC, C::kStore, C::kSlabBuffers>(values, map, slabs, x, y, lane, finish_slab);
    }
  }
};

// All blocks of the cluster hold partial sums of one tile. Each piece is sent to its owner, and the owner calls
// `store(piece, column, subtile)` with the sum.
template <class Store>
__device__ __forceinline__ void sum_over_cluster(float (&sums)[Config::kSubtiles][Config::kBlockN / 2], u32 base,
                                                 u32 mine, u32 warpgroup, const Store& store) {
  using C = Config;
  constexpr u32 kPerRow = C::kBlockN / 64;
  const u32 thread = threadIdx.x % kWarpgroupThreads;
  auto index_of = [&](u32 subtile, u32 column) { return (warpgroup * C::kSubtiles + subtile) * kPerRow + column; };
  // Every block has read its stages for the last time; now pieces may be written over them.
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
#pragma unroll
    for (u32 column = 0; column < kPerRow; ++column) {
      const u32 index = index_of(subtile, column), owner = index % C::kSplitK;
      if (owner == mine) continue;
      const u32 slot = base + piece_slot<C::kSplitK>(index / C::kSplitK, mine, owner);
      send_piece(sums[subtile], static_cast<int>(column) * kPieceAccumulators, slot, owner, thread);
    }
  }
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
#pragma unroll
    for (u32 column = 0; column < kPerRow; ++column) {
      const u32 index = index_of(subtile, column);
      if (index % C::kSplitK != mine) continue;
      float piece[kPieceAccumulators] = {};
#pragma unroll
      for (u32 source = 0; source < C::kSplitK; ++source) {
        if (source == mine) {
#pragma unroll
          for (int i = 0; i < kPieceAccumulators; ++i) piece[i] += sums[subtile][column * kPieceAccumulators + i];
        } else {
          add_piece(piece, base + piece_slot<C::kSplitK>(index / C::kSplitK, source, mine), thread);
        }
      }
      store(piece, column * 64, subtile);
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

// map_c is read by builds that store through the copy engine, `output` by the others; `scales` by 8-bit builds, `extra`
// by those with a bias or a residual.
extern "C" __global__ void __launch_bounds__(ridge::cuda::Config::kThreads, 1)
    ridge_gemm(const __grid_constant__ ridge::cuda::TensorMap map_a,
               const __grid_constant__ ridge::cuda::TensorMap map_b,
               const __grid_constant__ ridge::cuda::TensorMap map_c, const ridge::cuda::OutputView output,
               const ridge::cuda::TileGrid tiles, const ridge::cuda::u32 k_blocks, const ridge::cuda::ScaleView scales,
               const ridge::cuda::EpilogueView extra) {
  using namespace ridge::cuda;
  using C = Config;
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared);
  const Ring<C::kStages> ring{base + SharedLayout::kBarriers};

  const u32 warp = warp_uniform(threadIdx.x / kWarpThreads);
  const u32 lane = threadIdx.x % kWarpThreads;
  const u32 warpgroup = warp / 4;
  const BlockPlace place = place_in_cluster();
  const u32 first_tile = blockIdx.x / C::kClusterBlocks;
  const u32 tile_step = gridDim.x / C::kClusterBlocks;
  const u32 tile_count = tiles.rows * tiles.cols;
  // The part of K that is this block's.
  const u32 part_of_k = C::kSplitK == 1 ? 0 : cluster_rank();
  const u32 k_first = k_blocks * part_of_k / C::kSplitK;
  const u32 k_count = k_blocks * (part_of_k + 1) / C::kSplitK - k_first;

  if (warp == 0 && elect_one()) {
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    if constexpr (!C::kDirectStore) prefetch_tensor_map(map_c);
    ring.init(C::kWarpsPerTile * (C::kClusterM + C::kClusterN - 1));
  }
  // Barriers must exist in every block of the cluster before the first multicast or remote arrival can reach them.
  if constexpr (C::kMulticast) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  // By every thread: the producer reads A and B, the consumers read scales, bias and residual and write C, and each of
  // them waits for itself alone.
  wait_for_prior_grid();

  if (warpgroup == C::kConsumers) {
    // ---- Producer: one thread feeds the ring
    // -----------------------------------------------------------------------------
    if constexpr (C::kConsumers > 1) decrease_registers<C::kProducerRegisters>();
    if (warp == C::kConsumers * 4 && elect_one()) {
      RingPosition<C::kStages> position;
      for (u32 tile = first_tile; tile < tile_count; tile += tile_step) {
        const TileCoordinate at = tile_at(tiles, tile);
        const i32 m = static_cast<i32>((at.row * C::kClusterM + place.in_m) * C::kBlockM);
        const i32 n = static_cast<i32>((at.col * C::kClusterN + place.in_n) * C::kBlockN);
        for (u32 block = k_first; block < k_first + k_count; ++block) {
          const u32 full = ring.full(position.stage);
          barrier_wait(ring.empty(position.stage), position.parity ^ 1u);
          if constexpr (C::kScalesA) {
            // Scales travel with the stage: fetched by the consumers they would arrive a stage late.
            const u32 stage_scales = base + SharedLayout::kScales + position.stage * C::kScaleBytes;
            const u32 bytes_a = scale_bytes(output.rows, static_cast<u32>(m), C::kBlockM);
            const u32 bytes_b = C::kScalesB ? scale_bytes(output.cols, static_cast<u32>(n), C::kBlockN) : 0;
            barrier_arrive_expect_bytes(full, C::kStageBytes + bytes_a + bytes_b);
            if (bytes_a != 0) load_bytes(stage_scales, scales.fp32_a() + block * scales.stride_a + m, bytes_a, full);
            if (bytes_b != 0) {
              load_bytes(stage_scales + C::kBlockM * 4, scales.fp32_b() + block * scales.stride_b + n, bytes_b, full);
            }
          } else {
            barrier_arrive_expect_bytes(full, C::kStageBytes);
          }
          const i32 k = static_cast<i32>(block * C::kBlockK);
          load_operand<C::kMajorA, C::kBlockM, C::kClusterN, C::kSplitColumnsA>(
              base + SharedLayout::kA + position.stage * C::kStageBytesA, map_a, full, k, m, place.in_n,
              place.share_a_mask);
          load_operand<C::kMajorB, C::kBlockN, C::kClusterM, C::kSplitColumnsB>(
              base + SharedLayout::kB + position.stage * C::kStageBytesB, map_b, full, k, n, place.in_m,
              place.share_b_mask);
          position.advance();
        }
      }
      let_next_grid_start();
    }
    __syncwarp();
    if constexpr (C::kSplitK > 1) {  // the two cluster barriers around the exchange count every thread
      for (u32 i = 0; i < 2; ++i) {
        cluster_arrive();
        cluster_wait();
      }
    }
  } else {
    // ---- Consumers: multiply out of the ring, then store
    // -----------------------------------------------------------------
    if constexpr (C::kConsumers > 1) increase_registers<C::kConsumerRegisters>();
    const u32 row_in_tile = C::kPingpong ? 0 : warpgroup * C::kRowsPerWarpgroup;
    const u32 slabs = base + SharedLayout::kSlabs + warp * C::kSlabBuffers * kSlabBytes;
    // 64 rows of A are 8 KiB in either order: 64 swizzle rows (K-major), or one column of 64 K rows (MN-major).
    const u64 first_a =
        matrix_descriptor<C::kMajorA>(base + SharedLayout::kA + row_in_tile * kRowBytes, C::kBlockK * kRowBytes);
    const u64 first_b = matrix_descriptor<C::kMajorB>(base + SharedLayout::kB, C::kBlockK * kRowBytes);

    // Lane i tells block i of the cluster that this warp no longer needs a stage it feeds.
    const bool tells_peer = C::kMulticast && lane < C::kClusterBlocks &&
                            (lane % C::kClusterM == place.in_m || lane / C::kClusterM == place.in_n);
    auto release = [&](u32 stage) {
      // One lane lets go of what all lanes have read with ordinary loads.
      if constexpr (C::kScalesA) __syncwarp();
      if constexpr (!C::kMulticast) {
        if (lane == 0) barrier_arrive(ring.empty(stage));
      } else {
        if (tells_peer) barrier_arrive_in_block(ring.empty(stage), lane);
      }
    };

    TileFinish<C> finish{base + SharedLayout::kVectors + warpgroup * TileFinish<C>::kBytes};
    RingPosition<C::kStages> position;
    if (C::kPingpong && warpgroup == 1) {
      position.advance_by(k_blocks);
      named_barrier_arrive(kTurnBarrier, kTurnThreads);  // the first turn is warpgroup 0's
    }
    const u32 first_mine = C::kPingpong ? first_tile + warpgroup * tile_step : first_tile;
    const u32 step_mine = C::kPingpong ? 2 * tile_step : tile_step;
    for (u32 tile = first_mine; tile < tile_count; tile += step_mine) {
      float sums[C::kSubtiles][C::kBlockN / 2];
      const TileCoordinate at = tile_at(tiles, tile);
      const i32 n = static_cast<i32>((at.col * C::kClusterN + place.in_n) * C::kBlockN);
      const i32 m =
          static_cast<i32>((at.row * C::kClusterM + place.in_m) * C::kBlockM + row_in_tile + (warp % 4) * kSlabRows);
      finish.read(output, scales, extra, static_cast<u32>(m) + lane / 4, static_cast<u32>(n));
      if constexpr (C::kPromote) {
        // Rows and columns past the end have no scales and are never stored: what lies in shared memory there does not
        // matter.
        PromotionScales where{};
        const u32 stage_scales = base + SharedLayout::kScales;
        where.rows = stage_scales + (row_in_tile + (warp % 4) * kSlabRows + lane / 4) * 4;
        where.columns = stage_scales + (C::kBlockM + 2 * (lane % 4)) * 4;
        if constexpr (C::kScaling == Scaling::kBlock) {
          const u32 last = (output.cols - 1) / 128, first = min(static_cast<u32>(n) / 128, last);
          where.b0 = scales.fp32_b() + first * scales.stride_b + k_first;
          where.b1 = scales.fp32_b() + min(first + 1, last) * scales.stride_b + k_first;
          where.edge = 128 - static_cast<u32>(n) % 128;
        }
        multiply_promoted<C>(sums, ring, position, first_a, first_b, k_count, where, release);
      } else {
        // The warpgroups take turns at the K loop. Not only for speed: a barrier tells its phases apart by one bit, so
        // a warpgroup that ran ahead to its next tile would take an old phase of the ring for the new one.
        if constexpr (C::kPingpong) named_barrier(kTurnBarrier + warpgroup, kTurnThreads);
        const u32 in_use = multiply<C>(sums, ring, position, first_a, first_b, k_count, release);
        if constexpr (C::kPingpong) {
          named_barrier_arrive(kTurnBarrier + 1 - warpgroup, kTurnThreads);
          position.advance_by(k_blocks);
        }
        wgmma_wait<0>();
        release(in_use);
      }

      finish.share(kFinishBarrier + warpgroup);
      const TileStore store{map_c, output, extra, finish, slabs, lane, n, m};
      if constexpr (C::kSplitK == 1) {
#pragma unroll
        for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) store(sums[subtile], 0, subtile);
      } else {
        sum_over_cluster(sums, base, part_of_k, warpgroup, store);
      }
    }
    if (lane == 0) wait_stores_done();
    __syncwarp();
  }
  // No block may leave while a peer can still multicast into its shared memory or arrive on its barriers.
  if constexpr (C::kMulticast) {
    cluster_arrive();
    cluster_wait();
  }
}
