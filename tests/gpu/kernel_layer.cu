// Device side of kernel_layer_test.cpp: each kernel exercises one helper of src/device/cuda/kernel and leaves a count
// of mistakes, or data that the host compares with plain arithmetic.
#include "epilogue.cuh"
#include "pipeline.cuh"
#include "tile_scheduler.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

using namespace ridge::cuda;

// Every tile of the grid is produced exactly once.
extern "C" __global__ void count_tiles(TileGrid grid, u32* visits) {
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < grid.rows * grid.cols; i += gridDim.x * blockDim.x) {
    const TileCoordinate at = tile_at(grid, i);
    if (at.row < grid.rows && at.col < grid.cols) atomicAdd(&visits[at.row * grid.cols + at.col], 1u);
  }
}

// advance_by(n) is n times advance().
extern "C" __global__ void compare_positions(u32* wrong) {
  const u32 steps = threadIdx.x;
  RingPosition<5> one, many;
  for (u32 round = 0; round < 7; ++round) {
    for (u32 i = 0; i < steps; ++i) one.advance();
    many.advance_by(steps);
    if (one.stage != many.stage || one.parity != many.parity) atomicAdd(wrong, 1u);
  }
}

// Loads one 64 x 32 box of 16-bit values and writes it out row by row through the swizzle function.
extern "C" __global__ void load_and_unswizzle(const __grid_constant__ TensorMap map, i32 x, i32 y, u16* out) {
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared);
  const u32 barrier = base + 4096;
  if (threadIdx.x == 0) {
    barrier_init(barrier, 1);
    barrier_init_fence();
    fence_proxy_async_shared();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_arrive_expect_bytes(barrier, 4096);
    load_box(base, map, barrier, x, y);
  }
  barrier_wait(barrier, 0);
  for (u32 i = threadIdx.x; i < 32 * 64; i += blockDim.x) {
    const u32 row = i / 64, col = i % 64;
    out[i] = *reinterpret_cast<const u16*>(shared + swizzled_chunk(row, col / 8) + (col % 8) * 2);
  }
}

// A warp stores a 16 x 2*kCount tile whose element (row, col) is row * 1000 + col, through the copy engine and
// directly.
template <OutputType kOut, StoreMode kMode, u32 kBuffers, int kCount>
__device__ void store_pattern(const TensorMap& map, const OutputView& direct, i32 x, i32 y) {
  extern __shared__ __align__(1024) u8 shared[];
  const u32 lane = threadIdx.x;
  float d[kCount];
  for (int j = 0; j < kCount / 4; ++j) {
    for (int h = 0; h < 2; ++h) {
      for (int p = 0; p < 2; ++p) {
        d[4 * j + 2 * h + p] = static_cast<float>((8 * h + static_cast<int>(lane / 4)) * 1000 + 8 * j +
                                                  2 * static_cast<int>(lane % 4) + p);
      }
    }
  }
  // Every element is finished exactly once, also where slabs overlap.
  auto finish = [&](int first) {
    for (int i = first; i < kCount && i < first + kSlabColumns<kOut> / 2; ++i) d[i] *= 2.0f;
  };
  for (int i = 0; i < kCount; ++i) d[i] *= 0.5f;
  store_warp_tile<kOut, kMode, kBuffers>(d, map, shared_address(shared), x, y, lane, finish);
  for (int i = 0; i < kCount; ++i) d[i] *= 0.5f;
  store_warp_tile_direct<kOut, kMode>(d, direct, static_cast<u32>(x), static_cast<u32>(y), lane, finish);
  if (lane == 0) wait_stores_done();
}
extern "C" __global__ void store_f32_b2_n128(const __grid_constant__ TensorMap map, OutputView direct, i32 x, i32 y) {
  store_pattern<OutputType::kF32, StoreMode::kOverwrite, 2, 64>(map, direct, x, y);
}
extern "C" __global__ void store_f32_b3_n160(const __grid_constant__ TensorMap map, OutputView direct, i32 x, i32 y) {
  store_pattern<OutputType::kF32, StoreMode::kOverwrite, 3, 80>(map, direct, x, y);
}
extern "C" __global__ void store_f32_b2_n176(const __grid_constant__ TensorMap map, OutputView direct, i32 x, i32 y) {
  store_pattern<OutputType::kF32, StoreMode::kOverwrite, 2, 88>(map, direct, x, y);
}
extern "C" __global__ void add_f32_b1_n96(const __grid_constant__ TensorMap map, OutputView direct, i32 x, i32 y) {
  store_pattern<OutputType::kF32, StoreMode::kAdd, 1, 48>(map, direct, x, y);
}
