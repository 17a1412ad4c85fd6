// Products of groups on Hopper's tensor cores, from offsets that the device alone knows. One persistent block per
// multiprocessor reads them, counts the tiles of every group, and walks its share of all tiles; what follows is the
// pipeline of matmul/cuda_wgmma.cu: a producer thread fills a ring of shared-memory stages through the copy engine, and
// two warpgroups multiply out of it.
//
// Along rows a tile is rows of one group times columns of its matrix. Its last rows may be another group's: they are
// loaded and multiplied as well, and not stored. Along sums a tile is a part of one C[g], and its last step of K may
// end within a stage: a warp beside the producer clears the rows behind it, another group's, before the stage is handed
// to the consumers. Groups with more rows are walked first there, so that the last tiles are short ones.
//
// With `gather` the rows of one operand are found by an index: the four warps beside the consumers copy them, and what
// is the copy engine's part is the other operand (device/cuda/kernel/gathered_rows.cuh). Or, with RIDGE_COPIES, a
// launch before copies all rows to a workspace, from which the product is as any other: faster where many tiles read
// each row, and along sums, where every stage has rows of its own.
//
// Sums are added to an fp32 C in L2 (UTMAREDG). To a 16-bit C, whose sums are rounded once, they are added on their way
// out: its old content comes through the buffers that the sums leave through (added_slabs.cuh).
//
// With `epilogue` SwiGLU is made of the sums where they are stored, of which a tile has as many columns of gate as of
// up; or its gradients, for which gate and up come through those buffers (swiglu_slabs.cuh).
//
// Wins from a few hundred rows a group up, and with any skew. Groups of fewer rows than a tile waste what is left of
// it. Refuses f32, and operands whose rows do not start on 16 bytes.

