// Blocks stay and take row after row of dy and x (device/cuda/kernel/row_loop.cuh): the copy engine brings the next
// rows while the present ones are in registers, from their sum of products to dx. The terms of dweight add up in
// registers, for all rows of a block; each block writes one row of partial sums, and a second kernel adds those in
// their order. Bound by memory: every operand once, and the partial sums, which stay in the second-level cache. Rows
// that do not start on 16 bytes, are no multiple of 16 bytes long, or are longer than 256 KiB go by elements: they are
// read twice and add up in the partial sums themselves.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "CHUNKS"
values = [0, 1, 2, 4]
default = 0
category = "tile"
title = "chunks of 16 bytes of a thread, in rows that a block takes; 0: 2, of rows longer than 32 KiB 4"
[[tunable]]
name = "SM_THREADS"
values = [256, 512]
default = 512
category = "resource"
title = "threads of a multiprocessor"
[[tunable]]
name = "RING_KIB"
values = [0, 96, 128, 160, 192]
default = 0
category = "pipeline"
title = "shared memory of a multiprocessor for rows that are on their way, KiB; 0: 128, of rows longer than 32 KiB 192"
*/
/* ridge-kernel
op = "rmsnorm_backward"
max_registers = 128
sass = [{ opcode = "STG" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_W = { value = "weight == 2 ? 0 : dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WEIGHT = { value = "weight != 0" }
RIDGE_ZERO_CENTRED = { value = "zero_centred" }
RIDGE_RESIDUAL = { value = "residual" }
RIDGE_DX = { value = "wanted != 1" }
RIDGE_DWEIGHT = { value = "wanted != 0" }
RIDGE_DBIAS = { value = "0" }
RIDGE_MEAN = { value = "0" }
RIDGE_VECTORS = { value = "by_chunks" }
RIDGE_LANES = { value = "lanes" }
RIDGE_PER_THREAD = { value = "per_thread" }
RIDGE_CLUSTER = { value = "blocks > 1" }
[configs]
default = { }
chunks4 = { CHUNKS = 4, RING_KIB = 192 }
chunks4_threads256 = { CHUNKS = 4, SM_THREADS = 256, RING_KIB = 192 }
chunks1 = { CHUNKS = 1, promoted = "rmsnorm_backward_cuda_nvidia-h100-80gb-hbm3_20261126, 1.03x" }
[variants]
bf16_128 = { case = "rmsnorm_backward rows=8192 cols=128" }
bf16_1024 = { case = "rmsnorm_backward rows=8192 cols=1024" }
bf16_4096 = { case = "rmsnorm_backward rows=8192 cols=4096", every = true }
bf16_65536 = { case = "rmsnorm_backward rows=1024 cols=65536" }
bf16_odd = { case = "rmsnorm_backward rows=64 cols=4097" }
bf16_8192_f32_weight = { case = "rmsnorm_backward rows=8192 cols=8192 weight=f32 zero_centred=1" }
bf16_8192_residual = { case = "rmsnorm_backward rows=8192 cols=8192 residual=1" }
bf16_8192_residual_f32_weight = { case = "rmsnorm_backward rows=8192 cols=8192 residual=1 weight=f32" }
f16_8192 = { case = "rmsnorm_backward rows=8192 cols=8192 dtype=f16" }
f32_8192 = { case = "rmsnorm_backward rows=8192 cols=8192 dtype=f32" }
f32_1024_residual = { case = "rmsnorm_backward rows=8192 cols=1000 dtype=f32 residual=1" }
bf16_8192_dx = { case = "rmsnorm_backward rows=8192 cols=8192 wanted=dx" }
bf16_8192_dweight = { case = "rmsnorm_backward rows=8192 cols=8192 wanted=dweight" }
*/
/* ridge-launch
[[value]]
name = "chunks"
expression = "floor_div(cols * x_bytes, 16)"
[[value]]
name = "most_chunks"
expression = "CHUNKS > 0 ? CHUNKS : chunks <= 2048 ? 2 : 4"
[[value]]
name = "ring_kib"
expression = "RING_KIB > 0 ? RING_KIB : chunks <= 2048 ? 128 : 192"
# Longer rows than eight blocks keep go by elements.
[[value]]
name = "by_chunks"
expression = "vectors && chunks <= 4096 * most_chunks"
[[value]]
name = "lanes"
expression = "by_chunks == 0 || chunks > 64 ? 0 : chunks > 16 ? 32 : chunks > 8 ? 16 : chunks > 4 ? 8 : chunks > 2 ? 4 : chunks > 1 ? 2 : 1"
[[value]]
name = "blocks"
expression = "by_chunks == 0 || chunks <= 512 * most_chunks ? 1 : chunks <= 1024 * most_chunks ? 2 : chunks <= 2048 * most_chunks ? 4 : 8"
[[value]]
name = "slice"
expression = "ceil_div(chunks, blocks)"
[[value]]
name = "per_thread"
expression = "by_chunks == 0 || chunks <= 32 ? 1 : lanes == 0 ? most_chunks : 2"
[[value]]
name = "threads"
expression = "by_chunks == 0 || lanes > 0 ? 256 : max(64, round_up(ceil_div(slice, most_chunks), 32))"
# Blocks of a multiprocessor, and what a ring of one of them, or of one of its warps, may take.
[[value]]
name = "resident"
expression = "max(1, min(8, floor_div(SM_THREADS, threads)))"
[[value]]
name = "ring"
expression = "floor_div(1024 * ring_kib, resident * (lanes > 0 ? 8 : 1))"
[[value]]
name = "inputs"
expression = "2 + residual"
[[value]]
name = "pass_rows"
expression = "lanes > 0 ? floor_div(32, lanes) : 1"
# Short rows share a stage: four stages in a ring, and no more rows than keep every warp busy.
[[value]]
name = "stage_rows"
expression = "lanes == 0 ? 1 : pass_rows * max(1, min(floor_div(ring, 64 * inputs * chunks * pass_rows), ceil_div(rows, 2048 * pass_rows)))"
[[value]]
name = "stages"
expression = "max(2, min(8, floor_div(ring, 16 * max(1, slice) * stage_rows * inputs)))"
[[needs]]
expression = "by_chunks == 0 || resident * (3072 + 16 * slice * stage_rows * inputs * stages * (lanes > 0 ? 8 : 1)) <= 233472"
reason = "the rings of all blocks of a multiprocessor must fit its shared memory"
[[workspace]]
name = "partial"
bytes = "wanted == 0 ? 0 : 4 * cols * (by_chunks == 0 ? min(rows, 2 * sm_count) : lanes > 0 ? min(ceil_div(rows, 8 * stage_rows), resident * sm_count) : min(rows, floor_div(resident * sm_count, blocks)))"
[[struct]]
name = "parameters"
members = [
  { operand = "dy" }, { operand = "x" }, { operand = "rstd" }, { operand = "weight", when = "weight" }, { operand = "dsum", when = "residual" },
  { operand = "dx", when = "wanted != 1" }, { operand = "dweight", when = "wanted != 0" }, { workspace = "partial" },
  { i64 = "dy_stride0 * x_bytes" }, { i64 = "x_stride0 * x_bytes" }, { i64 = "dsum_stride0 * x_bytes", when = "residual" },
  { i64 = "dx_stride0 * x_bytes", when = "wanted != 1" },
  { i64 = "rows" }, { u32 = "chunks" }, { u32 = "slice" }, { u32 = "stages" }, { u32 = "stage_rows" },
  { i64 = "cols" },
  { u32 = "by_chunks == 0 ? min(rows, 2 * sm_count) : lanes > 0 ? min(ceil_div(rows, 8 * stage_rows), resident * sm_count) : min(rows, floor_div(resident * sm_count, blocks))" },
  { u32 = "12816" },
]
[[kernel]]
symbol = "ridge_rmsnorm_backward"
grid = ["by_chunks == 0 ? min(rows, 2 * sm_count) : lanes > 0 ? min(ceil_div(rows, 8 * stage_rows), resident * sm_count) : blocks * min(rows, floor_div(resident * sm_count, blocks))"]
block = ["threads"]
cluster = ["blocks"]
shared = "by_chunks ? 2048 + max(16 * slice * stage_rows * inputs * stages * (lanes > 0 ? 8 : 1), lanes > 0 ? 4 * cols : 0) : 0"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_rmsnorm_dweight"
grid = ["ceil_div(cols, 32)"]
block = [256]
when = "wanted != 0"
overlap_previous = true
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../../row_norm/backward_rows.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
    ridge_rmsnorm_backward(const ridge::cuda::RowNormBackwardParameters p) {
  ridge::cuda::differentiate_rows(p);
}

extern "C" __global__ void __launch_bounds__(256)
    ridge_rmsnorm_dweight(const ridge::cuda::RowNormBackwardParameters p) {
  ridge::cuda::add_parts(p);
}
