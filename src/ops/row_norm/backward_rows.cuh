// Rows of the norms, backward. Blocks stay and take row after row of dy and x (row_loop.cuh), from their sums of
// products to dx in registers. The terms of dweight and dbias add up in registers, for all rows of a block; each block
// writes one row of partial sums of either, and a second kernel adds those in their order. Rows that are no whole
// chunks go by elements: they are read twice and add up in the partial sums themselves.
#pragma once
#include "../../device/cuda/kernel/row_loop.cuh"
#include "columns.cuh"

namespace ridge::cuda {

template <bool kGiven>
struct OwnOfMean {
  const float* mean;
  u8* dbias;
};
template <>
struct OwnOfMean<false> {
  static constexpr const float* mean = nullptr;
  static constexpr u8* dbias = nullptr;
};
// As the launch plan fills it; pitches in bytes.
struct RowNormBackwardParameters : OwnOfMean<kMean> {
  const u8 *dy, *x;
  const float* rstd;
  const u8 *weight, *dsum;
  u8 *dx, *dweight;
  float* partial;  // [parts, cols] of dweight, then of dbias
  i64 dy_pitch, x_pitch, dsum_pitch, dx_pitch;
  RowGeometry geometry;
  i64 cols;
  u32 parts;
  u32 order;  // kInOrder
};

namespace {

constexpr bool kDx = RIDGE_DX != 0, kDweight = RIDGE_DWEIGHT != 0, kDbias = RIDGE_DBIAS != 0;
constexpr bool kWeight = RIDGE_WEIGHT != 0 && kDx;
constexpr u32 kInputs = kResidual ? 3 : 2;

// Sums over rows for a thread's columns.
template <bool kWanted>
using Totals = float[kWanted ? kPerThread : 1][kWanted ? kCount : 1];

__device__ __forceinline__ float* dbias_part(const RowNormBackwardParameters& p, u32 part) {
  return p.partial + ((kDweight ? p.parts : 0) + part) * p.cols;
}

// The sums of a block to its row of partial sums. Of short rows threads share columns: lanes of a warp and then warps
// are added in their order.
template <class Loop, class Sums>
__device__ __forceinline__ void write_block_totals(float* part, const Loop& loop, const Sums& totals) {
  float* const to = part + static_cast<u64>(loop.first_chunk()) * kCount;
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) {
    if (loop.chunk(k) >= loop.chunks()) continue;
#pragma unroll
    for (u32 i = 0; i < kCount; i += 4) {
      *reinterpret_cast<float4*>(to + static_cast<u64>(loop.chunk(k)) * kCount + i) =
          make_float4(totals[k][i], totals[k][i + 1], totals[k][i + 2], totals[k][i + 3]);
    }
  }
}
template <class Loop, class Sums>
__device__ __forceinline__ void write_warp_totals(float* part, i64 cols, const Loop& loop, Sums& totals, u8* memory) {
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) {
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
#pragma unroll
      for (u32 mask = kLanes; mask < kWarpThreads; mask *= 2) {
        totals[k][i] += __shfl_xor_sync(~0u, totals[k][i], static_cast<int>(mask));
      }
    }
  }
  float* const sums = reinterpret_cast<float*>(memory + kRowHeader);  // over the rings, which nothing fills any more
  for (u32 warp = 0; warp < blockDim.x / kWarpThreads; ++warp) {
    __syncthreads();
    if (threadIdx.x / kWarpThreads != warp || threadIdx.x % kWarpThreads >= kLanes) continue;
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      if (loop.chunk(k) >= loop.chunks()) continue;
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        float& sum = sums[loop.chunk(k) * kCount + i];
        sum = warp == 0 ? totals[k][i] : sum + totals[k][i];
      }
    }
  }
  __syncthreads();
  for (u32 j = threadIdx.x; j < cols; j += blockDim.x) part[j] = sums[j];
}
template <class Loop, class Sums>
__device__ __forceinline__ void write_totals(const RowNormBackwardParameters& p, float* part, const Loop& loop,
                                             Sums& totals, u8* memory) {
  if constexpr (kLanes == 0) write_block_totals(part, loop, totals);
  if constexpr (kLanes != 0) write_warp_totals(part, p.cols, loop, totals, memory);
}

// What forward saved of a row: read one row ahead where a block takes it.
struct Saved {
  float mean = 0.0f, rstd = 0.0f;