// clang-format off
/* ridge-kernel
op = "grouped_gemm"
# At entry 65536 registers are shared by 384 threads; setmaxnreg then moves them to the consumers.
max_registers = 168
sass = [
  { opcode = "HGMMA", kernel = "ridge_grouped_gemm" }, { opcode = "UTMALDG", kernel = "ridge_grouped_gemm" },
  { opcode = "UTMASTG", kernel = "ridge_grouped_gemm", when = "accumulate == 0 || out == 0" },
  { opcode = "UTMAREDG", kernel = "ridge_grouped_gemm", when = "accumulate && out" },
  { opcode = "LDGSTS", kernel = "ridge_grouped_gemm", when = "gather && RIDGE_COPIES == 0" },
]
[define]
RIDGE_TYPE_A = { value = "dtype - 1", names = ["kBf16", "kF16"] }
RIDGE_TYPE_B = { value = "dtype - 1", names = ["kBf16", "kF16"] }
RIDGE_TYPE_C = { value = "out ? 2 : dtype - 1", names = ["kBf16", "kF16", "kF32"] }
RIDGE_MAJOR_A = { value = "layout == 2", names = ["kK", "kMn"] }
RIDGE_MAJOR_B = { value = "layout != 1", names = ["kK", "kMn"] }
RIDGE_STORE = { value = "accumulate && out", names = ["kOverwrite", "kAdd"] }
RIDGE_ADDS_OLD = { value = "accumulate && out == 0" }
RIDGE_ALONG_SUMS = { value = "layout == 2" }
RIDGE_WIDE_OFFSETS = { value = "offsets" }
RIDGE_GATHER = { value = "gather" }
RIDGE_EPILOGUE = { value = "epilogue" }
RIDGE_PROBS = { value = "probs" }
[configs]
coop_128x256_m2 = { RIDGE_BLOCK_N = 256, RIDGE_CLUSTER_M = 2, RIDGE_SLAB_BUFFERS = 2 }
coop_128x256 = { RIDGE_BLOCK_N = 256, RIDGE_SLAB_BUFFERS = 1 }
coop_256x128 = { RIDGE_BLOCK_M = 256, RIDGE_SLAB_BUFFERS = 1 }
coop_256x128_n2 = { RIDGE_BLOCK_M = 256, RIDGE_CLUSTER_N = 2, RIDGE_SLAB_BUFFERS = 1 }
pp_128x192 = { RIDGE_BLOCK_N = 192, RIDGE_STAGES = 5, RIDGE_PINGPONG = 1 }
pp_128x128 = { RIDGE_STAGES = 6, RIDGE_PINGPONG = 1 }
pp_128x128_n2 = { RIDGE_STAGES = 6, RIDGE_PINGPONG = 1, RIDGE_CLUSTER_N = 2 }
pp_64x256 = { RIDGE_BLOCK_M = 64, RIDGE_BLOCK_N = 256, RIDGE_STAGES = 5, RIDGE_PINGPONG = 1 }
pp_64x128 = { RIDGE_BLOCK_M = 64, RIDGE_STAGES = 8, RIDGE_PINGPONG = 1, RIDGE_SLAB_BUFFERS = 2 }
copied_128x256_m2 = { RIDGE_BLOCK_N = 256, RIDGE_CLUSTER_M = 2, RIDGE_SLAB_BUFFERS = 2, RIDGE_COPIES = 1 }
copied_128x192 = { RIDGE_BLOCK_N = 192, RIDGE_STAGES = 5, RIDGE_PINGPONG = 1, RIDGE_COPIES = 1 }
pp_128x128_g16 = { RIDGE_STAGES = 5, RIDGE_PINGPONG = 1, RIDGE_GROUP = 16 }
copied_128x128 = { RIDGE_STAGES = 6, RIDGE_PINGPONG = 1, RIDGE_COPIES = 1 }
block_n256_slab_buffers2 = { RIDGE_BLOCK_N = 256, RIDGE_SLAB_BUFFERS = 2, promoted = "grouped_gemm_cuda_nvidia-h100-80gb-hbm3_20261128, 1.16x" }
[variants]
nt_bf16 = { case = "grouped_gemm rows=8192 groups=8 n=14336 k=4096 layout=nt", every = true }
nn_bf16 = { case = "grouped_gemm rows=8192 groups=8 n=4096 k=14336 layout=nn", every = true }
tn_bf16 = { case = "grouped_gemm rows=8192 groups=8 n=4096 m=14336 layout=tn", every = true }
tn_bf16_f32add = { case = "grouped_gemm rows=8192 groups=8 n=4096 m=14336 layout=tn out=f32 accumulate=1", every = true }
tn_bf16_add = { case = "grouped_gemm rows=8192 groups=8 n=4096 m=14336 layout=tn accumulate=1", every = true }
nt_f16_f32 = { case = "grouped_gemm rows=8192 groups=8 n=14336 k=4096 layout=nt dtype=f16 out=f32 offsets=i64" }
nt_bf16_gather = { case = "grouped_gemm rows=16384 groups=8 n=14336 k=4096 layout=nt gather=a sources=8192", every = true }
nn_bf16_gather = { case = "grouped_gemm rows=16384 groups=8 n=4096 k=14336 layout=nn gather=a sources=8192" }
tn_bf16_gather = { case = "grouped_gemm rows=16384 groups=8 n=4096 m=14336 layout=tn gather=b sources=8192", every = true }
tn_bf16_f32add_gather = { case = "grouped_gemm rows=16384 groups=8 n=4096 m=14336 layout=tn out=f32 accumulate=1 gather=b sources=8192" }
tn_f16_gather_a = { case = "grouped_gemm rows=16384 groups=8 n=4096 m=14336 layout=tn dtype=f16 gather=a sources=8192" }
nt_bf16_swiglu = { case = "grouped_gemm rows=8192 groups=8 n=28672 k=4096 layout=nt epilogue=swiglu probs=1", every = true }
nt_bf16_swiglu_gather = { case = "grouped_gemm rows=16384 groups=8 n=28672 k=4096 layout=nt epilogue=swiglu gather=a sources=8192", every = true }
nn_f16_swiglu = { case = "grouped_gemm rows=8192 groups=8 n=28672 k=4096 layout=nn dtype=f16 epilogue=swiglu" }
nn_bf16_gradients = { case = "grouped_gemm rows=8192 groups=8 n=14336 k=4096 layout=nn epilogue=swiglu_backward probs=1", every = true }
nt_f16_gradients = { case = "grouped_gemm rows=8192 groups=8 n=14336 k=4096 layout=nt dtype=f16 epilogue=swiglu_backward" }
tn_f16_f32 = { case = "grouped_gemm rows=8192 groups=8 n=4096 m=14336 layout=tn dtype=f16 out=f32" }
*/
/* ridge-launch
[[value]]
name = "along_sums"
expression = "layout == 2"
[[value]]
name = "rows_c"
expression = "along_sums ? m : rows"
[[value]]
name = "row_b"
expression = "along_sums ? b_stride0 : b_stride1"
[[value]]
name = "row_c"
expression = "along_sums ? c_stride1 : c_stride0"
[[value]]
name = "tile_rows"
expression = "ceil_div(rows_c, RIDGE_BLOCK_M * RIDGE_CLUSTER_M)"
# Columns of C; with an epilogue those of gate, of which a tile of SwiGLU has half of its own.
[[value]]
name = "inner"
expression = "epilogue == 1 ? floor_div(n, 2) : n"
[[value]]
name = "block_inner"
expression = "epilogue == 1 ? RIDGE_BLOCK_N / 2 : RIDGE_BLOCK_N"
[[value]]
name = "tile_cols"
expression = "ceil_div(inner, block_inner * RIDGE_CLUSTER_N)"
# Of dprobs, one for each tile of columns.
[[value]]
name = "parts"
expression = "epilogue == 2 && probs ? tile_cols * RIDGE_CLUSTER_N : 0"
# Bytes of a turn of the buffers of all warps, with the barriers of what comes through them.
[[value]]
name = "slab_bytes"
expression = "epilogue == 2 ? 3 * 16384 + 64 : 16384 + (accumulate && out == 0 ? 64 : 0)"
[[value]]
name = "cluster_blocks"
expression = "RIDGE_CLUSTER_M * RIDGE_CLUSTER_N"
# At most: every group may end within a tile.
[[value]]
name = "most_tiles"
expression = "(along_sums ? groups * tile_rows : tile_rows + min(groups, rows)) * tile_cols"
[[value]]
name = "shared_bytes"
expression = "RIDGE_STAGES * ((RIDGE_BLOCK_M + RIDGE_BLOCK_N) * 128 + 24) + RIDGE_SLAB_BUFFERS * slab_bytes + (groups + 1) * 8"
# Elements of a row that is found by index.
[[value]]
name = "gathered_width"
expression = "gather == 2 ? n : along_sums ? m : k"
# Rows of a box of A and of B: what one block of a cluster brings, or a column of 64 of it.
[[value]]
name = "box_a"
expression = "along_sums ? (RIDGE_BLOCK_M / 64 % RIDGE_CLUSTER_N == 0 ? 64 : 64 / RIDGE_CLUSTER_N) : RIDGE_BLOCK_M / RIDGE_CLUSTER_N"
[[value]]
name = "box_b"
expression = "layout == 1 ? block_inner / RIDGE_CLUSTER_M : block_inner / 64 % RIDGE_CLUSTER_M == 0 ? 64 : 64 / RIDGE_CLUSTER_M"
[[value]]
name = "accumulators"
expression = "(RIDGE_PINGPONG ? RIDGE_BLOCK_M : RIDGE_BLOCK_M / 2) / 64 * RIDGE_BLOCK_N / 2"

[[struct]]
name = "rows_by_index"
members = [{ operand = "index", when = "gather" }, { operand = "a" }, { operand = "b" }, { i64 = "gather == 2 ? b_stride0 : a_stride0" }, { u32 = "sources" }, { u32 = "gathered_width" }]

[[needs]]
expression = "dtype > 0"
reason = "the matrix unit has no fp32"
[[needs]]
expression = "RIDGE_COPIES == 0 || gather > 0"
reason = "no rows are found by index that could be copied first"
[[needs]]
expression = "gather == 0 || sources > 0"
reason = "there is no row to gather"
[[needs]]
expression = "gather != 1 || RIDGE_COPIES || RIDGE_CLUSTER_N == 1"
reason = "rows of A that are found by index are not shared by blocks of a cluster"
[[needs]]
expression = "gather == 0 || along_sums || RIDGE_COPIES || RIDGE_BLOCK_M <= 128"
reason = "a thread that copies rows of a tile holds the places of eight"
[[needs]]
expression = "gather != 2 || RIDGE_COPIES || RIDGE_CLUSTER_M == 1"
reason = "rows of B that are found by index are not shared by blocks of a cluster"
[[needs]]
expression = "rows > 0 && n > 0 && (along_sums ? m : k) > 0"
reason = "an empty product needs no matrix unit"
[[needs]]
expression = "a_align % 16 == 0 && b_align % 16 == 0"
reason = "the copy engine reads rows of A and B that start on 16 bytes; pad them"
[[needs]]
expression = "c_align % 16 == 0 && n * c_bytes % 16 == 0"
reason = "the copy engine writes rows of C that start and end on 16 bytes; pad them"
[[needs]]
expression = "epilogue == 0 || (inner % 8 == 0 && swiglu_align % 16 == 0)"
reason = "the copy engine moves rows of gate, of up and of y that start and end on 16 bytes; pad them"
[[needs]]
expression = "epilogue == 0 || block_inner % 64 == 0"
reason = "a tile of SwiGLU is columns of 64 of gate and as many of up"
[[needs]]
expression = "groups <= 2048"
reason = "the offsets of a call lie in shared memory beside the stages"
[[needs]]
expression = "max(rows, n, m, k, sources) <= 2147483135"
reason = "sides are counted in 32 bits"
[[needs]]
expression = "shared_bytes <= 232448"
reason = "a block has 227 KiB of shared memory"
[[needs]]
expression = "accumulators <= (along_sums && RIDGE_PINGPONG ? 192 : 128)"
reason = "beside more accumulators what a store needs spills"
[[needs]]
expression = "layout == 1 || RIDGE_BLOCK_N % 64 == 0"
reason = "tiles of a B with N contiguous are columns of 64"
[[needs]]
expression = "accumulate == 0 || out == 0 || RIDGE_BLOCK_N % (128 / c_bytes) == 0"
reason = "the last slab of a row may overlap the one before it, but not when it is added"
[[needs]]
expression = "(epilogue != 2 && (accumulate == 0 || out)) || RIDGE_SLAB_BUFFERS <= (RIDGE_PINGPONG ? RIDGE_BLOCK_M : RIDGE_BLOCK_M / 2) / 64 * ceil_div(RIDGE_BLOCK_N, 64)"
reason = "a buffer through which something comes is one of a slab of the tile"

[[workspace]]
name = "copied_rows"
bytes = "RIDGE_COPIES ? rows * round_up(gathered_width, 8) * 2 : 0"
[[workspace]]
name = "parts_of_dprobs"
bytes = "parts * rows * 4"

[[tensor_map]]
name = "map_a"
operand = "a"
sizes = ["along_sums ? m : k", "gather == 1 ? sources : rows"]
strides = ["a_stride0 * a_bytes"]
box = [64, "box_a"]
l2_promotion = "a_stride0 * a_bytes % 128 == 0 ? 256 : 128"
[[tensor_map]]
name = "map_b"
operand = "b"
sizes = [
  "layout == 1 ? k : inner", "gather == 2 ? sources : along_sums ? rows : layout == 1 ? inner : k",
  "along_sums ? 1 : epilogue == 1 ? 2 : groups", "epilogue == 1 ? groups : 1",
]
strides = [
  "row_b * b_bytes", "along_sums ? 16 : (epilogue == 1 ? inner * (layout == 1 ? row_b : 1) : b_stride0) * b_bytes",
  "epilogue == 1 ? b_stride0 * b_bytes : 16",
]
box = [64, "box_b", 1, 1]
l2_promotion = "row_b * b_bytes % 128 == 0 ? 256 : 128"
[[tensor_map]]
name = "map_c"
operand = "c"
sizes = ["inner", "rows_c", "along_sums ? groups : epilogue ? 2 : 1", 1]
strides = ["row_c * c_bytes", "along_sums ? c_stride0 * c_bytes : epilogue ? inner * c_bytes : 16", 16]
box = ["128 / c_bytes", 16, 1, 1]
l2_promotion = "row_c * c_bytes % 128 == 0 ? 256 : 128"

# As map_a and map_b, over the rows that were copied.
[[tensor_map]]
name = "map_copied_a"
workspace = "copied_rows"
dtype = "bf16"
when = "RIDGE_COPIES && gather == 1"
sizes = ["gathered_width", "rows"]
strides = ["round_up(gathered_width, 8) * 2"]
box = [64, "box_a"]
[[tensor_map]]
name = "map_copied_b"
workspace = "copied_rows"
dtype = "bf16"
when = "RIDGE_COPIES && gather == 2"
sizes = ["gathered_width", "rows", 1, 1]
strides = ["round_up(gathered_width, 8) * 2", 16, 16]
box = [64, "box_b", 1, 1]

# With an epilogue.
[[tensor_map]]
name = "map_y"
operand = "y"
when = "epilogue"
sizes = ["inner", "rows", 1, 1]
strides = ["y_stride0 * y_bytes", 16, 16]
box = ["128 / y_bytes", 16, 1, 1]
l2_promotion = "y_stride0 * y_bytes % 128 == 0 ? 256 : 128"
[[tensor_map]]
name = "map_gate_up"
operand = "gate_up"
when = "epilogue == 2"
sizes = ["inner", "rows", 2, 1]
strides = ["gate_up_stride0 * gate_up_bytes", "inner * gate_up_bytes", 16]
box = ["128 / gate_up_bytes", 16, 1, 1]
l2_promotion = "gate_up_stride0 * gate_up_bytes % 128 == 0 ? 256 : 128"

[[kernel]]
symbol = "ridge_copy_rows"
grid = ["min(ceil_div(rows, 8), 8 * sm_count)"]
block = [256]
when = "RIDGE_COPIES"
args = [
  { struct = "rows_by_index" }, { workspace = "copied_rows" }, { u32 = "rows" }, { u32 = "gather" },
]
[[kernel]]
symbol = "ridge_grouped_gemm"
grid = ["min(most_tiles, max(floor_div(sm_count, cluster_blocks), 1)) * cluster_blocks"]
block = [384]
cluster = ["cluster_blocks"]
shared = "shared_bytes"
args = [
  { tensor_map = "map_a" }, { tensor_map = "map_b" }, { tensor_map = "map_c" },
  { struct = [{ operand = "offsets" }, { u32 = "groups" }, { u32 = "rows" }] },
  { struct = [{ operand = "c" }, { i64 = "row_c" }, { u32 = "rows_c" }, { u32 = "inner" }] },
  { i64 = "along_sums ? c_stride0 : 0" },
  { struct = [{ u32 = "tile_rows" }, { u32 = "tile_cols" }, { u32 = "min(RIDGE_GROUP, tile_rows)" }, { u32 = "0" }] },
  { u32 = "ceil_div(k, 64)" },
  { struct = "rows_by_index" }, { tensor_map = "map_copied_a" }, { tensor_map = "map_copied_b" },
  { struct = [{ operand = "y", when = "epilogue" }, { i64 = "y_stride0", when = "epilogue" }, { operand = "probs", when = "probs" }, { workspace = "parts_of_dprobs" }] },
  { tensor_map = "map_y" }, { tensor_map = "map_gate_up" },
]
[[kernel]]
symbol = "ridge_add_parts"
grid = ["ceil_div(rows, 64)"]
block = [256]
when = "parts"
args = [{ workspace = "parts_of_dprobs" }, { operand = "dprobs", when = "parts" }, { u32 = "rows" }, { u32 = "parts" }]
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
values = [64, 96, 128, 160, 192, 224, 256]
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
values = [1, 2, 4, 8, 16, 32]
default = 8
category = "layout"
title = "tiles side by side along M in the order in which the tiles of a group are walked"
effect = "tiles in flight form a compact rectangle, which reads less through L2"
model = "walk"
[[tunable]]
name = "RIDGE_COPIES"
values = [0, 1]
default = 0
kind = "structure"
category = "pipeline"
title = "rows that are found by index are copied first"
effect = "the copy engine brings all of a stage, for a launch and a copy more"
group = "tile"
[[tunable]]
name = "RIDGE_SLAB_BUFFERS"
values = [1, 2]
default = 1
category = "pipeline"
title = "buffers of a warp for parts of C on their way out"
effect = "one is filled while the other is stored"
group = "tile"
[[constraint]]
expression = "RIDGE_PINGPONG == 0 || RIDGE_BLOCK_M / 64 * RIDGE_BLOCK_N / 2 <= 192"
reason = "a warpgroup holds its whole tile in registers"
[[constraint]]
expression = "RIDGE_PINGPONG || RIDGE_BLOCK_M >= 128"
reason = "two warpgroups share the rows of a tile, 64 each or more"
*/
// clang-format on

