// Attention, forward, on Hopper's matrix units: O = softmax(Q K^T / sqrt(d)) V and the log-sum-exp of every row, 16-bit
// inputs, fp32 sums; every query head reads the keys of its group's head, no copies.
//
// A persistent block works on 64 queries per consumer warpgroup and streams K and V through two-stage rings that the
// copy engine fills. The warpgroups take turns at issuing products, so that one's softmax runs under the other's
// instructions; within a warpgroup the next scores S' = Q K'^T are issued together with O += P V, and the softmax of S'
// starts as soon as they are there. P never leaves registers. This pipeline does not drain between tiles: the last
// product with V of one tile is issued with the first scores of the next, and the finished O leaves, through the buffer
// of its own Q, by a warp that does nothing else. Wide heads leave room for one tile of Q, and there it does drain.
// Long tiles come first. Heads of sizes between the builds are those of the next one, which the copy engine fills with
// zeros and clips. With RIDGE_WINDOW a tile works off the blocks that some of its queries see, and masks those at
// either end. With RIDGE_PACKED the sequence is documents behind each other: a launch of one block
// (`ridge_attention_documents`) cuts their queries into tiles and sorts them by length, and a tile's last rows, where
// they are another document's, are left alone by storing rows one by one. With RIDGE_SOFTCAP scores pass through
// the special-function unit twice more, before masks and maxima; with RIDGE_SINKS a row's sink joins its sum when the
// tile is finished. With RIDGE_ALIBI scores become powers of two, slope x distance off, before they are masked.
//
// Wins on sequences from about a thousand keys. Loses on a few hundred, where a tile is over before the pipeline is
// full, and refuses what the copy engine cannot address (rows that do not start on 16 bytes). Figures:
// docs/operators/attention.md.
//
// The entry point is `ridge_attention`, with RIDGE_PACKED behind `ridge_attention_documents`.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "KEYS"
values = [0, 64, 80, 96, 112, 128, 160]
default = 0
category = "tile"
title = "keys per step; 0: by the columns of a head"
group = "tile"
[[tunable]]
name = "CONSUMERS"
values = [0, 2, 3]
default = 0
category = "tile"
title = "warpgroups of 64 queries in a tile; 0: three up to 64 columns without a softcap, else two"
group = "tile"
[[tunable]]
name = "RIDGE_STAGES"
values = [2, 3, 4]
default = 2
category = "pipeline"
title = "steps of K and of V on their way"
group = "tile"
[[tunable]]
name = "SLOTS"
values = [0, 1, 2, 3, 4]
default = 0
category = "pipeline"
title = "tiles of Q and of finished O; 0: two where there is room for them, else one"
group = "tile"
[[tunable]]
name = "QUERY_IN_REGISTERS"
values = [0, 1, 2]
default = 2
category = "resource"
title = "Q is read from shared memory once per tile instead of once per step; 2: where there are registers for it"
group = "tile"
[[tunable]]
name = "RIDGE_TAKE_TURNS"
values = [0, 1]
default = 1
category = "algorithm"
title = "warpgroups issue products in turns"
*/
/* ridge-kernel
op = "attention"
# At entry 65536 registers are shared by 384 or 512 threads; setmaxnreg then moves them to the consumers.
max_registers = 168
# Of every kernel of a build, so not where one finds the documents.
sass = [{ opcode = "HGMMA", when = "documents == 0" }, { opcode = "UTMALDG", when = "documents == 0" }, { opcode = "UTMASTG", when = "documents == 0" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kBf16", "kF16"] }
RIDGE_HEAD_DIM = { value = "depth" }
RIDGE_VALUE_DIM = { value = "width" }
RIDGE_OUTPUT_COLUMNS = { value = "packed ? v_dim : width" }
RIDGE_BLOCK_N = { value = "block_n" }
RIDGE_SLOTS = { value = "slots" }
RIDGE_CONSUMERS = { value = "consumers" }
RIDGE_CAUSAL = { value = "window ? 0 : mask" }
RIDGE_WINDOW = { value = "window" }
RIDGE_PACKED = { value = "packed" }
RIDGE_SINKS = { value = "sinks" }
RIDGE_SOFTCAP = { value = "softcap" }
# 1: no query sees a key behind its place.
RIDGE_ALIBI = { value = "alibi == 0 ? 0 : mask ? 1 : 2" }
RIDGE_QUERY_IN_REGISTERS = { value = "query_in_registers" }
RIDGE_PRODUCER_REGISTERS = { value = "consumers == 2 && (slots > 1 || query_in_registers) ? 24 : 32" }
RIDGE_CONSUMER_REGISTERS = { value = "consumers == 2 ? (slots > 1 || query_in_registers ? 240 : 232) : 160" }
[configs]
default = { }
stages4 = { RIDGE_STAGES = 4 }
two_stages4_slots4 = { CONSUMERS = 2, RIDGE_STAGES = 4, SLOTS = 4 }
slots3 = { SLOTS = 3 }
keys64_stages4_slots3 = { KEYS = 64, RIDGE_STAGES = 4, SLOTS = 3 }
keys128 = { KEYS = 128, SLOTS = 1, QUERY_IN_REGISTERS = 1 }
keys64_ridge_stages4 = { KEYS = 64, RIDGE_STAGES = 4, promoted = "attention_cuda_nvidia-h100-80gb-hbm3_20261128, 1.05x" }
[variants]
d128_bf16_causal = { case = "attention dim=128 dtype=bf16 mask=causal", every = true }
d128_bf16_full = { case = "attention dim=128 dtype=bf16 mask=full" }
d128_f16_causal = { case = "attention dim=128 dtype=f16 mask=causal" }
d128_f16_full = { case = "attention batch=2 dim=128 dtype=f16 mask=full", every = true }
d64_bf16_causal = { case = "attention dim=64 dtype=bf16 mask=causal", every = true }
d128_bf16_window = { case = "attention dim=128 dtype=bf16 mask=causal keys_left=65" }
d128_f16_window = { case = "attention dim=128 dtype=f16 keys_left=65 keys_right=65" }
d64_bf16_window = { case = "attention dim=64 dtype=bf16 mask=causal keys_left=65", every = true }
d128_bf16_packed = { case = "attention dim=128 dtype=bf16 mask=causal documents=4" }
d128_f16_packed = { case = "attention dim=128 dtype=f16 documents=4" }
d64_bf16_packed = { case = "attention dim=64 dtype=bf16 mask=causal documents=4" }
d96_bf16_causal = { case = "attention dim=96 dtype=bf16 mask=causal", every = true }
d96_f16_full = { case = "attention dim=96 dtype=f16 mask=full" }
d96_bf16_window = { case = "attention dim=96 dtype=bf16 mask=causal keys_left=65" }
d72_bf16_packed = { case = "attention dim=72 dtype=bf16 mask=causal documents=4" }
d8_bf16_packed = { case = "attention dim=8 dtype=bf16 mask=causal documents=4" }
d256_bf16_causal = { case = "attention dim=256 dtype=bf16 mask=causal" }
d256_bf16_full = { case = "attention dim=256 dtype=bf16 mask=full" }
d256_f16_window = { case = "attention dim=256 dtype=f16 keys_left=65 keys_right=65" }
d256_bf16_packed = { case = "attention dim=256 dtype=bf16 mask=causal documents=4" }
d192_bf16_causal = { case = "attention dim=192 dtype=bf16 mask=causal" }
d192_bf16_packed = { case = "attention dim=192 dtype=bf16 mask=causal documents=4" }
d224_f16_causal = { case = "attention dim=224 dtype=f16 mask=causal" }
d160_bf16_full = { case = "attention dim=160 dtype=bf16 mask=full" }
d192_128_bf16_causal = { case = "attention dim=192 v_dim=128 dtype=bf16 mask=causal", every = true }
d192_128_f16_full = { case = "attention dim=192 v_dim=128 dtype=f16 mask=full", every = true }
d192_128_bf16_window = { case = "attention dim=192 v_dim=128 dtype=bf16 mask=causal keys_left=65" }
d192_128_bf16_packed = { case = "attention dim=192 v_dim=128 dtype=bf16 mask=causal documents=4" }
d64_128_bf16_causal = { case = "attention dim=64 v_dim=128 dtype=bf16 mask=causal" }
d128_64_bf16_packed = { case = "attention dim=128 v_dim=64 dtype=bf16 mask=causal documents=4" }
d64_256_bf16_window = { case = "attention dim=64 v_dim=256 dtype=bf16 mask=causal keys_left=65" }
d256_64_f16_full = { case = "attention dim=256 v_dim=64 dtype=f16 mask=full" }
d64_bf16_causal_sinks = { case = "attention dim=64 dtype=bf16 mask=causal sinks=1" }
d64_bf16_window_sinks = { case = "attention dim=64 dtype=bf16 mask=causal keys_left=65 sinks=1" }
d64_bf16_packed_sinks = { case = "attention dim=64 dtype=bf16 mask=causal keys_left=65 documents=4 sinks=1" }
d128_f16_full_sinks = { case = "attention dim=128 dtype=f16 mask=full sinks=1" }
d128_bf16_causal_softcap = { case = "attention dim=128 dtype=bf16 mask=causal softcap=1" }
d128_bf16_window_softcap = { case = "attention dim=128 dtype=bf16 mask=causal keys_left=65 softcap=1" }
d256_bf16_causal_softcap = { case = "attention dim=256 dtype=bf16 mask=causal softcap=1" }
d256_bf16_window_softcap = { case = "attention dim=256 dtype=bf16 mask=causal keys_left=65 softcap=1" }
d64_f16_full_softcap = { case = "attention dim=64 dtype=f16 mask=full softcap=1" }
d192_128_bf16_packed_softcap_sinks = { case = "attention dim=192 v_dim=128 dtype=bf16 mask=causal documents=4 softcap=1 sinks=1" }
d64_bf16_causal_alibi = { case = "attention dim=64 dtype=bf16 mask=causal alibi=1" }
d64_bf16_full_alibi = { case = "attention dim=64 dtype=bf16 mask=full alibi=1" }
d64_bf16_window_alibi_sinks = { case = "attention dim=64 dtype=bf16 mask=causal keys_left=65 sinks=1 alibi=1" }
d128_bf16_causal_alibi = { case = "attention dim=128 dtype=bf16 mask=causal alibi=1" }
d128_f16_full_alibi = { case = "attention dim=128 dtype=f16 mask=full alibi=1" }
d128_bf16_window_alibi = { case = "attention dim=128 dtype=bf16 mask=causal keys_left=65 alibi=1" }
d128_bf16_packed_alibi = { case = "attention dim=128 dtype=bf16 mask=causal documents=4 alibi=1" }
d128_bf16_packed_full_alibi = { case = "attention dim=128 dtype=bf16 documents=4 alibi=1" }
d192_128_bf16_causal_alibi = { case = "attention dim=192 v_dim=128 dtype=bf16 mask=causal alibi=1" }
d192_bf16_window_alibi = { case = "attention dim=192 dtype=bf16 mask=causal keys_left=65 alibi=1" }
d192_bf16_packed_alibi = { case = "attention dim=192 dtype=bf16 mask=causal documents=4 alibi=1" }
d256_bf16_causal_alibi = { case = "attention dim=256 dtype=bf16 mask=causal alibi=1" }
d256_bf16_packed_alibi_softcap = { case = "attention dim=256 dtype=bf16 mask=causal documents=4 softcap=1 alibi=1" }
d256_bf16_window_alibi_softcap = { case = "attention dim=256 dtype=bf16 mask=causal keys_left=65 softcap=1 alibi=1" }
*/
/* ridge-launch
# Columns that are multiplied, and panels of 64 of them in shared memory.
[[value]]
name = "depth"
expression = "max(round_up(dim, 32), 64)"
[[value]]
name = "width"
expression = "max(round_up(v_dim, 32), 64)"
[[value]]
name = "panels"
expression = "ceil_div(depth, 64)"
[[value]]
name = "v_panels"
expression = "ceil_div(width, 64)"
[[value]]
name = "consumers"
expression = "CONSUMERS > 0 ? CONSUMERS : max(depth, width) == 64 && softcap == 0 ? 3 : 2"
# O of more than 128 columns leaves no registers for Q, and Q of more than 192 no memory for a second tile of it.
[[value]]
name = "slots"
expression = "SLOTS > 0 ? SLOTS : panels <= 3 && v_panels <= 2 ? 2 : 1"
[[value]]
name = "packed"
expression = "documents > 0"
# Keys per step: what two stages of K and of V have room for, and registers, of which documents have fewer behind a
# softcap or beside slopes, as all calls have behind a softcap with slopes, and with slopes of up to 192 columns.
[[value]]
name = "block_n"
expression = "KEYS > 0 ? KEYS : max(panels, v_panels) <= 2 ? 128 : v_panels <= 2 && panels == 3 ? 96 : (max(panels, v_panels) == 3 ? 112 : 80) - ((packed && max(softcap, alibi)) || (alibi && (softcap || max(panels, v_panels) == 3)) ? 16 : 0)"
[[value]]
name = "query_in_registers"
expression = "QUERY_IN_REGISTERS == 2 ? consumers == 2 && slots > 1 : QUERY_IN_REGISTERS"
[[value]]
name = "rows"
expression = "64 * consumers"
# Tiles of Q or O, stages of K and of V, and the barriers.
[[value]]
name = "shared_bytes"
expression = "128 * (slots * max(panels, v_panels) * rows + RIDGE_STAGES * (panels + v_panels) * block_n) + max(64 * (RIDGE_STAGES + slots), 256)"
# Of a thread: O, scores, weights and Q.
[[value]]
name = "registers"
expression = "width / 2 + block_n / 2 + block_n / 4 + (query_in_registers ? depth / 4 : 0)"
# Every document may end with a tile of its own, as may the rows before the first and behind the last one.
[[value]]
name = "q_tiles"
expression = "packed && q_len > 0 ? floor_div(q_len, rows) + documents + 2 : ceil_div(q_len, rows)"
[[value]]
name = "heads_total"
expression = "batch * heads"
# Of K and V of a head.
[[value]]
name = "kv_bytes"
expression = "2 * k_len * (dim + v_dim)"
# Keys before and behind a query's place that it sees: more than any length where a window has no end.
[[value]]
name = "left"
expression = "keys_left == 0 ? 536870912 : min(keys_left - 1, 536870912)"
[[value]]
name = "right"
expression = "mask ? 0 : keys_right == 0 ? 536870912 : min(keys_right - 1, 536870912)"
[[value]]
name = "window"
expression = "max(keys_left, keys_right) > 0 || packed"

[[needs]]
expression = "dim % 8 == 0 && v_dim % 8 == 0"
reason = "the kernel has builds for heads of multiples of 8"
[[needs]]
expression = "k_len > 0"
reason = "there is nothing to multiply"
[[needs]]
expression = "max(q_len, k_len, batch * heads * (max(floor_div(q_len, 64), 1) + (packed ? documents + 2 : 0))) <= 1073741824"
reason = "queries, keys and tiles are counted in 32 bits"
[[needs]]
expression = "window == 0 || max(q_len, k_len) <= 268435456"
reason = "the ends of a window are counted in 32 bits"
[[needs]]
expression = "min(q_align, k_align, v_align, o_align) >= 16"
reason = "the copy engine needs rows of q, k, v and o that start on 16 bytes"
[[needs]]
expression = "shared_bytes <= 232448"
reason = "a block has 227 KiB of shared memory"
[[needs]]
expression = "registers <= (consumers == 3 ? 128 : window ? 196 : 208) && (window == 0 || block_n <= 128)"
reason = "beside more registers for O, scores, weights and Q the rest spills"
[[needs]]
expression = "softcap == 0 || consumers == 2"
reason = "beside a softcap there are fewer registers for O, scores and weights"
[[needs]]
expression = "max(softcap, alibi) == 0 || packed == 0 || slots > 1 || registers <= 176"
reason = "beside a softcap or slopes there are fewer registers for O, scores and weights of documents"
[[needs]]
expression = "alibi == 0 || slots > 1 || (softcap == 0 && max(panels, v_panels) == 4) || registers <= 176"
reason = "beside slopes there are fewer registers for O, scores and weights"
[[workspace]]
name = "tiles"
bytes = "packed ? 32 * (q_tiles + 1) : 0"
[[tensor_map]]
name = "map_q"
operand = "q"
sizes = ["dim", "q_len", "heads", "batch"]
strides = ["2 * q_stride1", "2 * q_stride2", "2 * q_stride0"]
box = [64, "rows", 1, 1]
[[tensor_map]]
name = "map_k"
operand = "k"
sizes = ["dim", "k_len", "kv_heads", "batch"]
strides = ["2 * k_stride1", "2 * k_stride2", "2 * k_stride0"]
box = [64, "block_n", 1, 1]
[[tensor_map]]
name = "map_v"
operand = "v"
sizes = ["v_dim", "k_len", "kv_heads", "batch"]
strides = ["2 * v_stride1", "2 * v_stride2", "2 * v_stride0"]
box = [64, "block_n", 1, 1]
[[tensor_map]]
name = "map_o"
operand = "o"
sizes = ["v_dim", "q_len", "heads", "batch"]
strides = ["2 * o_stride1", "2 * o_stride2", "2 * o_stride0"]
box = [64, "rows", 1, 1]
[[kernel]]
symbol = "ridge_attention_documents"
grid = [1]
block = [1024]
when = "packed && q_len > 0"
args = [
  { struct = [
    { operand = "q_offsets", when = "packed" }, { operand = "k_offsets", when = "packed" },
    { u32 = "documents" }, { u32 = "q_len" }, { u32 = "k_len" },
  ] },
  { workspace = "tiles" }, { u32 = "left" }, { u32 = "right" },
  # Documents side by side would read more than the L2 holds where a head's K and V are larger than it.
  { u32 = "2 * k_len * (dim + v_dim) <= 33554432" },
]
[[kernel]]
symbol = "ridge_attention"
grid = ["min(sm_count, q_tiles * heads_total)"]
block = ["(consumers + 1) * 128"]
shared = "shared_bytes"
args = [
  { tensor_map = "map_q" }, { tensor_map = "map_k" }, { tensor_map = "map_v" }, { tensor_map = "map_o" },
  { struct = [
    { operand = "log_sum_exp" }, { i64 = "log_sum_exp_stride0" }, { i64 = "log_sum_exp_stride1" },
    { u32 = "q_len" }, { u32 = "k_len" }, { u32 = "heads" }, { u32 = "heads_total" }, { u32 = "heads / kv_heads" },
    { u32 = "q_tiles" },
    # As many heads as have K and V in 16 MiB of L2. With a causal mask enough that the last tiles are short, too, and
    # all of them where blocks get few tiles each, which those of several sections would leave with unequal work, if four
    # multiprocessors and more read a head's keys side by side. Of heads of up to 16 tiles what all multiprocessors work
    # off in eight rounds, or in four or two where K and V of those would not share 32 MiB: whole rounds, since blocks
    # whose rounds begin in the middle of a section would always get the longer tiles.
    { u32 = "min(heads_total, mask == 0 ? max(floor_div(16777216, kv_bytes), 1) * heads / kv_heads : q_tiles * heads_total < 32 * sm_count && 4 * heads_total <= sm_count * heads / kv_heads ? heads_total : q_tiles <= 16 ? max(floor_div(sm_count * (8 * sm_count * kv_bytes * kv_heads <= 33554432 * q_tiles * heads ? 8 : (4 * sm_count) % max(q_tiles, 1) == 0 && (4 * sm_count * kv_bytes * kv_heads <= 33554432 * q_tiles * heads || (2 * sm_count) % max(q_tiles, 1) > 0) ? 4 : (2 * sm_count) % max(q_tiles, 1) == 0 ? 2 : 8), max(q_tiles, 1)), 1) : max(max(floor_div(33554432, kv_bytes), 1) * heads / kv_heads, floor_div(8 * sm_count, q_tiles)))" },
    { f32 = "1.4426950408889634 * scale" },
    { u32 = "left" }, { u32 = "right" },
    { workspace = "tiles" }, { operand = "o" }, { i64 = "o_stride1" }, { i64 = "o_stride2" },
    { operand = "sinks", when = "sinks" },
    # Caps so small that the first is no number of fp32, or so large that the second is none, have the largest.
    { f32 = "min(2.8853900817779268 * scale / cap, 3.4028234663852886e38)", when = "softcap" },
    { f32 = "min(1.4426950408889634 * cap, 3.4028234663852886e38)", when = "softcap" },
    { operand = "alibi_slopes", when = "alibi" },
  ] },
]
*/
// clang-format on

#define RIDGE_CODES 0
#define RIDGE_OUTPUT_TYPE RIDGE_TYPE
#include "forward.cuh"
