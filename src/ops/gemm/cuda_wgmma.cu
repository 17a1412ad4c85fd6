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
#include "../../device/cuda/kernel/epilogue.cuh"
#include "../../device/cuda/kernel/pipeline.cuh"
#include "../../device/cuda/kernel/tile_scheduler.cuh"
#include "../../device/cuda/kernel/tma.cuh"
#include "../../device/cuda/kernel/wgmma.cuh"

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
#ifndef RIDGE_TYPE_A
#define RIDGE_TYPE_A kBf16
#endif
#ifndef RIDGE_TYPE_B
#define RIDGE_TYPE_B kBf16
#endif
#ifndef RIDGE_TYPE_C
#define RIDGE_TYPE_C kBf16
#endif
#ifndef RIDGE_MAJOR_A
#define RIDGE_MAJOR_A kK
#endif
#ifndef RIDGE_MAJOR_B
#define RIDGE_MAJOR_B kK
#endif
#ifndef RIDGE_STORE
#define RIDGE_STORE kOverwrite
#endif
#ifndef RIDGE_DIRECT_STORE  // 1: an output that the copy engine cannot address (odd N or row stride)
#define RIDGE_DIRECT_STORE 0
#endif

#ifndef RIDGE_BLOCK_SCALE  // 1: 8-bit inputs with one scale per 1 x 128 of A and per 128 x 128 of B
#define RIDGE_BLOCK_SCALE 0
#endif

namespace ridge::cuda {
namespace {

struct Config {
  static constexpr u32 kBlockM = RIDGE_BLOCK_M;
  static constexpr u32 kBlockN = RIDGE_BLOCK_N;
  static constexpr u32 kStages = RIDGE_STAGES;
  static constexpr u32 kClusterM = RIDGE_CLUSTER_M;
  static constexpr u32 kClusterN = RIDGE_CLUSTER_N;
  static constexpr u32 kClusterBlocks = kClusterM * kClusterN;
  static constexpr u32 kConsumers = RIDGE_CONSUMERS;
  static constexpr bool kPingpong = RIDGE_PINGPONG != 0;
  static constexpr u32 kSlabBuffers = RIDGE_SLAB_BUFFERS;
  static constexpr MatrixType kTypeA = MatrixType::RIDGE_TYPE_A;
  static constexpr MatrixType kTypeB = MatrixType::RIDGE_TYPE_B;
  static constexpr OutputType kTypeC = OutputType::RIDGE_TYPE_C;
  static constexpr Major kMajorA = Major::RIDGE_MAJOR_A;
  static constexpr Major kMajorB = Major::RIDGE_MAJOR_B;
  static constexpr StoreMode kStore = StoreMode::RIDGE_STORE;
  static constexpr bool kDirectStore = RIDGE_DIRECT_STORE != 0;

  static constexpr bool kEightBit = kTypeA == MatrixType::kE4m3 || kTypeA == MatrixType::kE5m2;
  static constexpr bool kBlockScale = RIDGE_BLOCK_SCALE != 0;
  // One stage is one swizzle row of K: 64 elements of two bytes, 128 of one.
  static constexpr u32 kBlockK = kEightBit ? 128 : 64;
  static constexpr u32 kStageBytesA = kBlockM * kRowBytes;
  static constexpr u32 kStageBytesB = kBlockN * kRowBytes;
  static constexpr u32 kStageBytes = kStageBytesA + kStageBytesB;

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
  static constexpr int kProducerRegisters = kBlockScale ? 56 : 40;
  static constexpr int kConsumerRegisters = kBlockScale ? 224 : 232;