#include "../../device/cuda/kernel/added_slabs.cuh"
#include "../../device/cuda/kernel/gathered_rows.cuh"
#include "../../device/cuda/kernel/main_loop.cuh"
#include "../../device/cuda/kernel/shared_stage.cuh"
#include "../matmul/grouped_tiles.cuh"
#include "swiglu_slabs.cuh"

namespace ridge::cuda {
namespace {

struct Config : GemmBuild {
  static constexpr bool kAlongSums = RIDGE_ALONG_SUMS != 0, kWideOffsets = RIDGE_WIDE_OFFSETS != 0;
  static constexpr u32 kGroupAlign = 1;
  // Whose rows are found by index: in the load, or by the launch that copies them.
  static constexpr bool kCopies = RIDGE_COPIES != 0, kOfA = RIDGE_GATHER == 1, kOfB = RIDGE_GATHER == 2;
  static constexpr bool kGatherA = kOfA && !kCopies, kGatherB = kOfB && !kCopies, kGathers = kGatherA || kGatherB;
  static constexpr u32 kBlockM = RIDGE_BLOCK_M, kBlockN = RIDGE_BLOCK_N, kStages = RIDGE_STAGES;
  static constexpr u32 kClusterM = RIDGE_CLUSTER_M, kClusterN = RIDGE_CLUSTER_N, kClusterBlocks = kClusterM * kClusterN;
  static constexpr bool kMulticast = kClusterBlocks > 1, kPingpong = RIDGE_PINGPONG != 0;
  static constexpr u32 kSlabBuffers = RIDGE_SLAB_BUFFERS;
  // SwiGLU of the sums, of which a tile has columns of gate and then as many of up; or its gradients.
  static constexpr bool kSwiglu = RIDGE_EPILOGUE == 1, kGradients = RIDGE_EPILOGUE == 2, kProbs = RIDGE_PROBS != 0;
  static constexpr u32 kHalves = kSwiglu ? 2 : 1, kInnerN = kBlockN / kHalves;
  static constexpr bool kAddsOld = RIDGE_ADDS_OLD != 0, kPrefetches = kAddsOld;
  static constexpr u32 kConsumers = 2;  // warpgroups that multiply
  static constexpr u32 kThreads = (kConsumers + 1) * kWarpgroupThreads;

