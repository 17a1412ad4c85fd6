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
// row stride that is not a multiple of 16 bytes (see cuda_pad_rows.cu). Figures: docs/operators/gemm-hopper.md.
//
// What can be varied, how it is launched and the builds that ship are described in the three blocks below
// (docs/candidates.md); the entry point is `ridge_gemm`. The case is described by the numbers of
// src/ops/matmul/values.h.

// clang-format off
/* ridge-kernel
op = ["gemm", "gemm_fp8"]
# At entry 65536 registers are shared by 384 threads; setmaxnreg then moves them to the consumers.
max_registers = 168
sass = [
  { opcode = "HGMMA", when = "size_a > 1" }, { opcode = "QGMMA", when = "size_a == 1" }, { opcode = "UTMALDG" },
  { opcode = "UTMASTG", when = "direct_store == 0 && adds == 0" }, { opcode = "UTMAREDG", when = "direct_store == 0 && adds" },
  { opcode = "LDSM", when = "prefetches && size_c == 2" },
]
[define]
RIDGE_TYPE_A = { value = "type_a", names = ["kBf16", "kF16", "kF32", "kE4m3", "kE5m2", "kTf32"] }
RIDGE_TYPE_B = { value = "type_b", names = ["kBf16", "kF16", "kF32", "kE4m3", "kE5m2", "kTf32"] }
RIDGE_TYPE_C = { value = "type_c", names = ["kBf16", "kF16", "kF32"] }
RIDGE_MAJOR_A = { value = "a_mn_major", names = ["kK", "kMn"] }
RIDGE_MAJOR_B = { value = "b_mn_major", names = ["kK", "kMn"] }
RIDGE_STORE = { value = "adds", names = ["kOverwrite", "kAdd"] }
RIDGE_DIRECT_STORE = { value = "direct_store" }
RIDGE_SCALING = { value = "scales", names = ["kNone", "kTensor", "kRow", "kBlock", "kVector"] }
RIDGE_BIAS = { value = "bias" }
RIDGE_ACTIVATION = { value = "activation", names = ["kIdentity", "kGelu", "kGeluTanh", "kSilu"] }
RIDGE_RESIDUAL = { value = "reads_matrix" }
RIDGE_ADDED_SLABS = { value = "prefetches ? slab_buffers : 0" }
RIDGE_RESIDUAL_IS_C = { value = "residual_is_c" }
RIDGE_ROUND_SCALES = { value = "rounds_scales" }
# A configuration is the values that differ from the tunables' defaults. `model` is the weight of a step's multiplication
# over the matrix unit's own time in cuda_wgmma_model.h, fitted by bench/gpu/fit_model.py; 1 where nothing was fitted.
[configs]
pp_128x128 = { RIDGE_STAGES = 6, RIDGE_PINGPONG = 1, model = 0.7807 }
pp_128x128_m2 = { RIDGE_STAGES = 6, RIDGE_PINGPONG = 1, RIDGE_CLUSTER_M = 2, model = 1.3344 }
pp_128x128_n2 = { RIDGE_STAGES = 6, RIDGE_PINGPONG = 1, RIDGE_CLUSTER_N = 2, model = 1.3247 }
pp_128x192 = { RIDGE_BLOCK_N = 192, RIDGE_STAGES = 5, RIDGE_PINGPONG = 1, model = 0.9689 }
pp_128x192_m2 = { RIDGE_BLOCK_N = 192, RIDGE_STAGES = 5, RIDGE_PINGPONG = 1, RIDGE_CLUSTER_M = 2, model = 1.3384 }
pp_128x176 = { RIDGE_BLOCK_N = 176, RIDGE_STAGES = 5, RIDGE_PINGPONG = 1, RIDGE_SLAB_BUFFERS = 2, model = 1.0106 }
pp_128x160 = { RIDGE_BLOCK_N = 160, RIDGE_STAGES = 5, RIDGE_PINGPONG = 1, RIDGE_SLAB_BUFFERS = 2, model = 1.0403 }
pp_256x96_m2 = { RIDGE_BLOCK_M = 256, RIDGE_BLOCK_N = 96, RIDGE_PINGPONG = 1, RIDGE_CLUSTER_M = 2, model = 1.2305 }
pp_256x64 = { RIDGE_BLOCK_M = 256, RIDGE_BLOCK_N = 64, RIDGE_STAGES = 5, RIDGE_PINGPONG = 1, model = 0.9558, promoted = "gemm_cuda_nvidia-h200_20261123, 1.16x" }
pp_64x256 = { RIDGE_BLOCK_M = 64, RIDGE_BLOCK_N = 256, RIDGE_STAGES = 5, RIDGE_PINGPONG = 1, model = 0.7488 }
pp_64x128 = { RIDGE_BLOCK_M = 64, RIDGE_STAGES = 8, RIDGE_PINGPONG = 1, RIDGE_SLAB_BUFFERS = 2, model = 1.233 }
pp_64x64 = { RIDGE_BLOCK_M = 64, RIDGE_BLOCK_N = 64, RIDGE_STAGES = 12, RIDGE_PINGPONG = 1, model = 0.8751 }
coop_128x128 = { RIDGE_STAGES = 6, model = 1.0672 }
coop_128x256_m2 = { RIDGE_BLOCK_N = 256, RIDGE_CLUSTER_M = 2, RIDGE_SLAB_BUFFERS = 2, model = 1.25 }
coop_256x192_n2 = { RIDGE_BLOCK_M = 256, RIDGE_BLOCK_N = 192, RIDGE_STAGES = 3, RIDGE_CLUSTER_N = 2, RIDGE_SLAB_BUFFERS = 2, model = 1.2726 }
coop_128x224 = { RIDGE_BLOCK_N = 224, model = 1.1096 }
coop_128x224_m2 = { RIDGE_BLOCK_N = 224, RIDGE_CLUSTER_M = 2, model = 1.2266 }
split2_128x192 = { RIDGE_BLOCK_N = 192, RIDGE_STAGES = 5, RIDGE_SPLIT_K = 2, model = 1.0853 }
split2_128x128 = { RIDGE_STAGES = 6, RIDGE_SPLIT_K = 2, model = 1.0236 }
split2_128x64 = { RIDGE_BLOCK_N = 64, RIDGE_STAGES = 8, RIDGE_SPLIT_K = 2, model = 1.1857 }
promote_128x128 = { RIDGE_STAGES = 6, RIDGE_INSTRUCTION_N = 128, model = 0.8576 }
promote_256x128 = { RIDGE_BLOCK_M = 256, RIDGE_INSTRUCTION_N = 128, model = 1.0239 }
promote_128x256 = { RIDGE_BLOCK_N = 256, RIDGE_INSTRUCTION_N = 128, model = 0.902 }
promote_128x192_halves = { RIDGE_BLOCK_N = 192, RIDGE_STAGES = 5, RIDGE_INSTRUCTION_N = 96, RIDGE_PARTS = 2, model = 0.7918 }
promote_128x160 = { RIDGE_BLOCK_N = 160, RIDGE_STAGES = 5, RIDGE_INSTRUCTION_N = 160, model = 0.9237 }
[variants]
nt_bf16 = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=nt", every = true }
nn_bf16 = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=nn" }
tn_bf16 = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=tn" }
tt_bf16 = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=tt" }
tn_bf16_f32 = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=tn out=f32" }
tn_bf16_f32add = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=tn out=f32 accumulate=1" }
tn_bf16_bf16add = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=tn accumulate=1", every = true }
nt_f16 = { case = "gemm m=4096 n=4096 k=4096 dtype=f16 layout=nt" }
nn_f16 = { case = "gemm m=4096 n=4096 k=4096 dtype=f16 layout=nn" }
nt_bf16_direct = { case = "gemm m=4096 n=4095 k=4096 dtype=bf16 layout=nt", every = true }
nt_bf16_bias = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=nt bias=1 activation=silu", every = true }
nt_bf16_epilogue = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=nt bias=1 activation=gelu residual=1", every = true }
nt_f32_epilogue = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=nt out=f32 bias=1 activation=silu residual=1" }
nt_e4m3_tensor = { case = "gemm_fp8 m=4096 n=4096 k=4096 dtype=e4m3fn layout=nt scaling=tensor sums=fast" }
nt_e4m3_tensor_bias = { case = "gemm_fp8 m=4096 n=4096 k=4096 dtype=e4m3fn layout=nt scaling=tensor sums=fast bias=1" }
nt_e4m3_block_bias = { case = "gemm_fp8 m=4096 n=4096 k=4096 dtype=e4m3fn layout=nt scaling=block bias=1" }
nt_e5m2_e4m3_row = { case = "gemm_fp8 m=4096 n=4096 k=4096 dtype=e5m2_e4m3fn layout=nt scaling=row sums=fast" }
nt_e4m3_row_promoted = { case = "gemm_fp8 m=4096 n=4096 k=4096 dtype=e4m3fn layout=nt scaling=row", every = true }
nt_e4m3_block = { case = "gemm_fp8 m=4096 n=4096 k=4096 dtype=e4m3fn layout=nt scaling=block", every = true }
nt_e4m3_vector_add = { case = "gemm_fp8 m=4096 n=4096 k=4096 dtype=e4m3fn layout=nt scaling=vector out=f32 accumulate=1", every = true }
nt_e4m3_block_bf16add = { case = "gemm_fp8 m=4096 n=4096 k=4096 dtype=e4m3fn layout=nt scaling=block accumulate=1", every = true }
nt_e4m3_block_odd = { case = "gemm_fp8 m=4096 n=4096 k=4096 dtype=e4m3fn layout=nt scaling=block", RIDGE_ROUND_SCALES = 1 }
nt_tf32 = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=nt", RIDGE_TYPE_A = "kTf32", RIDGE_TYPE_B = "kTf32", RIDGE_TYPE_C = "kF32" }
*/
/* ridge-launch
[[value]]
name = "k_blocks"
expression = "ceil_div(k * size_a, 128)"
[[value]]
name = "promotes"
expression = "promote || scales == 3 || scales == 4"
[[value]]
name = "residual_is_c"
expression = "accumulate && type_c != 2"
[[value]]
name = "adds"
expression = "accumulate && type_c == 2"
[[value]]
name = "reads_matrix"
expression = "residual || residual_is_c"
[[value]]
name = "finishes"
expression = "bias || activation"
[[value]]
name = "row_extra"
expression = "residual_is_c ? row_c : row_residual"
[[value]]
name = "rounds_scales"
expression = "(scales == 3 || scales == 4) && (m % 4 != 0 || (scales == 4 && n % 4 != 0))"
[[value]]
name = "direct_store"
expression = "align_c % 16 != 0 || row_c * size_c % 16 != 0 || n * size_c % 16 != 0 || (residual && (align_extra % 16 != 0 || row_residual * size_c % 16 != 0))"
[[value]]
name = "accumulators"
expression = "(RIDGE_PINGPONG ? RIDGE_BLOCK_M : RIDGE_BLOCK_M / 2) / 64 * RIDGE_BLOCK_N / 2"
[[value]]
name = "bytes_but_slabs"
expression = "RIDGE_STAGES * ((RIDGE_BLOCK_M + RIDGE_BLOCK_N) * 128 + 16 + ((scales == 3 || scales == 4 ? RIDGE_BLOCK_M : 0) + (scales == 4 ? RIDGE_BLOCK_N : 0)) * 4) + ((scales == 2 ? 1 : 0) + (bias ? 1 : 0)) * RIDGE_BLOCK_N * 8"
# What is added comes through the output slabs, before the sums leave through them: as many as a tile has, or fit.
[[value]]
name = "prefetches"
expression = "reads_matrix && direct_store == 0 && RIDGE_SPLIT_K == 1"
[[value]]
name = "slabs_of_warp"
expression = "(RIDGE_PINGPONG ? RIDGE_BLOCK_M : RIDGE_BLOCK_M / 2) / 64 * ceil_div(RIDGE_BLOCK_N * size_c, 128)"
[[value]]
name = "slab_buffers"
expression = "prefetches ? max(1, min(slabs_of_warp, floor_div(232448 - bytes_but_slabs, 16448))) : RIDGE_SLAB_BUFFERS"
[[value]]
name = "shared_bytes"
expression = "bytes_but_slabs + slab_buffers * (prefetches ? 16448 : 16384)"
[[value]]
name = "tile_rows"
expression = "ceil_div(m, RIDGE_BLOCK_M * RIDGE_CLUSTER_M)"
[[value]]
name = "tile_cols"
expression = "ceil_div(n, RIDGE_BLOCK_N * RIDGE_CLUSTER_N)"
[[value]]
name = "cluster_blocks"
expression = "RIDGE_CLUSTER_M * RIDGE_CLUSTER_N * RIDGE_SPLIT_K"

[[needs]]
expression = "batch == 1"
reason = "one matrix at a time"
[[needs]]
expression = "type_a != 2"
reason = "the matrix unit has no fp32; allow tf32 or cuda_simt"
[[needs]]
expression = "m > 0 && n > 0 && k > 0"
reason = "an empty product needs no matrix unit"
[[needs]]
expression = "row_a * size_a % 16 == 0 && row_b * size_a % 16 == 0 && align_ab % 16 == 0"
reason = "the copy engine reads rows of A and B that start on 16 bytes; pad them or allow copies of them (cuda_wgmma_padded)"
[[needs]]
expression = "size_a == 2 || (a_mn_major == 0 && b_mn_major == 0)"
reason = "operands that are not of 2 bytes must have K contiguous; transpose first or allow cuda_simt"
[[needs]]
expression = "scales != 5"
reason = "MX scales are applied by cuda_simt only"
[[needs]]
expression = "(scales != 3 && scales != 4) || (align_scale_a % 16 == 0 && (scales == 3 || align_scale_b % 16 == 0))"
reason = "scales along K come in bulk copies, one for each block of K: their rows must start on 16 bytes; pad them or allow copies of them (cuda_wgmma_fp8_padded)"
[[needs]]
expression = "max(m, n, k) <= 2147483135"
reason = "sides are counted in 32 bits"

[[needs]]
expression = "promotes == (RIDGE_INSTRUCTION_N > 0)"
reason = "promoted sums have configurations of their own"
[[needs]]
expression = "shared_bytes <= 232448"
reason = "a block has 227 KiB of shared memory"
[[needs]]
expression = "b_mn_major == 0 || RIDGE_BLOCK_N % 64 == 0"
reason = "tiles of a B with N contiguous are columns of 64"
[[needs]]
expression = "k_blocks >= RIDGE_SPLIT_K"
reason = "a part of K would be empty"
[[needs]]
expression = "scales != 4 || RIDGE_SPLIT_K == 1"
reason = "scales of vectors are not split"
# Stores and epilogues need registers for their addresses: beside too many accumulators per thread they spill.
[[needs]]
expression = "direct_store == 0 || accumulators <= (reads_matrix || finishes ? 64 : 128)"
reason = "a direct store needs registers beside the accumulators"
[[needs]]
expression = "reads_matrix == 0 || prefetches || ((RIDGE_PINGPONG ? RIDGE_BLOCK_M : RIDGE_BLOCK_M / 2) <= 64 && accumulators <= (RIDGE_INSTRUCTION_N > 0 || (finishes && RIDGE_PINGPONG) ? 64 : 128))"
reason = "reading a matrix in the epilogue needs registers beside the accumulators"
[[needs]]
expression = "finishes == 0 || accumulators <= (RIDGE_INSTRUCTION_N > 0 ? 96 : 160)"
reason = "a bias or an activation needs registers beside the accumulators"
[[needs]]
expression = "adds == 0 || RIDGE_BLOCK_N % (128 / size_c) == 0"
reason = "the last slab of a row may overlap the one before it, but not when it is added"

[[tensor_map]]
name = "map_a"
operand = "a"
sizes = ["a_mn_major ? m : k", "a_mn_major ? k : m"]
strides = ["row_a * size_a"]
box = ["a_mn_major ? 64 : 128 / size_a", "a_mn_major ? (RIDGE_BLOCK_M / 64 % RIDGE_CLUSTER_N == 0 ? 128 / size_a : 128 / size_a / RIDGE_CLUSTER_N) : RIDGE_BLOCK_M / RIDGE_CLUSTER_N"]
# What a miss brings into L2 at once. Rows that do not start on lines of 128 bytes straddle two, and pairs of lines would
# bring four: on an H100 5000,5000,5000 gained 5 to 18 % by 128.
l2_promotion = "row_a * size_a % 128 == 0 ? 256 : 128"
[[tensor_map]]
name = "map_b"
operand = "b"
sizes = ["b_mn_major ? n : k", "b_mn_major ? k : n"]
strides = ["row_b * size_a"]
box = ["b_mn_major ? 64 : 128 / size_a", "b_mn_major ? (RIDGE_BLOCK_N / 64 % RIDGE_CLUSTER_M == 0 ? 128 / size_a : 128 / size_a / RIDGE_CLUSTER_M) : RIDGE_BLOCK_N / RIDGE_CLUSTER_M"]
l2_promotion = "row_b * size_a % 128 == 0 ? 256 : 128"
[[tensor_map]]
name = "map_c"
operand = "c"
sizes = ["n", "m"]
strides = ["row_c * size_c"]
box = ["128 / size_c", 16]
l2_promotion = "row_c * size_c % 128 == 0 ? 256 : 128"
when = "direct_store == 0"
[[tensor_map]]
name = "map_residual"
operand = "residual"
sizes = ["n", "m"]
strides = ["row_residual * size_c"]
box = ["128 / size_c", 16]
l2_promotion = "row_residual * size_c % 128 == 0 ? 256 : 128"
when = "prefetches && residual"

[[kernel]]
symbol = "ridge_gemm"
# Blocks that share a tile do not walk on to another: their stages receive each other's pieces at its end.
grid = ["(RIDGE_SPLIT_K > 1 ? tile_rows * tile_cols : min(tile_rows * tile_cols, floor_div(sm_count, cluster_blocks))) * cluster_blocks"]
block = [384]
cluster = ["cluster_blocks"]
shared = "shared_bytes"
args = [
  { tensor_map = "map_a" }, { tensor_map = "map_b" }, { tensor_map = "map_c" },
  { struct = [{ operand = "c" }, { i64 = "row_c" }, { u32 = "m" }, { u32 = "n" }] },
  { struct = [{ u32 = "tile_rows" }, { u32 = "tile_cols" },
              { u32 = "RIDGE_GROUP > 0 ? min(RIDGE_GROUP, RIDGE_GROUP_ALONG ? tile_cols : tile_rows) : walk_group(RIDGE_BLOCK_M * RIDGE_CLUSTER_M, RIDGE_BLOCK_N * RIDGE_CLUSTER_N, tile_rows, tile_cols, floor_div(sm_count, cluster_blocks))" },
              { u32 = "RIDGE_GROUP > 0 ? RIDGE_GROUP_ALONG : walk_along(RIDGE_BLOCK_M * RIDGE_CLUSTER_M, RIDGE_BLOCK_N * RIDGE_CLUSTER_N, tile_rows, tile_cols, floor_div(sm_count, cluster_blocks))" }] },
  { u32 = "k_blocks" },
  { struct = [{ operand = "scale_a", when = "scales > 0" }, { operand = "scale_b", when = "scales > 0" },
              { i64 = "scale_stride_a" }, { i64 = "scale_stride_b" }] },
  { struct = [{ operand = "bias", when = "bias" }, { operand = "c", when = "residual_is_c", else = "residual" },
              { i64 = "reads_matrix ? row_extra : 0" }] },
  { tensor_map = "map_residual" },
]
*/
/* ridge-tunables
[[tunable]]
name = "RIDGE_BLOCK_M"
values = [64, 128, 256]
default = 128
title = "rows of C of one tile"
effect = "an element of B brought into shared memory is used so often"
model = "tile m"
group = "tile"
[[tunable]]
name = "RIDGE_BLOCK_N"
values = [64, 96, 128, 160, 176, 192, 224, 256]
default = 128
title = "columns of C of one tile"
effect = "an element of A brought into shared memory is used so often"
model = "tile n"
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
name = "RIDGE_PINGPONG"
values = [0, 1]
default = 0
kind = "structure"
category = "pipeline"
title = "each warpgroup has a tile of its own"
effect = "one warpgroup stores while the other multiplies"
model = "overlap"
group = "tile"
[[tunable]]
name = "RIDGE_INSTRUCTION_N"
values = [0, 64, 96, 128, 160]
default = 0
category = "resource"
title = "columns of one instruction whose sums are promoted; 0 promotes nothing"
effect = "so many sums are promoted at a time, while the other warpgroup multiplies"
group = "tile"
[[tunable]]
name = "RIDGE_PARTS"
values = [1, 2]
default = 1
category = "resource"
title = "sets of sums in the matrix unit"
effect = "one is promoted while the next is multiplied"
needs = "RIDGE_INSTRUCTION_N > 0"
model = "overlap"
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
name = "RIDGE_GROUP"
values = [0, 1, 2, 4, 8, 16, 32]
default = 0
category = "layout"
title = "tiles side by side in the order in which tiles are walked; 0 computes it"
effect = "tiles in flight form a compact rectangle, which reads less through L2"
model = "walk"
group = "walk"
[[tunable]]
name = "RIDGE_GROUP_ALONG"
values = [0, 1]
default = 0
category = "layout"
title = "groups of rows (0) or of columns (1)"
effect = "which operand stays in L2 from group to group"
needs = "RIDGE_GROUP > 0"
group = "walk"
[[tunable]]
name = "RIDGE_SLAB_BUFFERS"
values = [1, 2]
default = 1
category = "pipeline"
title = "output slabs of a warp that are being stored"
effect = "the next slab is written while the last one leaves"
[[tunable]]
name = "RIDGE_SPLIT_K"
values = [1, 2]
default = 1
category = "algorithm"
title = "blocks that share a tile, each with a part of k"
effect = "fills the multiprocessors when there are few tiles"
needs = "RIDGE_PINGPONG == 0 && RIDGE_CLUSTER_M * RIDGE_CLUSTER_N == 1"
model = "split"
[[constraint]]
expression = "RIDGE_STAGES * ((RIDGE_BLOCK_M + RIDGE_BLOCK_N) * 128 + 16) + RIDGE_SLAB_BUFFERS * 16384 <= 232448"
reason = "a block has 227 KiB of shared memory"
[[constraint]]
expression = "(RIDGE_PINGPONG ? RIDGE_BLOCK_M : RIDGE_BLOCK_M / 2) % 64 == 0"
reason = "a warpgroup multiplies 64 rows at a time"
[[constraint]]
expression = "RIDGE_SPLIT_K == 1 || (RIDGE_PINGPONG == 0 && RIDGE_CLUSTER_M * RIDGE_CLUSTER_N == 1 && RIDGE_BLOCK_N % 64 == 0)"
reason = "a split tile is summed in pieces of 64 columns, by blocks in step"
[[constraint]]
expression = "RIDGE_INSTRUCTION_N == 0 || (RIDGE_PINGPONG == 0 && RIDGE_BLOCK_N % RIDGE_INSTRUCTION_N == 0 && RIDGE_BLOCK_M / 128 * (RIDGE_BLOCK_N / RIDGE_INSTRUCTION_N) % RIDGE_PARTS == 0)"
reason = "a stage of promoted sums is whole instructions, issued RIDGE_PARTS at a time by both warpgroups"
[[constraint]]
expression = "(RIDGE_PINGPONG ? RIDGE_BLOCK_M : RIDGE_BLOCK_M / 2) / 64 * RIDGE_BLOCK_N + RIDGE_PARTS * RIDGE_INSTRUCTION_N <= 384"
reason = "a thread has registers for 192 sums"
*/
// clang-format on

