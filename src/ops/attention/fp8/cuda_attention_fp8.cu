// Attention, forward, of 8-bit codes with a scale per head, on Hopper's matrix units: O = softmax(Q K^T) V and the
// log-sum-exp of every row, e4m3 inputs, a 16-bit result.
//
// A first launch writes V transposed into the workspace, because 8-bit products have both operands contiguous along the
// sum; its keys lie in the order in which a thread holds weights (key_order.cuh), so that they go from one product to
// the next without an exchange. The second is the kernel of ../forward.cuh: persistent blocks, warpgroups that take
// turns, the next scores and the last product with V under the softmax. Weights are rounded to e4m3 after they were
// multiplied with up to 2^8; a product with V is added up for the 128 keys of a block by the matrix unit, which keeps
// about 14 bits, and then in fp32.
//
// Wins on sequences from about a thousand keys; the first launch is in the way of short ones. Refuses heads of v above
// 128, and rows that do not start on 16 bytes. Figures: docs/operators/attention_fp8.md.
//
// Entry points: `ridge_attention_turn_values`, `ridge_attention`, in this order on one stream.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "RIDGE_STAGES"
values = [2, 3, 4]
default = 3
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
[[tunable]]
name = "RIDGE_LAZY"
values = [0, 1, 2]
default = 0
category = "algorithm"
title = "a maximum is replaced by one that is larger by more than this power of two"
*/
/* ridge-kernel
op = "attention_fp8"
# At entry 65536 registers are shared by 384 threads; setmaxnreg then moves them to the consumers.
max_registers = 168
[define]
RIDGE_OUTPUT_TYPE = { value = "out", names = ["kBf16", "kF16"] }
RIDGE_HEAD_DIM = { value = "depth" }
RIDGE_VALUE_DIM = { value = "width" }
RIDGE_SLOTS = { value = "slots" }
RIDGE_CAUSAL = { value = "window ? 0 : mask" }
RIDGE_WINDOW = { value = "window" }
RIDGE_QUERY_IN_REGISTERS = { value = "query_in_registers" }
[configs]
default = { }
[variants]
d128_bf16_causal = { case = "attention_fp8 dim=128 out=bf16 mask=causal", every = true }
d128_bf16_full = { case = "attention_fp8 dim=128 out=bf16 mask=full" }
d128_f16_full = { case = "attention_fp8 dim=128 out=f16 mask=full" }
d128_bf16_window = { case = "attention_fp8 dim=128 out=bf16 mask=causal keys_left=65" }
d64_bf16_causal = { case = "attention_fp8 dim=64 out=bf16 mask=causal" }
d64_f16_window = { case = "attention_fp8 dim=64 out=f16 keys_left=65 keys_right=65" }
d96_bf16_full = { case = "attention_fp8 dim=96 out=bf16 mask=full" }
d192_128_bf16_causal = { case = "attention_fp8 dim=192 v_dim=128 out=bf16 mask=causal" }
d192_128_bf16_window = { case = "attention_fp8 dim=192 v_dim=128 out=bf16 mask=causal keys_left=65" }
d256_64_bf16_full = { case = "attention_fp8 dim=256 v_dim=64 out=bf16 mask=full" }
*/
/* ridge-launch
# Columns that are multiplied: 32 by an instruction.
[[value]]
name = "depth"
expression = "max(round_up(dim, 32), 64)"
[[value]]
name = "width"
expression = "max(round_up(v_dim, 32), 64)"
# Panels in shared memory: of 128 codes, and of 64 numbers of O.
[[value]]
name = "panels"
expression = "ceil_div(depth, 128)"
[[value]]
name = "o_panels"
expression = "ceil_div(width, 64)"
[[value]]
name = "slots"
expression = "SLOTS > 0 ? SLOTS : 2"
# Beside O, its part, scores and weights there are registers for Q of heads of 64 alone.
[[value]]
name = "query_in_registers"
expression = "QUERY_IN_REGISTERS == 2 ? width == 64 && depth <= 128 && slots > 1 : QUERY_IN_REGISTERS"
# Tiles of Q or O, stages of K and of V, and the barriers.
[[value]]
name = "shared_bytes"
expression = "128 * (slots * max(panels, o_panels) * 128 + RIDGE_STAGES * (panels * 128 + width)) + max(64 * (RIDGE_STAGES + slots), 256)"
# Of a thread: O, its part, scores, weights and Q.
[[value]]
name = "registers"
expression = "width + 80 + (query_in_registers ? depth / 8 : 0)"
[[value]]
name = "q_tiles"
expression = "ceil_div(q_len, 128)"
[[value]]
name = "k_tiles"
expression = "ceil_div(k_len, 128)"
[[value]]
name = "heads_total"
expression = "batch * heads"
# Of K and V of a head.
[[value]]
name = "kv_bytes"
expression = "k_len * (dim + v_dim)"
# Keys before and behind a query's place that it sees: more than any length where a window has no end.
[[value]]
name = "left"
expression = "keys_left == 0 ? 536870912 : min(keys_left - 1, 536870912)"
[[value]]
name = "right"
expression = "mask ? 0 : keys_right == 0 ? 536870912 : min(keys_right - 1, 536870912)"
[[value]]
name = "window"
expression = "max(keys_left, keys_right) > 0"

[[needs]]
expression = "dim % 16 == 0 && v_dim % 16 == 0 && v_dim <= 128"
reason = "the kernel has builds for heads of multiples of 16, of v up to 128"
[[needs]]
expression = "k_len > 0"
reason = "there is nothing to multiply"
[[needs]]
expression = "max(q_len, k_len, batch * heads * max(floor_div(q_len, 64), 1)) <= 1073741824 && batch * kv_heads <= 65535"
reason = "queries, keys and tiles are counted in 32 bits, heads of v in 16"
[[needs]]
expression = "window == 0 || max(q_len, k_len) <= 268435456"
reason = "the ends of a window are counted in 32 bits"
[[needs]]
expression = "min(q_align, k_align, v_align, o_align) >= 16"
reason = "rows of q, k, v and o must start on 16 bytes"
[[needs]]
expression = "shared_bytes <= 232448"
reason = "a block has 227 KiB of shared memory"
[[needs]]
expression = "registers <= 212"
reason = "beside more registers for O, scores, weights and Q the rest spills"
[[workspace]]
name = "turned_values"
bytes = "batch * kv_heads * v_dim * k_tiles * 128"
[[tensor_map]]
name = "map_q"
operand = "q"
sizes = ["dim", "q_len", "heads", "batch"]
strides = ["q_stride1", "q_stride2", "q_stride0"]
box = [128, 128, 1, 1]
[[tensor_map]]
name = "map_k"
operand = "k"
sizes = ["dim", "k_len", "kv_heads", "batch"]
strides = ["k_stride1", "k_stride2", "k_stride0"]
box = [128, 128, 1, 1]
[[tensor_map]]
name = "map_v"
workspace = "turned_values"
dtype = "e4m3fn"
sizes = ["128 * k_tiles", "v_dim", "kv_heads", "batch"]
strides = ["128 * k_tiles", "128 * k_tiles * v_dim", "128 * k_tiles * v_dim * kv_heads"]
box = [128, "width", 1, 1]
[[tensor_map]]
name = "map_o"
operand = "o"
sizes = ["v_dim", "q_len", "heads", "batch"]
strides = ["2 * o_stride1", "2 * o_stride2", "2 * o_stride0"]
box = [64, 128, 1, 1]
[[kernel]]
symbol = "ridge_attention_turn_values"
grid = ["k_tiles", "batch * kv_heads"]
block = [256]
args = [
  { operand = "v" }, { workspace = "turned_values" }, { i64 = "v_stride0" }, { i64 = "v_stride1" }, { i64 = "v_stride2" },
  { u32 = "k_len" }, { u32 = "kv_heads" }, { u32 = "v_dim" },
]
[[kernel]]
symbol = "ridge_attention"
grid = ["min(sm_count, q_tiles * heads_total)"]
block = [384]
overlap_previous = true
shared = "shared_bytes"
args = [
  { tensor_map = "map_q" }, { tensor_map = "map_k" }, { tensor_map = "map_v" }, { tensor_map = "map_o" },
  { struct = [
    { operand = "log_sum_exp" }, { i64 = "log_sum_exp_stride0" }, { i64 = "log_sum_exp_stride1" },
    { u32 = "q_len" }, { u32 = "k_len" }, { u32 = "heads" }, { u32 = "heads_total" }, { u32 = "heads / kv_heads" },
    { u32 = "q_tiles" },
    # As ../cuda_attention.cu has it.
    { u32 = "min(heads_total, mask == 0 ? max(floor_div(16777216, kv_bytes), 1) * heads / kv_heads : q_tiles * heads_total < 32 * sm_count && 4 * heads_total <= sm_count * heads / kv_heads ? heads_total : q_tiles <= 16 ? max(floor_div(sm_count * (8 * sm_count * kv_bytes * kv_heads <= 33554432 * q_tiles * heads ? 8 : (4 * sm_count) % max(q_tiles, 1) == 0 && (4 * sm_count * kv_bytes * kv_heads <= 33554432 * q_tiles * heads || (2 * sm_count) % max(q_tiles, 1) > 0) ? 4 : (2 * sm_count) % max(q_tiles, 1) == 0 ? 2 : 8), max(q_tiles, 1)), 1) : max(max(floor_div(33554432, kv_bytes), 1) * heads / kv_heads, floor_div(8 * sm_count, q_tiles)))" },
    { f32 = "1.4426950408889634 * scale" },
    { u32 = "left" }, { u32 = "right" },
    # Of packed documents, sinks, softcaps and slopes.
    { i64 = "0" }, { i64 = "0" }, { i64 = "0" }, { i64 = "0" }, { i64 = "0" }, { f32 = "0" }, { f32 = "0" }, { i64 = "0" },
    { operand = "q_scale" }, { operand = "k_scale" }, { operand = "v_scale" },
    { i64 = "q_scale_stride0" }, { i64 = "k_scale_stride0" }, { i64 = "v_scale_stride0" },
  ] },
]
*/
// clang-format on

#define RIDGE_CODES 1
#define RIDGE_TYPE kE4m3
#define RIDGE_OUTPUT_COLUMNS RIDGE_VALUE_DIM
#define RIDGE_CONSUMERS 2
#define RIDGE_BLOCK_N 128
#define RIDGE_PACKED 0
#define RIDGE_SINKS 0
#define RIDGE_SOFTCAP 0
#define RIDGE_ALIBI 0
#define RIDGE_PRODUCER_REGISTERS 24
#define RIDGE_CONSUMER_REGISTERS 240
#include "../forward.cuh"
#include "turned_values.cuh"

static_assert(ridge::cuda::kTurnedKeys == ridge::cuda::Config::kPanelColumns, "a block turns a panel of keys");