  __device__ __forceinline__ void load(const RowNormBackwardParameters& p, i64 row) {
    rstd = __ldg(p.rstd + row);
    if constexpr (kMean) mean = __ldg(p.mean + row);
  }
  __device__ __forceinline__ float centred(float x) const { return kMean ? x - mean : x; }
};

__device__ __forceinline__ void by_chunks(const RowNormBackwardParameters& p, u8* memory) {
  RowShared& shared = *reinterpret_cast<RowShared*>(memory);
  prepare_rows<kCluster>(shared);
  RowInput inputs[kInputs];
  inputs[0] = {p.dy, p.dy_pitch};
  inputs[1] = {p.x, p.x_pitch};
  if constexpr (kResidual) inputs[2] = {p.dsum, p.dsum_pitch};
  RowLoop<kInputs, kLanes, kCluster> loop(p.geometry, inputs, shared);
  RowSum<kSums, kLanes, kCluster> sum(shared);
  Columns<kWeight> weight;
  weight.load(loop, p.weight);
  Totals<kDweight> dweight = {};
  Totals<kDbias> dbias = {};
  const i64 rows = p.geometry.rows;
  const float inverse_cols = 1.0f / static_cast<float>(p.cols);
  Saved next;
  if (kLanes == 0 && loop.more()) next.load(p, loop.row(0));
  for (; loop.more(); loop.advance()) {
    const Saved of_block = next;
    if (kLanes == 0 && loop.next_row(0) < rows) next.load(p, loop.next_row(0));
    loop.wait();
    for (u32 pass = 0; pass < loop.passes(); ++pass) {
      const i64 row = loop.row(pass);
      const bool there = row < rows;
      Saved saved = of_block;
      if (kLanes != 0 && there) saved.load(p, row);
      ChunkX dy[kPerThread], x[kPerThread], more[kResidual ? kPerThread : 1];
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
        const u32 c = loop.chunk(k);
        dy[k].clear(), x[k].clear();
        if constexpr (kResidual) more[k].clear();
        if (c >= loop.chunks() || !there) continue;
        dy[k].load_shared(loop.address(0, pass, c));
        x[k].load_shared(loop.address(1, pass, c));
        if constexpr (kResidual) more[k].load_shared(loop.address(2, pass, c));
      }
      float sums[kSums] = {};  // of the products with x, and of dy w
      if constexpr (kDx) {
        weight.stay_packed(p.order);
#pragma unroll
        for (u32 k = 0; k < kPerThread; ++k) {
#pragma unroll
          for (u32 i = 0; i < kCount; ++i) {
            const float slope = dy[k][i] * weight.factor(k, i);
            sums[0] += slope * saved.centred(x[k][i]);
            if constexpr (kMean) sums[kSums - 1] += slope;
          }
        }
        sum(sums);
        weight.stay_packed(p.order);
#pragma unroll
        for (u32 k = 0; k < kPerThread; ++k) dy[k].stay_packed(p.order), x[k].stay_packed(p.order);
      }
      if (pass + 1 == loop.passes()) loop.release(kDx);
      const float c = sums[0] * inverse_cols * saved.rstd * saved.rstd, plain = sums[kSums - 1] * inverse_cols;
      u8* const to = p.dx + row * p.dx_pitch + static_cast<u64>(loop.first_chunk()) * 16;
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
        float dx[kCount];
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
          const float one_dy = dy[k][i], one_x = saved.centred(x[k][i]);
          if constexpr (kDweight) dweight[k][i] += one_dy * (one_x * saved.rstd);
          if constexpr (kDbias) dbias[k][i] += one_dy;
          if constexpr (kDx) {
            const float slope = one_dy * weight.factor(k, i);
            dx[i] = ((kMean ? slope - plain : slope) - c * one_x) * saved.rstd;
          }
          if constexpr (kResidual) dx[i] += more[k][i];
        }
        if constexpr (!kDx) continue;
        ChunkX out;
        out.set(dx);
        if (there && loop.chunk(k) < loop.chunks()) out.store_global(to + static_cast<u64>(loop.chunk(k)) * 16);
      }
    }
  }
  const u32 part = blockIdx.x / (kCluster ? cluster_blocks() : 1);
  if constexpr (kDweight) write_totals(p, p.partial + part * p.cols, loop, dweight, memory);
  if constexpr (kDweight && kDbias && kLanes != 0) __syncthreads();  // both lie in the same shared memory
  if constexpr (kDbias) write_totals(p, dbias_part(p, part), loop, dbias, memory);
  leave_rows<kCluster>();
}