  // One stage is one swizzle row of K: 64 elements.
  static constexpr u32 kBlockK = kRowBytes / kTypeBytes<kTypeA>;
  static constexpr u32 kStageBytesA = kBlockM * kRowBytes, kStageBytesB = kBlockN * kRowBytes;
  // What the copy engine brings of a stage.
  static constexpr u32 kStageBytes = (kGatherA ? 0 : kStageBytesA) + (kGatherB ? 0 : kStageBytesB);
  static constexpr u32 kRowsPerWarpgroup = kPingpong ? kBlockM : kBlockM / kConsumers;
  static constexpr u32 kSubtiles = kRowsPerWarpgroup / 64;
  static constexpr u32 kWarpsPerTile = kPingpong ? 4 : 4 * kConsumers;
  static constexpr bool kSplitColumnsA = kBlockM / 64 % kClusterN == 0, kSplitColumnsB = kInnerN / 64 % kClusterM == 0;

  // Threads that copy rows hold where those are.
  static constexpr int kRegistersBeside = kGathers ? 56 : 40, kRegistersConsumer = kGathers ? 224 : 232;

  static_assert(!kEightBit && !kFinishes, "16-bit operands, and sums alone");
  static_assert(kRowsPerWarpgroup % 64 == 0, "wgmma computes 64 rows at a time");
  static_assert(kMajorB == Major::kK || kBlockN % 64 == 0, "MN-major tiles are columns of 64 elements");
  static_assert(!kGatherA || kClusterN == 1, "blocks of a cluster share what the copy engine brings");
  static_assert(!kGatherB || (kClusterM == 1 && kAlongSums), "along rows B is a stack of matrices");
  static_assert((kBlockM / kClusterN) % 8 == 0 && (kInnerN / kClusterM) % 8 == 0, "parts must be whole swizzle atoms");
  static_assert(!(kSwiglu || kGradients) || !kAlongSums, "SwiGLU is made of rows");
};

// Shared memory, from a 1024-byte aligned base: stages of A, stages of B, output slabs, barriers, the groups.
struct SharedLayout {
  static constexpr u32 kA = 0;
  static constexpr u32 kB = kA + Config::kStages * Config::kStageBytesA;
  static constexpr u32 kSlabs = kB + Config::kStages * Config::kStageBytesB;
  static constexpr u32 kWarpSlabBytes = Config::kSlabBuffers * (Config::kGradients ? 3 : 1) * kSlabBytes;
  static constexpr u32 kBarriers = kSlabs + Config::kConsumers * 4 * kWarpSlabBytes;
  static constexpr u32 kLoaded = kBarriers + Ring<Config::kStages>::kBytes;  // barriers of stages that are cut off
  static constexpr u32 kSlabBarrierBytes =
      Config::kAddsOld || Config::kGradients ? Config::kSlabBuffers * kBarrierBytes : 0;  // of a warp
  static constexpr u32 kSlabBarriers = kLoaded + Config::kStages * kBarrierBytes;
  static constexpr u32 kGroups = kSlabBarriers + Config::kConsumers * 4 * kSlabBarrierBytes;
};

// Steps of K of a tile.
__device__ __forceinline__ u32 steps_of(const GroupTile& tile, u32 k_blocks) {
  return Config::kAlongSums ? (tile.rows + Config::kBlockK - 1) / Config::kBlockK : k_blocks;
}

// Of the last step of a group along sums, which may end within the stage: its rows of K that are the group's own.
__device__ __forceinline__ u32 depth_left(const GroupTile& tile, u32 step) {
  return min(tile.rows - step * Config::kBlockK, Config::kBlockK);
}

// Zeros in the rows of K from `first` on of a stage, in what the copy engine brought: they are another group's, which
// may hold NaN. By one warp.
__device__ __forceinline__ void clear_depth(u32 stage_a, u32 stage_b, u32 first, u32 lane) {
  constexpr u32 kColumnBytes = Config::kBlockK * kRowBytes;
  const auto clear = [&](u32 base) {
    for (u32 at = first * kRowBytes + lane * 16; at < kColumnBytes; at += kWarpThreads * 16) {
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(base + at), "r"(0) : "memory");
    }
  };
  for (u32 column = 0; !Config::kGatherA && column < Config::kBlockM / 64; ++column) {
    clear(stage_a + column * kColumnBytes);
  }
  for (u32 column = 0; !Config::kGatherB && column < Config::kBlockN / 64; ++column) {
    clear(stage_b + column * kColumnBytes);
  }
}

struct Feeder {
  Ring<Config::kStages> ring;
  u32 base;  // of shared memory
  u32 k_blocks;
  BlockPlace place;

