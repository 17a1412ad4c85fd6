// The loops over K that one warpgroup runs on stages of shared memory: plain, and with promotion. `Config` names the
// tile (kSubtiles parts of 64 rows by kBlockN columns per warpgroup), the types and layouts, and the stages.
#pragma once
#include "gemm_build.cuh"
#include "pipeline.cuh"

namespace ridge::cuda {

inline constexpr u32 kTurnBarrier = 1;  // and 2: named barriers of warpgroups that take turns
inline constexpr u32 kTurnThreads = 2 * kWarpgroupThreads;

// The matrix unit adds up all of K. One group of instructions runs ahead of the wait, so a stage goes back to the
// producer one step late; the last one is returned, for the caller to release behind wgmma_wait<0>.
template <class C, class Release>
__device__ __forceinline__ u32 multiply(float (&sums)[C::kSubtiles][C::kBlockN / 2], const Ring<C::kStages>& ring,
                                        RingPosition<C::kStages>& position, u64 first_a, u64 first_b, u32 k_blocks,
                                        const Release& release) {
  using Mma = Wgmma<C::kBlockN, C::kTypeA, C::kTypeB, C::kMajorA, C::kMajorB>;
  u32 previous = 0;
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
    wgmma_wait<1>();
    if (block != 0) release(previous);
    previous = position.stage;
    position.advance();
  }
  return previous;
}

// Where a thread finds the scales of its rows and columns.
struct PromotionScales {
  u32 rows;         // Block, Vector: shared address, in stage 0, of the scale of its first row of A
  u32 columns;      // Vector: of its first column of B
  const float* b0;  // Block: B's scales along K, for the 128 columns that hold the tile's first one
  const float* b1;  // and for the 128 after those
  u32 edge;         // Block: the column of the tile where the second begin
};