  static_assert(kBlockM % 64 == 0 && kRowsPerWarpgroup % 64 == 0, "wgmma computes 64 rows at a time");
  static_assert(kConsumers == 2, "with three, wgmma of this width does not fit the registers at entry");
  static_assert(!kPingpong || kConsumers == 2, "pingpong alternates between two warpgroups");
  static_assert(!kBlockScale || (kEightBit && !kPingpong),
                "promotion hides under the other warpgroup's K loop: no taking turns");
  static_assert(!kBlockScale || kBlockN == 128, "one scale of B per stage: the tile is as wide as a block of B");
  static_assert(kMajorA == Major::kK || kBlockM % 64 == 0, "MN-major tiles are columns of 64 elements");
  static_assert(kMajorB == Major::kK || kBlockN % 64 == 0, "MN-major tiles are columns of 64 elements");
  static_assert(kBlockM / kClusterN <= 256 && kBlockN / kClusterM <= 256, "a box side is at most 256");
  static_assert((kBlockM / kClusterN) % 8 == 0 && (kBlockN / kClusterM) % 8 == 0, "parts must be whole swizzle atoms");
};

// Shared memory, from a 1024-byte aligned base: stages of A, stages of B, output slabs, scales, barriers.
struct SharedLayout {
  static constexpr u32 kA = 0;
  static constexpr u32 kB = kA + Config::kStages * Config::kStageBytesA;
  static constexpr u32 kSlabs = kB + Config::kStages * Config::kStageBytesB;
  static constexpr u32 kScales = kSlabs + Config::kConsumers * 4 * Config::kSlabBuffers * kSlabBytes;
  static constexpr u32 kScaleBytes = Config::kBlockScale ? Config::kBlockM * 4 : 0;  // per stage: A's, one per row
  static constexpr u32 kBarriers = kScales + Config::kStages * kScaleBytes;
  static constexpr u32 kBytes = kBarriers + Ring<Config::kStages>::kBytes;
  static_assert(kBytes <= 232448, "a block has 227 KiB of shared memory: fewer stages, a smaller tile or fewer slabs");
};

inline constexpr u32 kTurnBarrier = 1;  // and 2: whose turn it is in pingpong

struct BlockPlace {
  u32 in_m, in_n;    // position in the cluster
  u16 share_a_mask;  // blocks that read the same A tile: same in_m
  u16 share_b_mask;  // blocks that read the same B tile: same in_n
};

__device__ __forceinline__ BlockPlace place_in_cluster() {
  BlockPlace place{};
  const u32 rank = Config::kClusterBlocks == 1 ? 0 : cluster_rank();
  place.in_m = rank % Config::kClusterM;
  place.in_n = rank / Config::kClusterM;
  for (u32 n = 0; n < Config::kClusterN; ++n)
    place.share_a_mask |= static_cast<u16>(1u << (place.in_m + Config::kClusterM * n));
  for (u32 m = 0; m < Config::kClusterM; ++m)
    place.share_b_mask |= static_cast<u16>(1u << (m + Config::kClusterM * place.in_n));
  return place;
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

}  // namespace
}  // namespace ridge::cuda

// map_c is read by builds that store through the copy engine, `output` by the others.
// scale_a, scale_b: fp32, read by 8-bit builds only: one each, the product being multiplied by both; or, with block
// scales, scale_a[K block][row of A] (scale_stride apart) and scale_b[N block][K block], blocks of 128.
extern "C" __global__ void __launch_bounds__(ridge::cuda::Config::kThreads, 1)
    ridge_gemm(const __grid_constant__ ridge::cuda::TensorMap map_a,
               const __grid_constant__ ridge::cuda::TensorMap map_b,
               const __grid_constant__ ridge::cuda::TensorMap map_c, const ridge::cuda::OutputView output,
               const ridge::cuda::TileGrid tiles, const ridge::cuda::u32 k_blocks, const float* const scale_a,
               const float* const scale_b, const ridge::cuda::i64 scale_stride) {
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

  if (warp == 0 && elect_one()) {
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    if constexpr (!C::kDirectStore) prefetch_tensor_map(map_c);
    ring.init(C::kWarpsPerTile * (C::kClusterM + C::kClusterN - 1));
  }
  // Barriers must exist in every block of the cluster before the first multicast or remote arrival can reach them.
  if constexpr (C::kClusterBlocks > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }

  if (warpgroup == C::kConsumers) {
    // ---- Producer: one thread feeds the ring
    // -----------------------------------------------------------------------------
    if constexpr (C::kConsumers > 1) decrease_registers<C::kProducerRegisters>();
    if (warp == C::kConsumers * 4 && elect_one()) {
      wait_for_prior_grid();
      RingPosition<C::kStages> position;
      for (u32 tile = first_tile; tile < tile_count; tile += tile_step) {
        const TileCoordinate at = tile_at(tiles, tile);
        const i32 m = static_cast<i32>((at.row * C::kClusterM + place.in_m) * C::kBlockM);
        const i32 n = static_cast<i32>((at.col * C::kClusterN + place.in_n) * C::kBlockN);
        for (u32 block = 0; block < k_blocks; ++block) {
          const u32 full = ring.full(position.stage);
          barrier_wait(ring.empty(position.stage), position.parity ^ 1u);
          if constexpr (C::kBlockScale) {
            // A's scales travel with the stage: fetched by the consumers they would arrive a stage late.
            const u32 rows = output.rows > static_cast<u32>(m) ? min(C::kBlockM, output.rows - static_cast<u32>(m)) : 0;
            barrier_arrive_expect_bytes(full, C::kStageBytes + rows * 4);
            if (rows != 0) {
              load_bytes(base + SharedLayout::kScales + position.stage * SharedLayout::kScaleBytes,
                         scale_a + block * scale_stride + m, rows * 4, full);
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
  } else {
    // ---- Consumers: multiply out of the ring, then store
    // -----------------------------------------------------------------
    if constexpr (C::kConsumers > 1) increase_registers<C::kConsumerRegisters>();
    using Mma = Wgmma<C::kBlockN, C::kTypeA, C::kTypeB, C::kMajorA, C::kMajorB>;
    const u32 row_in_tile = C::kPingpong ? 0 : warpgroup * C::kRowsPerWarpgroup;
    const u32 slabs = base + SharedLayout::kSlabs + warp * C::kSlabBuffers * kSlabBytes;
    // 64 rows of A are 8 KiB in either order: 64 swizzle rows (K-major), or one column of 64 K rows (MN-major).
    const u64 first_a =
        matrix_descriptor<C::kMajorA>(base + SharedLayout::kA + row_in_tile * kRowBytes, C::kBlockK * kRowBytes);
    const u64 first_b = matrix_descriptor<C::kMajorB>(base + SharedLayout::kB, C::kBlockK * kRowBytes);
    float scale = 1.0f;
    if constexpr (C::kEightBit && !C::kBlockScale) scale = *scale_a * *scale_b;

    // Lane i tells block i of the cluster that this warp no longer needs a stage it feeds.
    const bool tells_peer =
        lane < C::kClusterBlocks && (lane % C::kClusterM == place.in_m || lane / C::kClusterM == place.in_n);
    auto release = [&](u32 stage) {
      if constexpr (C::kClusterBlocks == 1) {
        if (lane == 0) barrier_arrive(ring.empty(stage));
      } else {
        if (tells_peer) barrier_arrive_in_block(ring.empty(stage), lane);
      }
    };

    RingPosition<C::kStages> position;
    if (C::kPingpong && warpgroup == 1) {
      position.advance_by(k_blocks);
      named_barrier_arrive(kTurnBarrier, 2 * kWarpgroupThreads);  // the first turn is warpgroup 0's
    }
    const u32 first_mine = C::kPingpong ? first_tile + warpgroup * tile_step : first_tile;
    const u32 step_mine = C::kPingpong ? 2 * tile_step : tile_step;
    for (u32 tile = first_mine; tile < tile_count; tile += step_mine) {
      float sums[C::kSubtiles][Mma::kAccumulators];
      const TileCoordinate at = tile_at(tiles, tile);
      const i32 n = static_cast<i32>((at.col * C::kClusterN + place.in_n) * C::kBlockN);
      const i32 m =
          static_cast<i32>((at.row * C::kClusterM + place.in_m) * C::kBlockM + row_in_tile + (warp % 4) * kSlabRows);
      if constexpr (C::kBlockScale) {
        // The tensor core's 8-bit adder keeps about 14 bits, so each stage of K is summed by itself and promoted into
        // fp32 registers, scaled on the way. One set of instruction accumulators serves all 64-row parts in turn; while
        // this warpgroup promotes, the other's instructions run.
        float part[Mma::kAccumulators];
        // Rows past the end have no scales and are never stored: what lies in shared memory there does not matter.
        const u32 my_scales = base + SharedLayout::kScales + (row_in_tile + (warp % 4) * kSlabRows + lane / 4) * 4;
#pragma unroll
        for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
#pragma unroll
          for (int i = 0; i < Mma::kAccumulators; ++i) sums[subtile][i] = 0.0f;
        }
        const float* const column_b =
            scale_b + static_cast<i64>(min(static_cast<u32>(n), output.cols - 1) / 128) * k_blocks;
        float scale_of_b = __ldg(column_b);
        for (u32 block = 0; block < k_blocks; ++block) {
          const float next_scale_of_b = __ldg(column_b + min(block + 1, k_blocks - 1));
          barrier_wait(ring.full(position.stage), position.parity);
          const u64 a = first_a + position.stage * (C::kStageBytesA >> 4);
          const u64 b = first_b + position.stage * (C::kStageBytesB >> 4);
          float factor[C::kSubtiles][2];
#pragma unroll
          for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
            const u32 scales = my_scales + position.stage * SharedLayout::kScaleBytes + subtile * 64 * 4;
            factor[subtile][0] = load_shared(scales) * scale_of_b;
            factor[subtile][1] = load_shared(scales + 8 * 4) * scale_of_b;
          }
#pragma unroll
          for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
            keep_in_registers(part);
            wgmma_fence();
#pragma unroll
            for (u32 step = 0; step < kRowBytes / kWgmmaStepBytes; ++step) {
              Mma::mma(part, a + subtile * (64 * kRowBytes >> 4) + step * kDescriptorStep<C::kMajorA>,
                       b + step * kDescriptorStep<C::kMajorB>, step != 0);
            }
            wgmma_commit();
            wgmma_wait<0>();
            keep_in_registers(part);
            if (subtile + 1 == C::kSubtiles) release(position.stage);
            const float upper = factor[subtile][0], lower = factor[subtile][1];
#pragma unroll
            for (int i = 0; i < Mma::kAccumulators; i += 4) {
              sums[subtile][i] += upper * part[i];
              sums[subtile][i + 1] += upper * part[i + 1];
              sums[subtile][i + 2] += lower * part[i + 2];
              sums[subtile][i + 3] += lower * part[i + 3];
            }
          }
          scale_of_b = next_scale_of_b;
          position.advance();
        }
      } else {
        u32 previous = 0;
        // The warpgroups take turns at the K loop. Not only for speed: a barrier tells its phases apart by one bit, so
        // a warpgroup that ran ahead to its next tile would take an old phase of the ring for the new one.
        if constexpr (C::kPingpong) named_barrier(kTurnBarrier + warpgroup, 2 * kWarpgroupThreads);
        for (u32 block = 0; block < k_blocks; ++block) {
          barrier_wait(ring.full(position.stage), position.parity);
          const u64 a = first_a + position.stage * (C::kStageBytesA >> 4);
          const u64 b = first_b + position.stage * (C::kStageBytesB >> 4);
          wgmma_fence();
#pragma unroll
          for (u32 step = 0; step < kRowBytes / kWgmmaStepBytes; ++step) {
#pragma unroll
            for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
              Mma::mma(sums[subtile], a + subtile * (64 * kRowBytes >> 4) + step * kDescriptorStep<C::kMajorA>,
                       b + step * kDescriptorStep<C::kMajorB>, block != 0 || step != 0);
            }
          }
          wgmma_commit();
          // The group just issued may still run; the one before it is done, so its stage goes back to the producers.
          wgmma_wait<1>();
          if (block != 0) release(previous);
          previous = position.stage;
          position.advance();
        }
        if constexpr (C::kPingpong) {
          named_barrier_arrive(kTurnBarrier + 1 - warpgroup, 2 * kWarpgroupThreads);
          position.advance_by(k_blocks);
        }
        wgmma_wait<0>();
        release(previous);
      }

#pragma unroll
      for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
        if constexpr (C::kEightBit && !C::kBlockScale) {
#pragma unroll
          for (int i = 0; i < Mma::kAccumulators; ++i) sums[subtile][i] *= scale;
        }
        const i32 y = m + static_cast<i32>(subtile * 64);
        if constexpr (C::kDirectStore) {
          store_warp_tile_direct<C::kTypeC, C::kStore>(sums[subtile], output, static_cast<u32>(n), static_cast<u32>(y),
                                                       lane);
        } else {
          store_warp_tile<C::kTypeC, C::kStore, C::kSlabBuffers>(sums[subtile], map_c, slabs, n, y, lane);
        }
      }
    }
    if (lane == 0) wait_stores_done();
    __syncwarp();
  }
  // No block may leave while a peer can still multicast into its shared memory or arrive on its barriers.
  if constexpr (C::kClusterBlocks > 1) {
    cluster_arrive();
    cluster_wait();
  }
}