  __device__ __forceinline__ u32 stage_a(u32 stage) const {
    return base + SharedLayout::kA + stage * Config::kStageBytesA;
  }
  __device__ __forceinline__ u32 stage_b(u32 stage) const {
    return base + SharedLayout::kB + stage * Config::kStageBytesB;
  }
  // The barrier of the bytes of a stage. One that is cut off goes to a warp that clears it first.
  __device__ __forceinline__ u32 loaded(u32 stage, bool whole) const {
    return whole ? ring.full(stage) : base + SharedLayout::kLoaded + stage * kBarrierBytes;
  }
  // The first row and column of C, or of gate, of the block's part of a tile.
  __device__ __forceinline__ i32 first_m(const GroupTile& tile) const {
    return static_cast<i32>((tile.at.row * Config::kClusterM + place.in_m) * Config::kBlockM);
  }
  __device__ __forceinline__ i32 first_n(const GroupTile& tile) const {
    return static_cast<i32>((tile.at.col * Config::kClusterN + place.in_n) * Config::kInnerN);
  }

  // By one thread: what the copy engine brings of a stage, which must be free.
  __device__ __forceinline__ void load(const TensorMap& map_a, const TensorMap& map_b, const GroupTile& tile, u32 step,
                                       u32 stage, u32 loaded) const {
    using C = Config;
    const i32 first = static_cast<i32>(tile.begin),
              k = static_cast<i32>(step * C::kBlockK) + (C::kAlongSums ? first : 0);
    const i32 m = first_m(tile);
    barrier_arrive_expect_bytes(loaded, C::kStageBytes);
    if constexpr (!C::kGatherA) {
      load_part<C, C::kMajorA, C::kBlockM, C::kClusterN, C::kSplitColumnsA>(
          k, C::kAlongSums ? m : first + m, place.in_n, [&](u32 offset, i32 x, i32 y) {
            if constexpr (C::kClusterN == 1) {
              load_box(stage_a(stage) + offset, map_a, loaded, x, y);
            } else {
              load_box_multicast(stage_a(stage) + offset, map_a, loaded, x, y, place.share_a_mask);
            }
          });
    }
    if constexpr (!C::kGatherB) {
      const i32 group = C::kAlongSums ? 0 : static_cast<i32>(tile.group);
#pragma unroll
      for (u32 half = 0; half < C::kHalves; ++half) {
        load_part<C, C::kMajorB, C::kInnerN, C::kClusterM,
                  C::kSplitColumnsB>(k, first_n(tile), place.in_m, [&](u32 offset, i32 x, i32 y) {
          const BoxCorner at = C::kSwiglu ? BoxCorner{x, y, static_cast<i32>(half), group} : BoxCorner{x, y, group, 0};
          const u32 to = stage_b(stage) + half * C::kInnerN * kRowBytes + offset;
          if constexpr (C::kClusterM == 1) {
            load_box(to, map_b, loaded, at);
          } else {
            load_box_multicast(to, map_b, loaded, at, place.share_b_mask);
          }
        });
      }
    }
  }