#include "../../device/cuda/kernel/added_slabs.cuh"
#include "../../device/cuda/kernel/cluster_sum.cuh"
#include "../../device/cuda/kernel/finish.cuh"
#include "../../device/cuda/kernel/main_loop.cuh"
#include "../../device/cuda/kernel/shared_stage.cuh"
#include "../../device/cuda/kernel/tile_scheduler.cuh"

#ifndef RIDGE_DIRECT_STORE  // 1: an output that the copy engine cannot address (odd N or row stride)
#define RIDGE_DIRECT_STORE 0
#endif
#ifndef RIDGE_ADDED_SLABS  // slabs of a warp in which the copy engine brings what is added; 0: it is read by the
                           // threads
#define RIDGE_ADDED_SLABS 0
#endif
#ifndef RIDGE_RESIDUAL_IS_C  // 1: what is added is C's old content
#define RIDGE_RESIDUAL_IS_C 0
#endif
#ifndef RIDGE_ROUND_SCALES  // 1: rows of scales along K that are no whole chunks of 16 bytes
#define RIDGE_ROUND_SCALES 0
#endif

namespace ridge::cuda {
namespace {

struct Config : GemmBuild {
  static constexpr u32 kBlockM = RIDGE_BLOCK_M;
  static constexpr u32 kBlockN = RIDGE_BLOCK_N;
  static constexpr u32 kStages = RIDGE_STAGES;
  static constexpr u32 kClusterM = RIDGE_CLUSTER_M;
  static constexpr u32 kClusterN = RIDGE_CLUSTER_N;
  static constexpr u32 kSplitK = RIDGE_SPLIT_K;
  static constexpr u32 kClusterBlocks = kClusterM * kClusterN * kSplitK;
  static constexpr bool kMulticast = kClusterM * kClusterN > 1;
  static constexpr u32 kConsumers = 2;  // warpgroups that multiply
  static constexpr bool kPingpong = RIDGE_PINGPONG != 0;
  static constexpr bool kPrefetches = RIDGE_ADDED_SLABS != 0, kResidualIsC = RIDGE_RESIDUAL_IS_C != 0;
  static constexpr u32 kSlabBuffers = kPrefetches ? RIDGE_ADDED_SLABS : RIDGE_SLAB_BUFFERS;
  static constexpr bool kDirectStore = RIDGE_DIRECT_STORE != 0;
  // 8-bit sums move to fp32 registers every 128 of K; Block and Vector scales need it.
  static constexpr bool kPromote = RIDGE_INSTRUCTION_N != 0;
  static constexpr u32 kInstructionN = RIDGE_INSTRUCTION_N != 0 ? RIDGE_INSTRUCTION_N : kBlockN;
  static constexpr u32 kParts = RIDGE_PARTS;
  static constexpr bool kScalesA = kScaling == Scaling::kBlock || kScaling == Scaling::kVector;
  static constexpr bool kScalesB = kScaling == Scaling::kVector;

