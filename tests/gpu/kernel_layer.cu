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

// One warpgroup: D[64 x 64] = A[64 x 64] B, with A once from shared memory and once from registers that ldmatrix
// filled, and then P[64 x 64] = round(D) taken as the next A, straight from the accumulators, times B again. B is
// MN-major, as the values of attention are: rows are its K.
extern "C" __global__ void multiply_from_registers(const __grid_constant__ TensorMap map_a,
                                                   const __grid_constant__ TensorMap map_b, float* from_shared,
                                                   float* from_registers, float* chained) {
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared), tile_a = base, tile_b = base + 8192, barrier = base + 16384;
  if (threadIdx.x == 0) {
    barrier_init(barrier, 1);
    barrier_init_fence();
    fence_proxy_async_shared();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_arrive_expect_bytes(barrier, 16384);
    load_box(tile_a, map_a, barrier, 0, 0);
    load_box(tile_b, map_b, barrier, 0, 0);
  }
  barrier_wait(barrier, 0);
  using Mma = Wgmma<64, MatrixType::kBf16, MatrixType::kBf16, Major::kK, Major::kMn>;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const u64 a = matrix_descriptor<Major::kK>(tile_a, 0), b = matrix_descriptor<Major::kMn>(tile_b, 8192);
  float d[3][32];
  u32 operand[2][4][4];
  for (u32 step = 0; step < 4; ++step) {
    load_matrix_x4(tile_a + warp * 16 * kRowBytes + swizzled_chunk(lane & 15u, 2 * step + (lane >> 4)),
                   operand[0][step][0], operand[0][step][1], operand[0][step][2], operand[0][step][3]);
  }
  wgmma_fence();
  for (u32 step = 0; step < 4; ++step) {
    const u64 b_step = b + step * kDescriptorStep<Major::kMn>;
    Mma::mma(d[0], a + step * kDescriptorStep<Major::kK>, b_step, step != 0);
    Mma::mma_register_a(d[1], operand[0][step], b_step, step != 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  keep_in_registers(d[0]);
  keep_in_registers(d[1]);
  for (u32 step = 0; step < 4; ++step) {
    for (u32 i = 0; i < 4; ++i) operand[1][step][i] = pack_bf16(d[1][8 * step + 2 * i], d[1][8 * step + 2 * i + 1]);
  }
  wgmma_fence();
  for (u32 step = 0; step < 4; ++step) {
    Mma::mma_register_a(d[2], operand[1][step], b + step * kDescriptorStep<Major::kMn>, step != 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  keep_in_registers(d[2]);
  for (u32 i = 0; i < 32; ++i) {
    const u32 row = 16 * warp + 8 * (i / 2 % 2) + lane / 4, column = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    from_shared[row * 64 + column] = d[0][i];
    from_registers[row * 64 + column] = d[1][i];
    chained[row * 64 + column] = d[2][i];
  }
}

// A box of 16 rows of one head of a [batch, rows, heads, 64] tensor, loaded from one and stored to another.
extern "C" __global__ void copy_box_4d(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to,
                                       i32 row, i32 head, i32 batch) {
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared), barrier = base + 2048;
  if (threadIdx.x != 0) return;
  barrier_init(barrier, 1);
  barrier_init_fence();
  fence_proxy_async_shared();
  barrier_arrive_expect_bytes(barrier, 2048);
  load_box(base, from, barrier, BoxCorner{0, row, head, batch});
  barrier_wait(barrier, 0);
  store_box(to, base, BoxCorner{0, row, head, batch});
  commit_stores();
  wait_stores_done();
}

extern "C" __global__ void powers_and_logarithms(const float* x, float* power, float* logarithm, u32 count) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  power[i] = exp2_approx(x[i]);
  logarithm[i] = log2_approx(power[i]);
}