  // By a warp along sums: clears the rest of a stage that is cut off, once it has arrived, and hands it over.
  __device__ __forceinline__ void clear(u32 stage, u32 left, u32& parities, u32 lane) const {
    barrier_wait(loaded(stage, false), parities >> stage & 1u);
    parities ^= 1u << stage;
    clear_depth(stage_a(stage), stage_b(stage), left, lane);
    fence_proxy_async_shared();  // the matrix unit reads what was written here
    __syncwarp();
    if (lane == 0) barrier_arrive(ring.full(stage));
  }
};

// Four warps that copy the rows of one operand; one thread of them has the copy engine bring the other. Along sums the
// rows of K behind the end of a group are zeros in the one, and the first warp clears them in the other.
__device__ __forceinline__ void feed_by_index(const Feeder& feeder, GroupWalk<Config>& walk, const TensorMap& map_a,
                                              const TensorMap& map_b, const GatherView& view) {
  using C = Config;
  constexpr u32 kColumns = (C::kGatherA ? C::kBlockM : C::kBlockN) / 64;  // along sums
  constexpr u32 kRows = C::kAlongSums ? C::kBlockK : C::kBlockM;          // of the tile
  const u32 thread = threadIdx.x - C::kConsumers * kWarpgroupThreads, lane = thread % kWarpThreads;
  const bool first_warp = warp_uniform(thread / kWarpThreads) == 0;
  GatheredRows<kRows / kGatherRows, 2> rows{view, static_cast<const u8*>(C::kGatherA ? view.a : view.b), thread};
  CopiedStages<C::kStages> copied{feeder.ring, lane};
  RingPosition<C::kStages> position;
  u32 parities = 0;  // of the barriers of stages that were cut off, a bit for each
  for (; walk.more(); walk.next()) {
    const GroupTile tile = walk.at();
    const u32 steps = steps_of(tile, feeder.k_blocks), end = tile.begin + tile.rows;
    // Rows are those of the tile along rows, and of a step of K along sums, where their numbers are read a step ahead.
    rows.read(tile.begin + (C::kAlongSums ? 0 : static_cast<u32>(feeder.first_m(tile))), end);
    const u32 column = C::kAlongSums ? static_cast<u32>(C::kGatherA ? feeder.first_m(tile) : feeder.first_n(tile)) : 0;
    if constexpr (!C::kAlongSums) rows.locate(column);
    for (u32 step = 0; step < steps; ++step) {
      const u32 stage = position.stage, to = C::kGatherA ? feeder.stage_a(stage) : feeder.stage_b(stage);
      const bool whole = !C::kAlongSums || depth_left(tile, step) == C::kBlockK;
      barrier_wait(feeder.ring.empty(stage), position.parity ^ 1u);
      if (first_warp && elect_one()) feeder.load(map_a, map_b, tile, step, stage, feeder.loaded(stage, whole));
      __syncwarp();
      if constexpr (C::kAlongSums) {
        rows.locate(column);
        rows.read(tile.begin + (step + 1) * C::kBlockK, end);
#pragma unroll
        for (u32 i = 0; i < kColumns; ++i) {
          rows.copy(to + i * C::kBlockK * kRowBytes, i * kRowBytes, rows.bytes_from(column + i * 64));
        }
      } else {
        rows.copy(to, step * kRowBytes, rows.bytes_from(step * C::kBlockK));
      }
      copied.next();
      if (!whole && first_warp) feeder.clear(stage, depth_left(tile, step), parities, lane);
      position.advance();
    }
  }
  copied.finish();
}

// Zeros in the parts of dprobs of rows of no group.
__device__ __forceinline__ void clear_parts(const GroupView& groups, const GroupTable& table, float* parts, u32 count,
                                            u32 thread, u32 threads) {
  for (u32 part = blockIdx.x; part < count; part += gridDim.x) {
    float* const of_rows = parts + static_cast<i64>(part) * groups.rows;
    for (u32 row = thread; row < table.begins[0]; row += threads) of_rows[row] = 0.0f;
    for (u32 row = table.begins[groups.count] + thread; row < groups.rows; row += threads) of_rows[row] = 0.0f;
  }
}

}  // namespace
}  // namespace ridge::cuda

#if RIDGE_EPILOGUE == 2
// dprobs from its parts, in their order. Four threads add up the parts of a row, each every fourth.
extern "C" __global__ void __launch_bounds__(256)
    ridge_add_parts(const float* const parts, float* const dprobs, const ridge::cuda::u32 rows,
                    const ridge::cuda::u32 count) {
  using namespace ridge::cuda;
  __shared__ float sums[4][64];
  const u32 row = blockIdx.x * 64 + threadIdx.x % 64, first = threadIdx.x / 64;
  float sum = 0.0f;
  if (row < rows) {
#pragma unroll 8
    for (u32 part = first; part < count; part += 4) sum += parts[static_cast<i64>(part) * rows + row];
  }
  sums[first][threadIdx.x % 64] = sum;
  __syncthreads();
  if (first == 0 && row < rows) {
    dprobs[row] = (sums[0][threadIdx.x] + sums[1][threadIdx.x]) + (sums[2][threadIdx.x] + sums[3][threadIdx.x]);
  }
}
#endif