  // One stage is one swizzle row of K: 32 elements of four bytes, 64 of two, 128 of one.
  static constexpr u32 kBlockK = kRowBytes / kTypeBytes<kTypeA>;
  static constexpr u32 kStageBytesA = kBlockM * kRowBytes;
  static constexpr u32 kStageBytesB = kBlockN * kRowBytes;
  static constexpr u32 kStageBytes = kStageBytesA + kStageBytesB;
  static constexpr u32 kScaleBytes = (kScalesA ? kBlockM * 4 : 0) + (kScalesB ? kBlockN * 4 : 0);  // per stage

  static constexpr u32 kRowsPerWarpgroup = kPingpong ? kBlockM : kBlockM / kConsumers;
  static constexpr u32 kSubtiles = kRowsPerWarpgroup / 64;
  // Scales of columns are read while the last sums of a stage are promoted; of rows before the first are, which with
  // several groups of instructions is before the stage is let go of.
  static constexpr bool kReadsScalesLast =
      kScaling == Scaling::kVector || (kScaling == Scaling::kBlock && kSubtiles * kBlockN == kInstructionN);
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
  static constexpr int kProducerRegisters = kScalesA ? 56 : 40;
  static constexpr int kConsumerRegisters = kScalesA ? 224 : 232;

  static_assert(kBlockM % 64 == 0 && kRowsPerWarpgroup % 64 == 0, "wgmma computes 64 rows at a time");
  static_assert(kConsumers == 2, "with three, wgmma of this width does not fit the registers at entry");
  static_assert(!kPingpong || kConsumers == 2, "pingpong alternates between two warpgroups");
  static_assert(!kPromote || (kEightBit && !kPingpong),
                "promotion hides under the other warpgroup's K loop: no taking turns at whole tiles");
  static_assert(kPromote || !kScalesA, "scales along K are applied while promoting");
  static_assert(kBlockN % kInstructionN == 0, "a stage is whole instructions");
  static_assert(kSplitK == 1 || (!kPingpong && !kMulticast && kBlockN % 64 == 0),
                "a split tile is summed in pieces of 64 x 64 by blocks in step");
  static_assert(kMajorA == Major::kK || kBlockM % 64 == 0, "MN-major tiles are columns of 64 elements");
  static_assert(kMajorB == Major::kK || kBlockN % 64 == 0, "MN-major tiles are columns of 64 elements");
  static_assert(kBlockM / kClusterN <= 256 && kBlockN / kClusterM <= 256, "a box side is at most 256");
  static_assert((kBlockM / kClusterN) % 8 == 0 && (kBlockN / kClusterM) % 8 == 0, "parts must be whole swizzle atoms");
};

// Shared memory, from a 1024-byte aligned base: stages of A, stages of B, output slabs, scales, vectors of
// the epilogue, barriers of stages and of slabs.
struct SharedLayout {
  static constexpr u32 kA = 0;
  static constexpr u32 kB = kA + Config::kStages * Config::kStageBytesA;
  static constexpr u32 kSlabs = kB + Config::kStages * Config::kStageBytesB;
  static constexpr u32 kScales = kSlabs + Config::kConsumers * 4 * Config::kSlabBuffers * kSlabBytes;
  static constexpr u32 kVectors = kScales + Config::kStages * Config::kScaleBytes;
  static constexpr u32 kBarriers = kVectors + Config::kConsumers * TileFinish<Config>::kBytes;
  static constexpr u32 kSlabBarriers = kBarriers + Ring<Config::kStages>::kBytes;
  static constexpr u32 kSlabBarrierBytes = Config::kPrefetches ? Config::kSlabBuffers * kBarrierBytes : 0;  // of a warp
  static constexpr u32 kBytes = kSlabBarriers + Config::kConsumers * 4 * kSlabBarrierBytes;
  static_assert(kBytes <= 232448, "a block has 227 KiB of shared memory: fewer stages, a smaller tile or fewer slabs");
  // The pieces that arrive when a tile is split lie over the stages, which are empty by then.
  static constexpr u32 kPieces = (Config::kBlockM / 64) * (Config::kBlockN / 64);
  static constexpr u32 kOwnPieces = (kPieces + Config::kSplitK - 1) / Config::kSplitK;
  static_assert(kOwnPieces * (Config::kSplitK - 1) * kPieceBytes <= kSlabs, "the pieces must fit over the stages");
};

inline constexpr u32 kFinishBarrier = 3;  // and 4: named barriers of one warpgroup each

// Bytes of scales for the rows (or columns) of a tile that lie inside the matrix, whole chunks of 16.
__device__ __forceinline__ u32 scale_bytes(u32 count, u32 first, u32 tile) {
  const u32 bytes = count > first ? min(tile, count - first) * 4 : 0;
  return RIDGE_ROUND_SCALES ? (bytes + 15) / 16 * 16 : bytes;
}

// Loads this block's part of one operand's stage. `parts` blocks share the tile and this one brings part `part`.
template <Major kMajor, u32 kTileRows, u32 kParts, bool kSplitColumns>
__device__ __forceinline__ void load_operand(u32 stage_address, const TensorMap& map, u32 barrier, i32 k, i32 mn,
                                             u32 part, u16 mask) {
  load_part<Config, kMajor, kTileRows, kParts, kSplitColumns>(k, mn, part, [&](u32 offset, i32 x, i32 y) {
    if constexpr (kParts == 1) {
      load_box(stage_address + offset, map, barrier, x, y);
    } else {
      load_box_multicast(stage_address + offset, map, barrier, x, y, mask);
    }
  });
}

// Finishes and stores accumulators of a warp.
struct TileStore {
  const TensorMap& map;
  const OutputView& output;
  const EpilogueView& extra;
  const TileFinish<Config>& finish;
  AddedSlabs<Config>& added;
  u32 slabs, lane;
  i32 n, m;  // column and row in C of the warp's first accumulator