// A block takes rows of any number of elements at any address. Every thread has its columns, also of the partial sums.
__device__ __forceinline__ void by_elements(const RowNormBackwardParameters& p) {
  __shared__ RowShared shared;
  prepare_rows<false>(shared);
  RowSum<kSums, 0, false> sum(shared);
  const float inverse_cols = 1.0f / static_cast<float>(p.cols);
  float *const dweight = p.partial + blockIdx.x * p.cols, *const dbias = dbias_part(p, blockIdx.x);
  for (i64 row = blockIdx.x; row < p.geometry.rows; row += gridDim.x) {
    const u8 *const dy = p.dy + row * p.dy_pitch, *const x = p.x + row * p.x_pitch,
                    *const dsum = p.dsum + row * p.dsum_pitch;
    u8* const dx = p.dx + row * p.dx_pitch;
    const auto slope_of = [&](i64 j) { return load_number<kTypeX>(dy, j) * factor_of<kWeight>(p.weight, j); };
    Saved saved;
    saved.load(p, row);
    float sums[kSums] = {};
    if constexpr (kDx) {
      for (i64 j = threadIdx.x; j < p.cols; j += blockDim.x) {
        const float slope = slope_of(j);
        sums[0] += slope * saved.centred(load_number<kTypeX>(x, j));
        if constexpr (kMean) sums[kSums - 1] += slope;
      }
      sum(sums);
    }
    const float c = sums[0] * inverse_cols * saved.rstd * saved.rstd, plain = sums[kSums - 1] * inverse_cols;
    const auto add = [&](float& total, float term) { total = row == blockIdx.x ? term : total + term; };
    for (i64 j = threadIdx.x; j < p.cols; j += blockDim.x) {
      const float one = saved.centred(load_number<kTypeX>(x, j));
      if constexpr (kDx) {
        const float slope = ((kMean ? slope_of(j) - plain : slope_of(j)) - c * one) * saved.rstd;
        store_number<kTypeX>(dx, j, kResidual ? slope + load_number<kTypeX>(dsum, j) : slope);
      }
      if constexpr (kDweight) add(dweight[j], load_number<kTypeX>(dy, j) * (one * saved.rstd));
      if constexpr (kDbias) add(dbias[j], load_number<kTypeX>(dy, j));
    }
  }
}

// The bodies of both kernels. The second one: a block adds up the rows of partial sums for 32 columns of one gradient,
// 32 rows side by side and then those, in their order.
__device__ __forceinline__ void differentiate_rows(const RowNormBackwardParameters& p) {
  let_next_grid_start();
  if constexpr (kByChunks) {
    extern __shared__ __align__(128) u8 memory[];
    by_chunks(p, memory);
  } else {
    by_elements(p);
  }
}
__device__ __forceinline__ void add_parts(const RowNormBackwardParameters& p) {
  constexpr u32 kColumns = 32, kRows = 256 / (kColumns / 4);
  __shared__ float sums[kRows][kColumns];
  const bool of_bias = kDbias && (!kDweight || blockIdx.y == 1);
  const float* const parts = of_bias ? dbias_part(p, 0) : p.partial;
  const u32 first = threadIdx.x % (kColumns / 4) * 4, side = threadIdx.x / (kColumns / 4);
  const i64 column = static_cast<i64>(blockIdx.x) * kColumns + first;
  float total[4] = {};
  wait_for_prior_grid();
  const bool aligned = p.cols % 4 == 0;
  for (u32 part = side; part < p.parts; part += kRows) {
    const float* const from = parts + part * p.cols + column;
    if (aligned && column < p.cols) {
      const float4 four = __ldcg(reinterpret_cast<const float4*>(from));
      total[0] += four.x, total[1] += four.y, total[2] += four.z, total[3] += four.w;
      continue;
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if (column + i < p.cols) total[i] += __ldcg(from + i);
    }
  }
#pragma unroll
  for (u32 i = 0; i < 4; ++i) sums[side][first + i] = total[i];
  __syncthreads();
  const i64 own = static_cast<i64>(blockIdx.x) * kColumns + threadIdx.x;
  if (threadIdx.x >= kColumns || own >= p.cols) return;
  float sum = 0.0f;
#pragma unroll
  for (u32 i = 0; i < kRows; ++i) sum += sums[i][threadIdx.x];
  store_number<kTypeW>(of_bias ? p.dbias : p.dweight, own, sum);
}

}  // namespace
}  // namespace ridge::cuda
