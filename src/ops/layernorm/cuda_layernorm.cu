// Rows are read once from memory and every result written once. Bound by memory. In four ways, by their length:
// - up to 512 bytes: teams of a warp's threads hold some rows in registers (device/cuda/kernel/row_direct.cuh);
// - up to 2 KiB, and from 64 KiB to 256 KiB: blocks stay and take row after row (row_loop.cuh), which the copy engine
//   brings while the present one is in registers; weight and bias stay there for all of them. A part of a warp takes a
//   row, or a cluster of two to eight blocks;
// - between: a block takes a row and reads it again from the first-level cache, 2 to 5 % faster there on an H100.
// Sums are of distances from the row's first number (row_norm/forward_rows.cuh).
// Rows that do not start on 16 bytes, are no multiple of 16 bytes long, or longer, go by elements and are read four
// times.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "DIRECT"
values = [0, 1, 2, 3]
default = 2
category = "algorithm"
title = "blocks that come and go: never, with rows in registers, by the length of rows, with rows read again from a cache"
[[tunable]]
name = "CHUNKS"
values = [1, 2, 4]
default = 4
category = "tile"
title = "chunks of 16 bytes of a thread, in rows that a block takes"
[[tunable]]
name = "SM_THREADS"
values = [256, 512, 1024]
default = 512
category = "resource"
title = "threads of a multiprocessor"
[[tunable]]
name = "RING_KIB"
values = [96, 128, 160, 192]
default = 192
category = "pipeline"
title = "shared memory of a multiprocessor for rows that are on their way, KiB"
[[constraint]]
expression = "(DIRECT != 1 && DIRECT != 3) || (SM_THREADS == 1024 && RING_KIB == 192)"
reason = "a ring, or threads that hold rows"
[[constraint]]
expression = "SM_THREADS < 1024 || CHUNKS <= 2"
reason = "a thread has registers for rows, weight and bias"
*/
/* ridge-kernel
op = "layernorm"
max_registers = 128
sass = [{ opcode = "UBLKCP", when = "by_chunks && direct == 0 && again == 0" }, { opcode = "STG" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_W = { value = "f32_columns ? 0 : dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WEIGHT = { value = "weight != 0" }
RIDGE_BIAS = { value = "bias" }
RIDGE_MEAN = { value = "1" }
RIDGE_ZERO_CENTRED = { value = "zero_centred" }
RIDGE_RESIDUAL = { value = "residual" }
RIDGE_VECTORS = { value = "by_chunks" }
RIDGE_LANES = { value = "lanes" }
RIDGE_PER_THREAD = { value = "per_thread" }
RIDGE_SIDE = { value = "side" }
RIDGE_THREADS = { value = "most_threads" }
RIDGE_DIRECT = { value = "direct + 2 * again" }
RIDGE_BLOCKS = { value = "max(1, floor_div(again ? again_threads : direct == 0 ? SM_THREADS : residual && f32_columns ? 512 : 1024, most_threads))" }
RIDGE_CLUSTER = { value = "blocks > 1" }
[configs]
default = { }
ring = { DIRECT = 0 }
chunks2 = { DIRECT = 0, CHUNKS = 2 }
chunks2_threads1024 = { DIRECT = 0, CHUNKS = 2, SM_THREADS = 1024 }
direct = { DIRECT = 1, CHUNKS = 2, SM_THREADS = 1024 }
again = { DIRECT = 3, CHUNKS = 2, SM_THREADS = 1024 }
[variants]
bf16_128 = { case = "layernorm rows=8192 cols=128 bias=1" }
bf16_1024 = { case = "layernorm rows=8192 cols=1024 bias=1" }
bf16_4096 = { case = "layernorm rows=8192 cols=4096 bias=1", every = true }
bf16_65536 = { case = "layernorm rows=1024 cols=65536 bias=1" }
bf16_odd = { case = "layernorm rows=64 cols=4097 bias=1" }
bf16_8192_f32_weight = { case = "layernorm rows=8192 cols=8192 weight=f32 bias=1 zero_centred=1" }
bf16_8192_residual = { case = "layernorm rows=8192 cols=8192 residual=1 bias=1" }
bf16_8192_residual_f32_weight = { case = "layernorm rows=8192 cols=8192 residual=1 weight=f32 bias=1" }
bf16_65536_residual_f32_weight = { case = "layernorm rows=1024 cols=65536 residual=1 weight=f32 bias=1" }
bf16_16384_residual = { case = "layernorm rows=4096 cols=16384 residual=1 bias=1" }
bf16_32768_f32_weight = { case = "layernorm rows=2048 cols=32768 weight=f32 bias=1" }
f16_8192 = { case = "layernorm rows=8192 cols=8192 dtype=f16 bias=1" }
f32_8192 = { case = "layernorm rows=8192 cols=8192 dtype=f32 bias=1" }
f32_1024_residual = { case = "layernorm rows=8192 cols=1000 dtype=f32 residual=1 bias=1" }
bf16_8192_plain = { case = "layernorm rows=8192 cols=8192 weight=none" }
*/
/* ridge-launch
[[value]]
name = "chunks"
expression = "floor_div(cols * x_bytes, 16)"
# Longer rows than eight blocks keep go by elements.
[[value]]
name = "by_chunks"
expression = "vectors && chunks <= 4096 * CHUNKS"
[[value]]
name = "direct"
expression = "by_chunks && chunks <= 1024 * CHUNKS && (DIRECT == 1 || (DIRECT == 2 && chunks <= 32))"
[[value]]
name = "again"
expression = "by_chunks && chunks > 128 && chunks <= 4096 && DIRECT >= 2"
[[value]]
name = "per_thread"
expression = "again ? (chunks <= 1024 ? 2 : 4) : by_chunks == 0 || chunks <= (direct ? 8 : 32) ? 1 : chunks <= 64 ? 2 : chunks <= 128 ? 4 : CHUNKS"
[[value]]
name = "wanted_lanes"
expression = "ceil_div(chunks, per_thread)"
[[value]]
name = "lanes"
expression = "by_chunks == 0 || chunks > 128 ? 0 : wanted_lanes > 16 ? 32 : wanted_lanes > 8 ? 16 : wanted_lanes > 4 ? 8 : wanted_lanes > 2 ? 4 : wanted_lanes > 1 ? 2 : 1"
[[value]]
name = "blocks"
expression = "by_chunks == 0 || direct || again || chunks <= 512 * CHUNKS ? 1 : chunks <= 1024 * CHUNKS ? 2 : chunks <= 2048 * CHUNKS ? 4 : 8"
[[value]]
name = "slice"
expression = "ceil_div(chunks, blocks)"
[[value]]
name = "threads"
expression = "by_chunks == 0 || lanes > 0 ? 256 : max(64, round_up(ceil_div(slice, again ? per_thread : CHUNKS), 32))"
[[value]]
name = "most_threads"
expression = "threads > 512 ? 1024 : 512"
# Direct: rows of a team at once, and of a block.
[[value]]
name = "side"
expression = "direct && lanes > 0 ? floor_div(4, per_thread) : 1"
# Read again: threads with 32 registers, or 42 where that is too few.
[[value]]
name = "again_threads"
expression = "(residual && per_thread > 2) || (x_bytes == 4 && per_thread > 2) ? 1024 : per_thread > 4 || (x_bytes == 2 && f32_columns) ? 1536 : 2048"
[[value]]
name = "turn_rows"
expression = "lanes > 0 ? side * floor_div(256, lanes) : 1"
# Blocks of a multiprocessor, and what a ring of one of them, or of one of its warps, may take.
[[value]]
name = "resident"
expression = "max(1, min(8, floor_div(SM_THREADS, threads)))"
[[value]]
name = "ring"
expression = "floor_div(1024 * RING_KIB, resident * (lanes > 0 ? 8 : 1))"
[[value]]
name = "inputs"
expression = "1 + residual"
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
expression = "DIRECT != 3 || again"
reason = "read again: rows of 2 KiB to 64 KiB that start on 16 bytes"
[[needs]]
expression = "DIRECT != 1 || direct"
reason = "direct: rows that start on 16 bytes, and that the threads of a block hold"
[[needs]]
expression = "SM_THREADS < 1024 || direct || again || per_thread <= 2"
reason = "a thread has registers for rows, weight and bias"
[[needs]]
expression = "by_chunks == 0 || direct || again || resident * (3072 + 16 * slice * stage_rows * inputs * stages * (lanes > 0 ? 8 : 1)) <= 233472"
reason = "the rings of all blocks of a multiprocessor must fit its shared memory"
[[kernel]]
symbol = "ridge_layernorm"
grid = ["again ? rows : direct ? ceil_div(rows, turn_rows) : by_chunks == 0 ? min(rows, 8 * sm_count) : lanes > 0 ? min(ceil_div(rows, 8 * stage_rows), resident * sm_count) : blocks * min(rows, floor_div(resident * sm_count, blocks))"]
block = ["threads"]
persistent = 1
cluster = ["blocks"]
shared = "by_chunks && direct == 0 && again == 0 ? 2048 + 16 * slice * stage_rows * inputs * stages * (lanes > 0 ? 8 : 1) : 0"
args = [{ struct = [
  { operand = "bias", when = "bias" }, { operand = "mean", when = "statistics" },
  { operand = "x" }, { operand = "residual", when = "residual" }, { operand = "weight", when = "weight" }, { operand = "y" },
  { operand = "sum", when = "residual" }, { operand = "rstd", when = "statistics" },
  { i64 = "x_stride0 * x_bytes" }, { i64 = "residual_stride0 * x_bytes", when = "residual" }, { i64 = "y_stride0 * x_bytes" },
  { i64 = "sum_stride0 * x_bytes", when = "residual" },
  { i64 = "rows" }, { u32 = "chunks" }, { u32 = "slice" }, { u32 = "stages" }, { u32 = "stage_rows" },
  { i64 = "cols" }, { f32 = "eps" }, { u32 = "12816" },
] }]
*/
// clang-format on

#include "../row_norm/forward_rows.cuh"

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS, RIDGE_BLOCKS)
    ridge_layernorm(const ridge::cuda::RowNormParameters p) {
  ridge::cuda::normalise_rows(p);
}
