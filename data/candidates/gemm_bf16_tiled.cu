// C[m,n] = op(A) * op(B) (+ C) in bf16 with fp32 sums: the textbook tiled kernel, the plainest start for a GPU
// campaign.
//
// A block computes TILE_M x TILE_N elements of C. It walks along k in slices of TILE_K: the slice of A and of B goes
// through shared memory, so that each loaded element is used TILE_N or TILE_M times, and every thread keeps ROWS x COLS
// sums in registers. Plain fused multiply-adds: the tensor cores, some twenty times faster, are not used.
//
// Any m, n, k, any layout and any row stride: an element is addressed by a row and a column step.

// clang-format off
/* ridge-launch
[[needs]]
expression = "dtype == 1 && out == 0 && batch == 1 && bias == 0 && activation == 0 && residual == 0"
reason = "this kernel is built for the plain product of bf16"

[[kernel]]
symbol = "gemm_tiled"
grid = ["ceil_div(n, TILE_N)", "ceil_div(m, TILE_M)"]
block = ["(TILE_M / ROWS) * (TILE_N / COLS)"]
args = [
  { operand = "a" }, { i64 = "layout >= 2 ? 1 : a_stride0" }, { i64 = "layout >= 2 ? a_stride0 : 1" },
  { operand = "b" }, { i64 = "layout % 2 == 1 ? 1 : b_stride0" }, { i64 = "layout % 2 == 1 ? b_stride0 : 1" },
  { operand = "c" }, { i64 = "c_stride0" },
  { struct = [{ i32 = "m" }, { i32 = "n" }, { i32 = "k" }] },
  { i32 = "accumulate" },
]
*/
/* ridge-tunables
[[tunable]]
name = "TILE_M"
values = [16, 32, 64, 128]
default = 64
title = "rows of C of one block"
effect = "an element of B brought into shared memory is used TILE_M times"
group = "block tile"
[[tunable]]
name = "TILE_N"
values = [16, 32, 64, 128]
default = 64
title = "columns of C of one block"
effect = "an element of A brought into shared memory is used TILE_N times"
group = "block tile"
[[tunable]]
name = "TILE_K"
values = [8, 16, 32]
default = 16
title = "depth of one slice"
effect = "fewer barriers per multiply-add, more shared memory"
[[tunable]]
name = "ROWS"
values = [1, 2, 4, 8]
default = 4
title = "rows of C of one thread"
effect = "an element of B read from shared memory is used ROWS times"
group = "thread tile"
[[tunable]]
name = "COLS"
values = [1, 2, 4, 8]
default = 4
title = "columns of C of one thread"
effect = "an element of A read from shared memory is used COLS times"
group = "thread tile"
[[constraint]]
expression = "(TILE_M / ROWS) * (TILE_N / COLS) >= 32 && (TILE_M / ROWS) * (TILE_N / COLS) <= 1024"
reason = "a block has one warp to 1024 threads"
[[constraint]]
expression = "(TILE_M + TILE_N + 8) * TILE_K * 4 <= 49152"
reason = "the slices are static shared memory"
*/
// clang-format on

#ifndef TILE_M
#define TILE_M 64
#endif
#ifndef TILE_N
#define TILE_N 64
#endif
#ifndef TILE_K
#define TILE_K 16
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef COLS
#define COLS 4
#endif

namespace {

using Bf16 = unsigned short;
using Index = long long;

constexpr int kThreadsDown = TILE_M / ROWS;
constexpr int kThreadsAcross = TILE_N / COLS;
constexpr int kThreads = kThreadsDown * kThreadsAcross;

struct Size {
  int m, n, k;
};

__device__ float to_float(Bf16 bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

__device__ Bf16 to_bf16(float value) {
  Bf16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// kHigh x TILE_K elements from (first, k0), stored with k outermost; zero outside. Neighbouring threads read along the
// side that is contiguous in memory.
template <int kHigh>
__device__ void load_slice(float (&slice)[TILE_K][kHigh + 4], const Bf16* data, Index along, Index deep, int first,
                           int limit, int k0, int k) {
  const bool run_deep = deep == 1;
  for (int i = threadIdx.x; i < kHigh * TILE_K; i += kThreads) {
    const int high = run_deep ? i / TILE_K : i % kHigh, depth = run_deep ? i % TILE_K : i / kHigh;
    const bool inside = first + high < limit && k0 + depth < k;
    slice[depth][high] = inside ? to_float(data[(first + high) * along + (k0 + depth) * deep]) : 0.0f;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    gemm_tiled(const Bf16* a, Index a_row, Index a_col, const Bf16* b, Index b_row, Index b_col, Bf16* c, Index c_row,
               Size size, int accumulate) {
  __shared__ float slice_a[TILE_K][TILE_M + 4];  // four more, so that columns start in different banks
  __shared__ float slice_b[TILE_K][TILE_N + 4];
  const int m0 = blockIdx.y * TILE_M, n0 = blockIdx.x * TILE_N;
  const int down = threadIdx.x / kThreadsAcross, across = threadIdx.x % kThreadsAcross;
  float sums[ROWS][COLS] = {};
  for (int k0 = 0; k0 < size.k; k0 += TILE_K) {
    load_slice<TILE_M>(slice_a, a, a_row, a_col, m0, size.m, k0, size.k);
    load_slice<TILE_N>(slice_b, b, b_col, b_row, n0, size.n, k0, size.k);
    __syncthreads();
    for (int depth = 0; depth < TILE_K; ++depth) {
      for (int i = 0; i < ROWS; ++i) {
        for (int j = 0; j < COLS; ++j) {
          sums[i][j] += slice_a[depth][down + i * kThreadsDown] * slice_b[depth][across + j * kThreadsAcross];
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < ROWS; ++i) {
    for (int j = 0; j < COLS; ++j) {
      const int row = m0 + down + i * kThreadsDown, col = n0 + across + j * kThreadsAcross;
      if (row >= size.m || col >= size.n) continue;
      Bf16* const at = c + row * c_row + col;
      *at = to_bf16(accumulate ? to_float(*at) + sums[i][j] : sums[i][j]);
    }
  }
}