  // `values` begin at column `column` of the tile, row `subtile` * 64 of the warp's.
  template <int kCount>
  __device__ __forceinline__ void operator()(float (&values)[kCount], u32 column, u32 subtile) const {
    using C = Config;
    const i32 x = n + static_cast<i32>(column), y = m + static_cast<i32>(subtile * 64);
    auto finish_slab = [&](int first) {
      constexpr int kPerSlab = kSlabColumns<C::kTypeC> / 2;
      constexpr bool kReads = C::kResidual && !C::kPrefetches;
      if constexpr (C::kFinishes) {
        // Half a slab at a time: its residual is read at once, and more than that does not fit the registers.
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          ResidualPairs<C, kPerSlab / 2, !C::kDirectStore> residual;
          const int begin = first + half * kPerSlab / 2;
          if constexpr (kReads) {
            residual.load(output, extra, begin, static_cast<u32>(x), static_cast<u32>(y), lane);
          }
#pragma unroll
          for (int i = 0; i < kPerSlab / 2; i += 2) {
            const int at = begin + i;
            if (at >= kCount) continue;
            finish.apply(values[at], values[at + 1], at, subtile, column + 2 * (lane & 3u) + 8 * (at / 4));
            if constexpr (kReads) {
              values[at] += residual.pairs[i / 2].left();
              values[at + 1] += residual.pairs[i / 2].right();
            }
          }
        }
      }
    };
    if constexpr (C::kPrefetches) {
      added.store(values, static_cast<int>(subtile), n, m, finish_slab);
    } else if constexpr (C::kDirectStore) {
      store_warp_tile_direct<C::kTypeC, C::kStore>(values, output, static_cast<u32>(x), static_cast<u32>(y), lane,
                                                   finish_slab);
    } else {
      store_warp_tile<C::kTypeC, C::kStore, C::kSlabBuffers>(values, map, slabs, x, y, lane, finish_slab);
    }
  }
};

// All blocks of the cluster hold partial sums of one tile. Each piece is sent to its owner, and the owner calls
// `store(piece, column, subtile)` with the sum.
template <class Store>
__device__ __forceinline__ void sum_over_cluster(float (&sums)[Config::kSubtiles][Config::kBlockN / 2], u32 base,
                                                 u32 mine, u32 warpgroup, const Store& store) {
  using C = Config;
  constexpr u32 kPerRow = C::kBlockN / 64;
  const u32 thread = threadIdx.x % kWarpgroupThreads;
  auto index_of = [&](u32 subtile, u32 column) { return (warpgroup * C::kSubtiles + subtile) * kPerRow + column; };
  // Every block has read its stages for the last time; now pieces may be written over them.
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
#pragma unroll
    for (u32 column = 0; column < kPerRow; ++column) {
      const u32 index = index_of(subtile, column), owner = index % C::kSplitK;
      if (owner == mine) continue;
      const u32 slot = base + piece_slot<C::kSplitK>(index / C::kSplitK, mine, owner);
      send_piece(sums[subtile], static_cast<int>(column) * kPieceAccumulators, slot, owner, thread);
    }
  }
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
#pragma unroll
    for (u32 column = 0; column < kPerRow; ++column) {
      const u32 index = index_of(subtile, column);
      if (index % C::kSplitK != mine) continue;
      float piece[kPieceAccumulators] = {};
#pragma unroll
      for (u32 source = 0; source < C::kSplitK; ++source) {
        if (source == mine) {
#pragma unroll
          for (int i = 0; i < kPieceAccumulators; ++i) piece[i] += sums[subtile][column * kPieceAccumulators + i];
        } else {
          add_piece(piece, base + piece_slot<C::kSplitK>(index / C::kSplitK, source, mine), thread);
        }
      }
      store(piece, column * 64, subtile);
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

// map_c is read by builds that store through the copy engine, `output` by the others; `scales` by 8-bit builds, `extra`
// by those with a bias or a residual, map_residual by those that prefetch one.
extern "C" __global__ void __launch_bounds__(ridge::cuda::Config::kThreads, 1)
    ridge_gemm(const __grid_constant__ ridge::cuda::TensorMap map_a,
               const __grid_constant__ ridge::cuda::TensorMap map_b,
               const __grid_constant__ ridge::cuda::TensorMap map_c, const ridge::cuda::OutputView output,
               const ridge::cuda::TileGrid tiles, const ridge::cuda::u32 k_blocks, const ridge::cuda::ScaleView scales,
               const ridge::cuda::EpilogueView extra, const __grid_constant__ ridge::cuda::TensorMap map_residual) {
  using namespace ridge::cuda;
  using C = Config;
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared);
  const Ring<C::kStages> ring{base + SharedLayout::kBarriers};

  const u32 warp = warp_uniform(threadIdx.x / kWarpThreads);
  const u32 lane = threadIdx.x % kWarpThreads;
  const u32 warpgroup = warp / 4;
  const BlockPlace place = place_in_cluster<C>();
  const TileWalk walk = tile_walk<C::kClusterBlocks>(tiles);
  // The part of K that is this block's.
  const u32 part_of_k = C::kSplitK == 1 ? 0 : cluster_rank();
  const u32 k_first = k_blocks * part_of_k / C::kSplitK;
  const u32 k_count = k_blocks * (part_of_k + 1) / C::kSplitK - k_first;

  if (warp == 0 && elect_one()) {
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    if constexpr (!C::kDirectStore) prefetch_tensor_map(map_c);
    if constexpr (C::kPrefetches) {
      if constexpr (!C::kResidualIsC) prefetch_tensor_map(map_residual);
      for (u32 i = 0; i < C::kConsumers * 4; ++i) {
        AddedSlabs<C>::init(base + SharedLayout::kSlabBarriers + i * SharedLayout::kSlabBarrierBytes);
      }
    }
    ring.init(C::kWarpsPerTile * (C::kClusterM + C::kClusterN - 1));
  }
  // Barriers must exist in every block of the cluster before the first multicast or remote arrival can reach them.
  if constexpr (C::kMulticast) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  // By every thread: the producer reads A and B, the consumers read scales, bias and residual and write C, and each of
  // them waits for itself alone.
  wait_for_prior_grid();

  if (warpgroup == C::kConsumers) {
    // ---- Producer: one thread feeds the ring
    // -----------------------------------------------------------------------------
    if constexpr (C::kConsumers > 1) decrease_registers<C::kProducerRegisters>();
    if (warp == C::kConsumers * 4 && elect_one()) {
      RingPosition<C::kStages> position;
      for (TileWalk to_load = walk; to_load.more(); to_load.next()) {
        const TileCoordinate at = to_load.at();
        const i32 m = static_cast<i32>((at.row * C::kClusterM + place.in_m) * C::kBlockM);
        const i32 n = static_cast<i32>((at.col * C::kClusterN + place.in_n) * C::kBlockN);
        for (u32 block = k_first; block < k_first + k_count; ++block) {
          const u32 full = ring.full(position.stage);
          barrier_wait(ring.empty(position.stage), position.parity ^ 1u);
          if constexpr (C::kScalesA) {
            // Scales travel with the stage: fetched by the consumers they would arrive a stage late.
            const u32 stage_scales = base + SharedLayout::kScales + position.stage * C::kScaleBytes;
            const u32 bytes_a = scale_bytes(output.rows, static_cast<u32>(m), C::kBlockM);
            const u32 bytes_b = C::kScalesB ? scale_bytes(output.cols, static_cast<u32>(n), C::kBlockN) : 0;
            barrier_arrive_expect_bytes(full, C::kStageBytes + bytes_a + bytes_b);
            if (bytes_a != 0) load_bytes(stage_scales, scales.fp32_a() + block * scales.stride_a + m, bytes_a, full);
            if (bytes_b != 0) {
              load_bytes(stage_scales + C::kBlockM * 4, scales.fp32_b() + block * scales.stride_b + n, bytes_b, full);
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
    if constexpr (C::kSplitK > 1) {  // the two cluster barriers around the exchange count every thread
      for (u32 i = 0; i < 2; ++i) {
        cluster_arrive();
        cluster_wait();
      }
    }
  } else {
    // ---- Consumers: multiply out of the ring, then store
    // -----------------------------------------------------------------
    if constexpr (C::kConsumers > 1) increase_registers<C::kConsumerRegisters>();
    const u32 row_in_tile = C::kPingpong ? 0 : warpgroup * C::kRowsPerWarpgroup;
    const u32 slabs = base + SharedLayout::kSlabs + warp * C::kSlabBuffers * kSlabBytes;
    // 64 rows of A are 8 KiB in either order: 64 swizzle rows (K-major), or one column of 64 K rows (MN-major).
    const u64 first_a =
        matrix_descriptor<C::kMajorA>(base + SharedLayout::kA + row_in_tile * kRowBytes, C::kBlockK * kRowBytes);
    const u64 first_b = matrix_descriptor<C::kMajorB>(base + SharedLayout::kB, C::kBlockK * kRowBytes);

    // Lane i tells block i of the cluster that this warp no longer needs a stage it feeds.
    const bool tells_peer = C::kMulticast && lane < C::kClusterBlocks &&
                            (lane % C::kClusterM == place.in_m || lane / C::kClusterM == place.in_n);
    auto release = [&](u32 stage) {
      // One lane lets go of what all lanes have read with ordinary loads.
      // Where these loads come last, the machine code without a fence arrives while they are on their way.
      if constexpr (C::kReadsScalesLast) fence_proxy_async_shared();
      if constexpr (C::kScalesA) __syncwarp();
      if constexpr (!C::kMulticast) {
        if (lane == 0) barrier_arrive(ring.empty(stage));
      } else {
        if (tells_peer) barrier_arrive_in_block(ring.empty(stage), lane);
      }
    };

    TileFinish<C> finish{base + SharedLayout::kVectors + warpgroup * TileFinish<C>::kBytes};
    AddedSlabs<C> added{C::kResidualIsC ? map_c : map_residual, map_c, slabs,
                        base + SharedLayout::kSlabBarriers + warp * SharedLayout::kSlabBarrierBytes, lane};
    RingPosition<C::kStages> position;
    if (C::kPingpong && warpgroup == 1) {
      position.advance_by(k_blocks);
      named_barrier_arrive(kTurnBarrier, kTurnThreads);  // the first turn is warpgroup 0's
    }
    for (TileWalk mine = C::kPingpong ? walk.alternating(warpgroup) : walk; mine.more(); mine.next()) {
      float sums[C::kSubtiles][C::kBlockN / 2];
      const TileCoordinate at = mine.at();
      const i32 n = static_cast<i32>((at.col * C::kClusterN + place.in_n) * C::kBlockN);
      const i32 m =
          static_cast<i32>((at.row * C::kClusterM + place.in_m) * C::kBlockM + row_in_tile + (warp % 4) * kSlabRows);
      finish.read(output, scales, extra, static_cast<u32>(m) + lane / 4, static_cast<u32>(n));
      // Slabs of what is added are asked for where nothing waits for the buffers: in front of this warpgroup's turn, or
      // else a few steps before the end of K, so that those which L2 keeps are still there.
      if constexpr (C::kPrefetches && C::kPingpong) added.begin(n, m);
      u32 steps_left = k_count;
      auto release_stage = [&](u32 stage) {
        release(stage);
        if constexpr (C::kPrefetches && !C::kPingpong) {
          if (steps_left == min(k_count, kStepsAhead)) added.begin(n, m);
          --steps_left;
        }
      };
      if constexpr (C::kPromote) {
        // Rows and columns past the end have no scales and are never stored: what lies in shared memory there does not
        // matter.
        PromotionScales where{};
        const u32 stage_scales = base + SharedLayout::kScales;
        where.rows = stage_scales + (row_in_tile + (warp % 4) * kSlabRows + lane / 4) * 4;
        where.columns = stage_scales + (C::kBlockM + 2 * (lane % 4)) * 4;
        if constexpr (C::kScaling == Scaling::kBlock) {
          const u32 last = (output.cols - 1) / 128, first = min(static_cast<u32>(n) / 128, last);
          where.b0 = scales.fp32_b() + first * scales.stride_b + k_first;
          where.b1 = scales.fp32_b() + min(first + 1, last) * scales.stride_b + k_first;
          where.edge = 128 - static_cast<u32>(n) % 128;
        }
        multiply_promoted<C>(sums, ring, position, first_a, first_b, k_count, where, release_stage);
      } else {
        // The warpgroups take turns at the K loop. Not only for speed: a barrier tells its phases apart by one bit, so
        // a warpgroup that ran ahead to its next tile would take an old phase of the ring for the new one.
        if constexpr (C::kPingpong) named_barrier(kTurnBarrier + warpgroup, kTurnThreads);
        const u32 in_use = multiply<C>(sums, ring, position, first_a, first_b, k_count, release_stage);
        if constexpr (C::kPingpong) {
          named_barrier_arrive(kTurnBarrier + 1 - warpgroup, kTurnThreads);
          position.advance_by(k_blocks);
        }
        wgmma_wait<0>();
        release_stage(in_use);
      }

      finish.share(kFinishBarrier + warpgroup);
      const TileStore store{map_c, output, extra, finish, added, slabs, lane, n, m};
      if constexpr (C::kSplitK == 1) {
#pragma unroll
        for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) store(sums[subtile], 0, subtile);
      } else {
        sum_over_cluster(sums, base, part_of_k, warpgroup, store);
      }
    }
    if (lane == 0) wait_stores_done();
    __syncwarp();
  }
  // No block may leave while a peer can still multicast into its shared memory or arrive on its barriers.
  if constexpr (C::kMulticast) {
    cluster_arrive();
    cluster_wait();
  }
}
