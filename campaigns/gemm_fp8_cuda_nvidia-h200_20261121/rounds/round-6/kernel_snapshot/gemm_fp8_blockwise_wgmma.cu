// C[m,n] = A[m,k] * B[n,k]^T of 8-bit floats (E4M3) with scales, A's per 1 x 128 and B's per 128 x 128, C in bf16:
// Ridgeline's own kernel (ops/gemm/cuda_wgmma.cu, which comes with the candidate) with everything that can be varied
// about it declared. Sums of 128 products move from the matrix unit to fp32 registers, so the tile shares the register
// file with a second set of sums: how the two are cut is what decides.
//
// Takes what the copy engine can address: rows that start on 16 bytes, both operands with k contiguous (layout nt).

// clang-format off
/* ridge-campaign
op = "gemm_fp8"
cases = [
  "m=1024 n=4096 k=4096 scaling=block",
  "m=1024 n=6144 k=4096 scaling=block",
  "m=1024 n=2112 k=7168 scaling=block",
  "m=2048 n=4096 k=4096 scaling=block",
]
*/
/* ridge-launch
[[needs]]
expression = "dtype == 0 && out == 0 && layout == 1 && accumulate == 0 && scaling == 2 && sums >= 1"
reason = "this kernel is built for e4m3fn in layout nt with block scales and promoted sums, and bf16 out"
[[needs]]
expression = "m > 0 && n > 0 && k > 0"
reason = "an empty product needs no matrix unit"
[[needs]]
expression = "n % 8 == 0 && a_stride0 % 16 == 0 && b_stride0 % 16 == 0 && c_stride0 % 8 == 0 && m % 4 == 0 && scale_a_stride0 % 4 == 0"
reason = "the copy engine moves 16 bytes at a time"

[[tensor_map]]
name = "map_a"
operand = "a"
sizes = ["k", "m"]
strides = ["a_stride0"]
box = [128, "RIDGE_BLOCK_M / RIDGE_CLUSTER_N"]
[[tensor_map]]
name = "map_b"
operand = "b"
sizes = ["k", "n"]
strides = ["b_stride0"]
box = [128, "RIDGE_BLOCK_N / RIDGE_CLUSTER_M"]
[[tensor_map]]
name = "map_c"
operand = "c"
sizes = ["n", "m"]
strides = ["c_stride0 * 2"]
box = [64, 16]

[[kernel]]
symbol = "ridge_gemm"
grid = ["min(ceil_div(m, RIDGE_BLOCK_M * RIDGE_CLUSTER_M) * ceil_div(n, RIDGE_BLOCK_N * RIDGE_CLUSTER_N), floor_div(sm_count, RIDGE_CLUSTER_M * RIDGE_CLUSTER_N)) * RIDGE_CLUSTER_M * RIDGE_CLUSTER_N"]
block = [384]
cluster = ["RIDGE_CLUSTER_M * RIDGE_CLUSTER_N"]
shared = "RIDGE_STAGES * ((RIDGE_BLOCK_M + RIDGE_BLOCK_N) * 128 + RIDGE_BLOCK_M * 4 + 16) + RIDGE_SLAB_BUFFERS * 16384"
args = [
  { tensor_map = "map_a" }, { tensor_map = "map_b" }, { tensor_map = "map_c" },
  { struct = [{ operand = "c" }, { i64 = "c_stride0" }, { u32 = "m" }, { u32 = "n" }] },
  { struct = [{ u32 = "ceil_div(m, RIDGE_BLOCK_M * RIDGE_CLUSTER_M)" }, { u32 = "ceil_div(n, RIDGE_BLOCK_N * RIDGE_CLUSTER_N)" },
              { u32 = "max(1, min(GROUP, GROUP_ALONG == 0 ? ceil_div(m, RIDGE_BLOCK_M * RIDGE_CLUSTER_M) : ceil_div(n, RIDGE_BLOCK_N * RIDGE_CLUSTER_N)))" },
              { u32 = "GROUP_ALONG" }] },
  { u32 = "ceil_div(k, 128)" },
  { struct = [{ operand = "scale_a" }, { operand = "scale_b" }, { i64 = "scale_a_stride0" }, { i64 = "scale_b_stride0" }] },
  { struct = [{ i64 = 0 }, { i64 = 0 }, { i64 = 0 }] },
]
*/
/* ridge-tunables
[[tunable]]
name = "RIDGE_BLOCK_M"
values = [128, 256]
default = 128
title = "rows of C of one tile"
effect = "an element of B brought into shared memory is used so often"
model = "tile m"
group = "tile"
[[tunable]]
name = "RIDGE_BLOCK_N"
values = [64, 96, 128, 160, 192, 256]
default = 128
title = "columns of C of one tile"
effect = "an element of A brought into shared memory is used so often"
model = "tile n"
group = "tile"
[[tunable]]
name = "RIDGE_INSTRUCTION_N"
values = [64, 96, 128, 160]
default = 128
category = "resource"
title = "columns of one instruction"
effect = "so many sums are promoted at a time, while the other warpgroup multiplies"
group = "tile"
[[tunable]]
name = "RIDGE_PARTS"
values = [1, 2]
default = 1
category = "resource"
title = "sets of sums in the matrix unit"
effect = "one is promoted while the next is multiplied"
model = "overlap"
group = "tile"
[[tunable]]
name = "RIDGE_STAGES"
values = [3, 4, 5, 6, 8, 12]
default = 4
title = "slices of k on their way through shared memory"
effect = "loads are asked for so many steps ahead of the matrix unit"
category = "pipeline"
model = "stages k"
group = "tile"
[[tunable]]
name = "RIDGE_CLUSTER_M"
values = [1, 2]
default = 1
category = "layout"
title = "blocks of a cluster that share their columns of B"
effect = "B is read from L2 once for two blocks"
model = "cluster m"
group = "cluster"
[[tunable]]
name = "RIDGE_CLUSTER_N"
values = [1, 2]
default = 1
category = "layout"
title = "blocks of a cluster that share their rows of A"
effect = "A is read from L2 once for two blocks"
model = "cluster n"
group = "cluster"
[[tunable]]
name = "GROUP"
values = [1, 2, 4, 8, 16, 32]
default = 1
category = "layout"
title = "tiles side by side in the order in which tiles are walked"
effect = "tiles in flight form a compact rectangle, which reads less through L2"
model = "walk"
group = "walk"
[[tunable]]
name = "GROUP_ALONG"
values = [0, 1]
default = 0
category = "layout"
title = "groups of rows (0) or of columns (1)"
effect = "which operand stays in L2 from group to group"
group = "walk"
[[tunable]]
name = "RIDGE_SLAB_BUFFERS"
values = [1, 2]
default = 1
category = "pipeline"
title = "output slabs of a warp that are being stored"
effect = "the next slab is written while the last one leaves"
[[constraint]]
expression = "RIDGE_STAGES * ((RIDGE_BLOCK_M + RIDGE_BLOCK_N) * 128 + RIDGE_BLOCK_M * 4 + 16) + RIDGE_SLAB_BUFFERS * 16384 <= 232448"
reason = "a block has 227 KiB of shared memory"
[[constraint]]
expression = "RIDGE_BLOCK_N % RIDGE_INSTRUCTION_N == 0"
reason = "a stage is whole instructions"
[[constraint]]
expression = "(RIDGE_BLOCK_M / 128 * (RIDGE_BLOCK_N / RIDGE_INSTRUCTION_N)) % RIDGE_PARTS == 0"
reason = "instructions are issued RIDGE_PARTS at a time"
[[constraint]]
expression = "RIDGE_BLOCK_M / 128 * RIDGE_BLOCK_N + RIDGE_PARTS * RIDGE_INSTRUCTION_N <= 384"
reason = "a thread has registers for 192 sums of both kinds"
*/
// clang-format on

// What the source assumes without a define; the table above says what each is.
#ifndef RIDGE_BLOCK_M
#define RIDGE_BLOCK_M 128
#endif
#ifndef RIDGE_BLOCK_N
#define RIDGE_BLOCK_N 128
#endif
#ifndef RIDGE_STAGES
#define RIDGE_STAGES 4
#endif
#ifndef RIDGE_CLUSTER_M
#define RIDGE_CLUSTER_M 1
#endif
#ifndef RIDGE_CLUSTER_N
#define RIDGE_CLUSTER_N 1
#endif
#ifndef RIDGE_SLAB_BUFFERS
#define RIDGE_SLAB_BUFFERS 1
#endif
#ifndef RIDGE_INSTRUCTION_N
#define RIDGE_INSTRUCTION_N 128
#endif
#define RIDGE_PROMOTE 1
#define RIDGE_TYPE_A kE4m3
#define RIDGE_TYPE_B kE4m3
#define RIDGE_SCALING kBlock

#include "ops/gemm/cuda_wgmma.cu"