#if RIDGE_COPIES
// Rows of A, or with `gather` 2 of B, as the index has them, behind each other; a warp for each. What a row has beyond
// `view.width` is not written: the product does not read it.
extern "C" __global__ void __launch_bounds__(256)
    ridge_copy_rows(const ridge::cuda::GatherView view, ridge::cuda::u16* const copied, const ridge::cuda::u32 rows,
                    const ridge::cuda::u32 gather) {
  using namespace ridge::cuda;
  const u16* const source = static_cast<const u16*>(gather == 2 ? view.b : view.a);
  const u32 lane = threadIdx.x % kWarpThreads, warps = blockDim.x / kWarpThreads, chunks = (view.width + 7) / 8;
  for (u32 row = blockIdx.x * warps + threadIdx.x / kWarpThreads; row < rows; row += gridDim.x * warps) {
    const u32 number = static_cast<u32>(__ldg(view.index + row));
    const bool known = number < view.sources;
    const u16* const from = source + (known ? number * view.row_stride : 0);
    u16* const to = copied + static_cast<i64>(row) * chunks * 8;
#pragma unroll 4
    for (u32 chunk = lane; chunk < chunks; chunk += kWarpThreads) {
      if (chunk * 8 + 8 <= view.width) {
        const uint4 zeros = make_uint4(0, 0, 0, 0);
        reinterpret_cast<uint4*>(to)[chunk] = known ? __ldg(reinterpret_cast<const uint4*>(from) + chunk) : zeros;
      } else {
        for (u32 i = chunk * 8; i < view.width; ++i) to[i] = known ? from[i] : u16{0};
      }
    }
  }
}
#endif