// The tensor core's 8-bit adder keeps about 14 bits, so each stage of K (128) is summed by itself and promoted: added,
// scaled on the way, to fp32 sums in ordinary registers. A stage is worked off in groups of instructions, each 64 rows
// by kInstructionN columns. kParts groups are in flight: while the first is promoted the second still runs, and under
// the last one's promotion the other warpgroup's instructions do. (A group in flight across the end of a stage would
// cover that too, but the compiler serialises it, C7514; handing the matrix unit over by named barriers costs more than
// it orders: 2 to 5 % slower.)
template <class C, class Release>
__device__ __forceinline__ void multiply_promoted(float (&sums)[C::kSubtiles][C::kBlockN / 2],
                                                  const Ring<C::kStages>& ring, RingPosition<C::kStages>& position,
                                                  u64 first_a, u64 first_b, u32 k_blocks, const PromotionScales& scales,
                                                  const Release& release) {
  using Mma = Wgmma<C::kInstructionN, C::kTypeA, C::kTypeB, C::kMajorA, C::kMajorB>;
  constexpr u32 kColumnGroups = C::kBlockN / C::kInstructionN, kGroups = C::kSubtiles * kColumnGroups;
  constexpr bool kRowScales = C::kScaling == Scaling::kBlock || C::kScaling == Scaling::kVector;
  static_assert(kGroups % C::kParts == 0, "groups are issued kParts at a time");
  // Columns that certainly share a scale of B: tiles start at multiples of kBlockN, blocks at multiples of 128.
  constexpr u32 kSharing = C::kBlockN % 128 == 0 ? 128 : C::kBlockN % 64 == 0 ? 64 : 32;
  constexpr u32 kShares = C::kBlockN / kSharing;
  // Column scales are read from the stage while promoting, so the stage is kept until that is done.
  constexpr bool kLateRelease = C::kScaling == Scaling::kVector;

  auto issue = [&](u32 stage, u32 group, float(&part)[Mma::kAccumulators]) {
    const u64 a = first_a + stage * (C::kStageBytesA >> 4) + group / kColumnGroups * (64 * kRowBytes >> 4);
    const u64 b =
        first_b + stage * (C::kStageBytesB >> 4) + group % kColumnGroups * (C::kInstructionN * kRowBytes >> 4);
    keep_in_registers(part);
    wgmma_fence();
#pragma unroll
    for (u32 step = 0; step < kRowBytes / kWgmmaStepBytes; ++step) {
      Mma::mma(part, a + step * kDescriptorStep<C::kMajorA>, b + step * kDescriptorStep<C::kMajorB>, step != 0);
    }
    wgmma_commit();
  };
  float row_scale[C::kSubtiles][2];
  float scale[C::kSubtiles][kShares][2];  // Block: A's times B's
  // Block: read and multiplied while the instructions just issued run, since in front of them they delay every stage.
  auto read_scales = [&](u32 stage, float b0, float b1) {
#pragma unroll
    for (u32 subtile = 0; kRowScales && subtile < C::kSubtiles; ++subtile) {
      const u32 address = scales.rows + stage * C::kScaleBytes + subtile * 64 * 4;
      row_scale[subtile][0] = load_shared(address);
      row_scale[subtile][1] = load_shared(address + 8 * 4);
    }
#pragma unroll
    for (u32 share = 0; C::kScaling == Scaling::kBlock && share < kShares; ++share) {
      const u32 column = share * kSharing;
      const float b = column == 0 ? b0 : column >= 128 ? b1 : column < scales.edge ? b0 : b1;
#pragma unroll
      for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
        scale[subtile][share][0] = row_scale[subtile][0] * b;
        scale[subtile][share][1] = row_scale[subtile][1] * b;
      }
    }
  };
  auto promote = [&](u32 stage, u32 group, const float(&part)[Mma::kAccumulators]) {
    const u32 subtile = group / kColumnGroups, first = group % kColumnGroups * C::kInstructionN;
    float* const sum = &sums[subtile][first / 2];
    if constexpr (C::kScaling == Scaling::kBlock) {
#pragma unroll
      for (int i = 0; i < Mma::kAccumulators; ++i) {
        sum[i] += scale[subtile][(first + 8 * (i / 4)) / kSharing][(i & 2) / 2] * part[i];
      }
    } else if constexpr (C::kScaling == Scaling::kVector) {
      const u32 columns = scales.columns + stage * C::kScaleBytes + first * 4;
#pragma unroll
      for (int i = 0; i < Mma::kAccumulators; i += 4) {
        float x, y;
        load_shared_v2(columns + i / 4 * 32, x, y);
        sum[i] += row_scale[subtile][0] * (x * part[i]);
        sum[i + 1] += row_scale[subtile][0] * (y * part[i + 1]);
        sum[i + 2] += row_scale[subtile][1] * (x * part[i + 2]);
        sum[i + 3] += row_scale[subtile][1] * (y * part[i + 3]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Mma::kAccumulators; ++i) sum[i] += part[i];
    }
    // Nothing of this may sink below the next group's first instruction, which overwrites `part`.
#pragma unroll
    for (int i = 0; i < Mma::kAccumulators; ++i) asm volatile("" : "+f"(sum[i])::"memory");
  };
  auto block_scales = [&](u32 block, float& b0, float& b1) {
    if constexpr (C::kScaling == Scaling::kBlock) {
      b0 = __ldg(scales.b0 + block);
      b1 = C::kBlockN == 128 ? b0 : __ldg(scales.b1 + block);
    }
  };

#pragma unroll
  for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
#pragma unroll
    for (u32 i = 0; i < C::kBlockN / 2; ++i) sums[subtile][i] = 0.0f;
  }
  float b0 = 0.0f, b1 = 0.0f;
  block_scales(0, b0, b1);

  float part[C::kParts][Mma::kAccumulators];
  for (u32 block = 0; block < k_blocks; ++block) {
    float next_b0 = b0, next_b1 = b1;
    if (block + 1 < k_blocks) block_scales(block + 1, next_b0, next_b1);
    barrier_wait(ring.full(position.stage), position.parity);
    if (C::kScaling == Scaling::kVector) read_scales(position.stage, b0, b1);
#pragma unroll
    for (u32 group = 0; group < kGroups; group += C::kParts) {
      issue(position.stage, group, part[0]);
      if constexpr (C::kParts == 2) issue(position.stage, group + 1, part[1]);
      if (C::kScaling == Scaling::kBlock && group == 0) read_scales(position.stage, b0, b1);
      wgmma_wait<C::kParts - 1>();
      keep_in_registers(part[0]);
      if (!kLateRelease && C::kParts == 1 && group + 1 == kGroups) release(position.stage);
      promote(position.stage, group, part[0]);
      if constexpr (C::kParts == 2) {
        wgmma_wait<0>();
        keep_in_registers(part[1]);
        if (!kLateRelease && group + 2 == kGroups) release(position.stage);
        promote(position.stage, group + 1, part[1]);
      }
    }
    if (kLateRelease) release(position.stage);
    b0 = next_b0;
    b1 = next_b1;
    position.advance();
  }
}

}  // namespace ridge::cuda
