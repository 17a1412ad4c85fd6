// What comes between a sum of products and the store: C = activation(scale * sum + bias) + residual.
#pragma once
#include "gemm_build.cuh"

namespace ridge::cuda {

// One element, for kernels without tiles of accumulators. The caller has checked that it lies in C.
template <class Build>
__device__ __forceinline__ float finish_element(float sum, const ScaleView& scales, const EpilogueView& extra, u32 row,
                                                u32 col) {
  if constexpr (Build::kScaling == Scaling::kTensor) sum *= scales.fp32_a()[0] * scales.fp32_b()[0];
  if constexpr (Build::kScaling == Scaling::kRow) sum *= scales.fp32_a()[row] * scales.fp32_b()[col];
  if constexpr (Build::kBias) sum += load_output<Build::kTypeC>(extra.bias, col);
  sum = activate<Build::kActivation>(sum);
  if constexpr (Build::kResidual) {
    sum += load_output<Build::kTypeC>(extra.residual, static_cast<i64>(row) * extra.residual_stride + col);
  }
  return sum;
}

// The same for the accumulators of a warpgroup. What belongs to whole rows and columns is read before the loop over K,
// so that its latency is not paid between the sums and the store: a row's scale by the threads that hold the row, the
// columns' scales and biases by thread t for columns t and t + 128, which meet in shared memory behind the loop.
template <class C>
struct TileFinish {
  static constexpr bool kRowScale = C::kScaling == Scaling::kRow;
  static constexpr u32 kVectors = (kRowScale ? 1 : 0) + (C::kBias ? 1 : 0);
  static constexpr u32 kBias = kRowScale ? 1 : 0;  // which vector the bias is
  static constexpr u32 kVectorBytes = C::kBlockN * 4;
  static constexpr u32 kBytes = kVectors * kVectorBytes;  // of shared memory, per warpgroup
  static constexpr u32 kPerThread = (C::kBlockN + kWarpgroupThreads - 1) / kWarpgroupThreads;

  u32 shared;  // this warpgroup's kBytes
  float rows[C::kSubtiles][2];
  float columns[kVectors == 0 ? 1 : kVectors][kPerThread];

  // `row`: of this thread's first accumulator; `col`: the tile's first.
  __device__ __forceinline__ void read(const OutputView& c, const ScaleView& scales, const EpilogueView& extra, u32 row,
                                       u32 col) {
#pragma unroll
    for (u32 i = 0; i < 2 * C::kSubtiles; ++i) {
      const u32 at = row + i / 2 * 64 + i % 2 * 8;
      if constexpr (C::kScaling == Scaling::kTensor) {
        rows[i / 2][i % 2] = __ldg(scales.fp32_a()) * __ldg(scales.fp32_b());
      } else if constexpr (kRowScale) {
        rows[i / 2][i % 2] = at < c.rows ? __ldg(scales.fp32_a() + at) : 0.0f;
      } else {
        rows[i / 2][i % 2] = 1.0f;
      }
    }
#pragma unroll
    for (u32 i = 0; kVectors != 0 && i < kPerThread; ++i) {
      const u32 at = col + i * kWarpgroupThreads + threadIdx.x % kWarpgroupThreads;
      const bool inside = at < c.cols;
      if constexpr (kRowScale) columns[0][i] = inside ? __ldg(scales.fp32_b() + at) : 0.0f;
      if constexpr (C::kBias) columns[kBias][i] = inside ? load_output<C::kTypeC>(extra.bias, at) : 0.0f;
    }
  }

  // By the whole warpgroup, with a named barrier of its own.
  __device__ __forceinline__ void share(u32 barrier) const {
    if constexpr (kVectors != 0) {
      const u32 thread = threadIdx.x % kWarpgroupThreads;
      named_barrier(barrier, kWarpgroupThreads);  // no thread still reads the last tile's
#pragma unroll
      for (u32 i = 0; i < kPerThread; ++i) {
        const u32 at = i * kWarpgroupThreads + thread;
#pragma unroll
        for (u32 vector = 0; vector < kVectors; ++vector) {
          if (at < C::kBlockN) store_shared(shared + vector * kVectorBytes + at * 4, columns[vector][i]);
        }
      }
      named_barrier(barrier, kWarpgroupThreads);
    }
  }

  // Accumulators i and i + 1: neighbours in a row, which belongs to half i & 2 of `subtile`; `at` is the left one's
  // column within the tile.
  __device__ __forceinline__ void apply(float& left, float& right, int i, u32 subtile, u32 at) const {
    if constexpr (C::kScaling == Scaling::kTensor || kRowScale) {
      const float row_scale = rows[subtile][(i & 2) / 2];
      left *= row_scale;
      right *= row_scale;
    }
    float x, y;
    if constexpr (kRowScale) {
      load_shared_v2(shared + at * 4, x, y);
      left *= x;
      right *= y;
    }
    if constexpr (C::kBias) {
      load_shared_v2(shared + kBias * kVectorBytes + at * 4, x, y);
      left += x;
      right += y;
    }
    left = activate<C::kActivation>(left);
    right = activate<C::kActivation>(right);
  }
};

// The residual of some accumulators: all reads before the first use. kAligned: C has whole pairs, and so do its rows.
template <class C, int kCount, bool kAligned>
struct ResidualPairs {
  RawPair<C::kTypeC, kAligned> pairs[kCount / 2];

  // Of accumulators first .. first + kCount - 1 whose first element of all is column x, row y.
  __device__ __forceinline__ void load(const OutputView& c, const EpilogueView& extra, int first, u32 x, u32 y,
                                       u32 lane) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const int index = first + i;
      const u32 row = y + (lane >> 2) + ((index & 2) ? 8 : 0), col = x + 2 * (lane & 3u) + 8 * (index / 4);
      pairs[i / 2].load(extra.residual, static_cast<i64>(row) * extra.residual_stride + col,
                        row < c.rows && col < c.cols, row < c.rows && col + 1 < c.cols);
    }
  }
};

}  // namespace ridge::cuda