extern "C" __global__ void __launch_bounds__(ridge::cuda::Config::kThreads, 1) ridge_grouped_gemm(
    const __grid_constant__ ridge::cuda::TensorMap map_a, const __grid_constant__ ridge::cuda::TensorMap map_b,
    const __grid_constant__ ridge::cuda::TensorMap map_c, const ridge::cuda::GroupView groups,
    const ridge::cuda::OutputView output, const ridge::cuda::i64 matrix_stride, const ridge::cuda::TileGrid tiles,
    const ridge::cuda::u32 k_blocks, const ridge::cuda::GatherView gather,
    const __grid_constant__ ridge::cuda::TensorMap map_copied_a,
    const __grid_constant__ ridge::cuda::TensorMap map_copied_b, const ridge::cuda::SwigluView made,
    const __grid_constant__ ridge::cuda::TensorMap map_y, const __grid_constant__ ridge::cuda::TensorMap map_gate_up) {
  using namespace ridge::cuda;
  using C = Config;
  const TensorMap& from_a = C::kCopies && C::kOfA ? map_copied_a : map_a;
  const TensorMap& from_b = C::kCopies && C::kOfB ? map_copied_b : map_b;
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared);
  const Ring<C::kStages> ring{base + SharedLayout::kBarriers};
  u32* const order = reinterpret_cast<u32*>(shared + SharedLayout::kGroups);
  // The table that is read while the other is written starts anywhere, so that each number is a load of its own: a load
  // of four would reach into the other.
  const GroupTable table{order + groups.count + 1, order};

  const u32 warp = warp_uniform(threadIdx.x / kWarpThreads);
  const u32 lane = threadIdx.x % kWarpThreads;
  const u32 warpgroup = warp / 4;
  const BlockPlace place = place_in_cluster<C>();

  if (warp == 0 && elect_one()) {
    prefetch_tensor_map(from_a);
    prefetch_tensor_map(from_b);
    prefetch_tensor_map(map_c);
    for (u32 stage = 0; stage < C::kStages; ++stage) {
      barrier_init(base + SharedLayout::kLoaded + stage * kBarrierBytes, 1);
    }
    if constexpr (C::kAddsOld || C::kGradients) {
      for (u32 i = 0; i < C::kConsumers * 4; ++i) {
        AddedSlabs<C, StackPlaces>::init(base + SharedLayout::kSlabBarriers + i * SharedLayout::kSlabBarrierBytes);
      }
    }
    ring.init(C::kWarpsPerTile * (C::kClusterM + C::kClusterN - 1), C::kGathers ? 1 + kGatherWarps : 1);
  }
  // Barriers must exist in every block of the cluster before the first multicast or remote arrival can reach them.
  if constexpr (C::kMulticast) {
    cluster_arrive();
    cluster_wait();
  }
  wait_for_prior_grid();
  read_groups<C>(groups, table, tiles.cols);
  GroupWalk<C> walk = group_walk<C>(table, tiles, groups);

  const Feeder feeder{ring, base, k_blocks, place};
  const OutputView gate = output, up = half_of(output, 1), y{made.y, made.y_stride, output.rows, output.cols};
  // What no product is made for, by `threads` threads of every block.
  const auto clear = [&](u32 thread, u32 threads) {
    if constexpr (!C::kAddsOld) clear_rest<C>(groups, table, output, matrix_stride, thread, threads);
    if constexpr (C::kSwiglu || C::kGradients) {
      clear_rest<C>(groups, table, up, 0, thread, threads);
      clear_rest<C>(groups, table, y, 0, thread, threads);
    }
    if constexpr (C::kGradients && C::kProbs) {
      clear_parts(groups, table, made.parts, tiles.cols * C::kClusterN, thread, threads);
    }
  };
  if (warpgroup == C::kConsumers) {
    // ---- Beside the consumers: a thread that feeds the ring, a warp that clears the ends of groups, and two for the
    // rows of C that have no product; or all four warps for rows that are found by index
    decrease_registers<C::kRegistersBeside>();
    const u32 role = warp - C::kConsumers * 4;
    if constexpr (C::kGathers) {
      feed_by_index(feeder, walk, from_a, from_b, gather);
      if (role == 0 && elect_one()) let_next_grid_start();
      clear(threadIdx.x % kGatherThreads, kGatherThreads);
    } else if (role == 0) {
      if (elect_one()) {
        RingPosition<C::kStages> position;
        for (; walk.more(); walk.next()) {
          const GroupTile tile = walk.at();
          const u32 steps = steps_of(tile, k_blocks);
          for (u32 step = 0; step < steps; ++step) {
            const bool whole = !C::kAlongSums || depth_left(tile, step) == C::kBlockK;
            barrier_wait(ring.empty(position.stage), position.parity ^ 1u);
            feeder.load(from_a, from_b, tile, step, position.stage, feeder.loaded(position.stage, whole));
            position.advance();
          }
        }
        let_next_grid_start();
      }
    } else if (role == 1) {
      if constexpr (C::kAlongSums) {
        RingPosition<C::kStages> position;
        u32 parities = 0;  // of the barriers of stages that were cut off, a bit for each
        for (; walk.more(); walk.next()) {
          const GroupTile tile = walk.at();
          const u32 steps = steps_of(tile, k_blocks), left = depth_left(tile, steps - 1);
          position.advance_by(steps - 1);
          if (left < C::kBlockK) feeder.clear(position.stage, left, parities, lane);
          position.advance();
        }
      }
    } else {
      clear(threadIdx.x % (2 * kWarpThreads), 2 * kWarpThreads);
    }
    __syncwarp();
  } else {
    // ---- Consumers: multiply out of the ring, then store
    increase_registers<C::kRegistersConsumer>();
    const u32 row_in_tile = C::kPingpong ? 0 : warpgroup * C::kRowsPerWarpgroup;
    const u32 slabs = base + SharedLayout::kSlabs + warp * SharedLayout::kWarpSlabBytes;
    const u32 slab_barriers = base + SharedLayout::kSlabBarriers + warp * SharedLayout::kSlabBarrierBytes;
    // 64 rows of A are 8 KiB in either order: 64 swizzle rows (K-major), or one column of 64 K rows (MN-major).
    const u64 first_a =
        matrix_descriptor<C::kMajorA>(base + SharedLayout::kA + row_in_tile * kRowBytes, C::kBlockK * kRowBytes);
    const u64 first_b = matrix_descriptor<C::kMajorB>(base + SharedLayout::kB, C::kBlockK * kRowBytes);

    // Lane i tells block i of the cluster that this warp no longer needs a stage it feeds.
    const bool tells_peer = C::kMulticast && lane < C::kClusterBlocks &&
                            (lane % C::kClusterM == place.in_m || lane / C::kClusterM == place.in_n);
    auto release = [&](u32 stage) {
      if constexpr (!C::kMulticast) {
        if (lane == 0) barrier_arrive(ring.empty(stage));
      } else {
        if (tells_peer) barrier_arrive_in_block(ring.empty(stage), lane);
      }
    };

    AddedSlabs<C, StackPlaces> added{map_c, map_c, slabs, slab_barriers, lane};
    SwigluSlabs<C> swiglu{map_c, map_y, gate, up, y, slabs, lane};
    GradientSlabs<C> gradients{map_gate_up, map_c, map_y, gate, up, y, slabs, slab_barriers, lane};
    RingPosition<C::kStages> position;
    if (C::kPingpong && warpgroup == 1) named_barrier_arrive(kTurnBarrier, kTurnThreads);  // the first turn is 0's
    for (u32 turn = 0; walk.more(); walk.next(), turn ^= 1u) {
      const GroupTile tile = walk.at();
      const u32 steps = steps_of(tile, k_blocks);
      if (C::kPingpong && turn != warpgroup) {  // the other warpgroup's
        position.advance_by(steps);
        continue;
      }
      const i32 n = feeder.first_n(tile);
      const i32 m = feeder.first_m(tile) + static_cast<i32>(row_in_tile + (warp % 4) * kSlabRows);
      // What is added is asked for where nothing waits for the buffers: in front of this warpgroup's turn, or else a
      // few steps before the end of K.
      added.places.matrix = static_cast<i32>(tile.group);
      const Place of_rows{n, static_cast<i32>(tile.begin) + m, 0, static_cast<i32>(tile.rows) - m};
      const auto ask_ahead = [&] {
        if constexpr (C::kAddsOld) added.begin(n, m);
        if constexpr (C::kGradients) gradients.begin(of_rows);
      };
      if constexpr (C::kPingpong) ask_ahead();
      u32 steps_left = steps;
      auto release_stage = [&](u32 stage) {
        release(stage);
        if constexpr ((C::kAddsOld || C::kGradients) && !C::kPingpong) {
          if (steps_left == min(steps, kStepsAhead)) ask_ahead();
          --steps_left;
        }
      };
      float sums[C::kSubtiles][C::kBlockN / 2];
      if constexpr (C::kPingpong) named_barrier(kTurnBarrier + warpgroup, kTurnThreads);
      const u32 in_use = multiply<C>(sums, ring, position, first_a, first_b, steps, release_stage);
      if constexpr (C::kPingpong) named_barrier_arrive(kTurnBarrier + 1 - warpgroup, kTurnThreads);
      wgmma_wait<0>();
      release_stage(in_use);

      const i32 rows = static_cast<i32>(C::kAlongSums ? output.rows : tile.rows);
#pragma unroll
      for (u32 subtile = 0; subtile < C::kSubtiles; ++subtile) {
        const i32 y = m + static_cast<i32>(subtile * 64);
        const Place own{n, of_rows.y + static_cast<i32>(subtile * 64), 0,
                        of_rows.rows - static_cast<i32>(subtile * 64)};
        float probs[2];
        if constexpr (C::kSwiglu || C::kGradients) load_probs<C>(probs, made, own, lane);
        if constexpr (C::kAddsOld) {
          added.store(sums[subtile], static_cast<int>(subtile), n, m, [](int) {});
        } else if constexpr (C::kGradients) {
          float parts[2];
          gradients.store(sums[subtile], static_cast<int>(subtile), of_rows, probs, parts);
          if constexpr (C::kProbs) {
            store_parts(made.parts + static_cast<i64>(static_cast<u32>(n) / C::kBlockN) * groups.rows, parts, own,
                        lane);
          }
        } else if constexpr (C::kSwiglu) {
          if (own.rows > 0) swiglu.store(sums[subtile], own, probs);
        } else {
          if (y >= rows) continue;
          const Place to{n, C::kAlongSums ? y : static_cast<i32>(tile.begin) + y,
                         C::kAlongSums ? static_cast<i32>(tile.group) : 0, rows - y};
          store_group_rows<C>(sums[subtile], map_c, output, slabs, to, lane);
        }
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
