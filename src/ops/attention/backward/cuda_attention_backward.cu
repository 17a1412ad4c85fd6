// Attention, backward, on Hopper's matrix units: dQ, dK and dV of O = softmax(Q K^T / sqrt(d)) V from dO, the rows'
// log-sum-exp and delta = rowsum(dO * O); 16-bit inputs, fp32 sums, grouped heads without copies.
//
// A block owns 128 keys of one head of K and V and walks over the queries of every query head of the group. Two
// consumer warpgroups of 64 keys keep dK and dV in registers; S^T and dP^T are computed transposed, so that P^T and
// dS^T feed dV and dK from registers, and only dS goes through shared memory, once, for dQ = dS K. The product for dQ
// runs one step behind, so the warpgroups never wait for each other's dS, and every softmax runs under a product of its
// own warpgroup. dQ leaves in the order of the accumulators, by a bulk add into fp32 memory; a kernel behind it sorts
// and converts.
//
// Wins from about a thousand tokens. Equal bits over runs with RIDGE_ORDERED, where the blocks that add to the same dQ
// take turns in the order of their keys; a block only waits for blocks that started before it. RIDGE_BLOCK_M queries
// are a step; with RIDGE_CAUSAL query i sees key j where j <= i + k_len - q_len, with RIDGE_WINDOW where j is at most
// `left` before and `right` behind i + k_len - q_len: a block then walks over the queries that see some of its keys.
// With RIDGE_PACKED the sequence is documents behind each other: a launch of one block cuts their keys into blocks and
// their queries into steps, none of which is of two documents; what leaves is stored row by row where a block ends
// behind its document.
//
// Of heads of fewer than RIDGE_HEAD_DIM columns (RIDGE_CLIPPED) the copy engine fills the columns that they lack with
// zeros and stores none of them; products take RIDGE_COLUMNS (64, 96, or all), but for dQ, which takes all.
//
// With RIDGE_SOFTCAP scores become tangents before they are masked, and P takes their slope with it to dS. With
// RIDGE_SINKS the launch before adds up what its rows have for the gradient of their head's sink, and the launch behind
// those sums, each in a fixed order. With RIDGE_ALIBI powers of weights have slope x distance off.
//
// Entry points: with RIDGE_PACKED `ridge_attention_backward_documents`, `ridge_attention_backward_prepare`,
// `ridge_attention_backward`, `ridge_attention_backward_finish`, in this order on one stream.

// clang-format off
/* ridge-kernel
op = "attention_backward"
# At entry 65536 registers are shared by 384 threads; setmaxnreg then moves them to the consumers.
max_registers = 168
[define]
RIDGE_TYPE = { value = "dtype", names = ["kBf16", "kF16"] }
RIDGE_HEAD_DIM = { value = "head_dim" }
RIDGE_CLIPPED = { value = "min(dim, v_dim) < head_dim" }
RIDGE_COLUMNS = { value = "columns" }
RIDGE_BLOCK_M = { value = "block_m" }
RIDGE_CAUSAL = { value = "window ? 0 : mask" }
RIDGE_WINDOW = { value = "window" }
RIDGE_PACKED = { value = "packed" }
RIDGE_ORDERED = { value = "deterministic" }
RIDGE_SINKS = { value = "sinks" }
RIDGE_SOFTCAP = { value = "softcap" }
# 1: no query sees a key behind its place.
RIDGE_ALIBI = { value = "alibi == 0 ? 0 : mask ? 1 : 2" }
[configs]
default = { }
[variants]
d128_bf16_causal = { case = "attention_backward dim=128 dtype=bf16 mask=causal" }
d128_bf16_full = { case = "attention_backward dim=128 dtype=bf16 mask=full" }
d128_bf16_causal_ordered = { case = "attention_backward dim=128 dtype=bf16 mask=causal deterministic=1" }
d128_bf16_full_ordered = { case = "attention_backward dim=128 dtype=bf16 mask=full deterministic=1" }
d128_f16_causal = { case = "attention_backward dim=128 dtype=f16 mask=causal" }
d128_f16_full = { case = "attention_backward dim=128 dtype=f16 mask=full" }
d64_bf16_causal = { case = "attention_backward dim=64 dtype=bf16 mask=causal" }
d128_bf16_window = { case = "attention_backward dim=128 dtype=bf16 mask=causal keys_left=65" }
d128_bf16_window_ordered = { case = "attention_backward dim=128 dtype=bf16 mask=causal keys_left=65 deterministic=1" }
d128_f16_window = { case = "attention_backward dim=128 dtype=f16 keys_left=65 keys_right=65" }
d64_bf16_window = { case = "attention_backward dim=64 dtype=bf16 mask=causal keys_left=65" }
d128_bf16_packed = { case = "attention_backward dim=128 dtype=bf16 mask=causal documents=4" }
d128_bf16_packed_ordered = { case = "attention_backward dim=128 dtype=bf16 mask=causal documents=4 deterministic=1" }
d128_f16_packed = { case = "attention_backward dim=128 dtype=f16 documents=4" }
d64_bf16_packed = { case = "attention_backward dim=64 dtype=bf16 mask=causal documents=4" }
d96_bf16_causal = { case = "attention_backward dim=96 dtype=bf16 mask=causal" }
d96_bf16_full_ordered = { case = "attention_backward dim=96 dtype=bf16 mask=full deterministic=1" }
d96_bf16_window = { case = "attention_backward dim=96 dtype=bf16 mask=causal keys_left=65" }
d96_bf16_packed_ordered = { case = "attention_backward dim=96 dtype=bf16 mask=causal documents=4 deterministic=1" }
d96_f16_packed = { case = "attention_backward dim=96 dtype=f16 documents=4" }
d64_v128_bf16_causal = { case = "attention_backward dim=64 v_dim=128 dtype=bf16 mask=causal" }
d40_bf16_causal = { case = "attention_backward dim=40 dtype=bf16 mask=causal" }
d40_bf16_window = { case = "attention_backward dim=40 dtype=bf16 mask=causal keys_left=65" }
d40_bf16_packed = { case = "attention_backward dim=40 dtype=bf16 mask=causal documents=4" }
d64_bf16_causal_sinks = { case = "attention_backward dim=64 dtype=bf16 mask=causal sinks=1" }
d64_bf16_window_sinks_ordered = { case = "attention_backward dim=64 dtype=bf16 mask=causal keys_left=65 deterministic=1 sinks=1" }
d64_bf16_packed_sinks = { case = "attention_backward dim=64 dtype=bf16 mask=causal keys_left=65 documents=4 sinks=1" }
d128_f16_full_sinks = { case = "attention_backward dim=128 dtype=f16 mask=full sinks=1" }
d128_bf16_causal_softcap = { case = "attention_backward dim=128 dtype=bf16 mask=causal softcap=1" }
d128_bf16_window_softcap = { case = "attention_backward dim=128 dtype=bf16 mask=causal keys_left=65 softcap=1" }
d128_bf16_packed_softcap_ordered = { case = "attention_backward dim=128 dtype=bf16 mask=causal documents=4 deterministic=1 softcap=1" }
d96_f16_full_softcap_sinks = { case = "attention_backward dim=96 dtype=f16 mask=full softcap=1 sinks=1" }
d64_bf16_causal_softcap = { case = "attention_backward dim=64 dtype=bf16 mask=causal softcap=1" }
d64_bf16_causal_alibi = { case = "attention_backward dim=64 dtype=bf16 mask=causal alibi=1" }
d64_bf16_full_alibi_ordered = { case = "attention_backward dim=64 dtype=bf16 mask=full deterministic=1 alibi=1" }
d64_bf16_packed_alibi_sinks = { case = "attention_backward dim=64 dtype=bf16 mask=causal documents=4 sinks=1 alibi=1" }
d96_bf16_window_alibi = { case = "attention_backward dim=96 dtype=bf16 mask=causal keys_left=65 alibi=1" }
d128_bf16_causal_alibi = { case = "attention_backward dim=128 dtype=bf16 mask=causal alibi=1" }
d128_bf16_causal_alibi_ordered = { case = "attention_backward dim=128 dtype=bf16 mask=causal deterministic=1 alibi=1" }
d128_bf16_full_alibi = { case = "attention_backward dim=128 dtype=bf16 mask=full alibi=1" }
d128_f16_packed_alibi = { case = "attention_backward dim=128 dtype=f16 documents=4 alibi=1" }
d128_bf16_window_alibi_softcap = { case = "attention_backward dim=128 dtype=bf16 mask=causal keys_left=65 softcap=1 alibi=1" }
*/
/* ridge-launch
# The head that a build is made for; what a smaller one lacks is read as zeros and not written. Steps of 128 queries
# have no registers for a softcap.
[[value]]
name = "head_dim"
expression = "max(dim, v_dim) <= 64 && softcap == 0 ? 64 : 128"
# Those of it that products take, but for dQ.
[[value]]
name = "columns"
expression = "max(dim, v_dim) <= 64 ? 64 : max(dim, v_dim) <= 96 ? 96 : 128"
[[value]]
name = "block_m"
expression = "head_dim == 64 ? 128 : 64"
[[value]]
name = "packed"
expression = "documents > 0"
# Every document may end with a block of its own, as may the rows before the first and behind the last one.
[[value]]
name = "q_blocks"
expression = "packed ? floor_div(q_len, block_m) + documents + 2 : ceil_div(q_len, block_m)"
[[value]]
name = "tiles"
expression = "packed ? floor_div(k_len, 128) + documents + 2 : ceil_div(k_len, 128)"
[[value]]
name = "heads_total"
expression = "batch * heads"
[[value]]
name = "pairs"
expression = "heads_total * q_blocks"
# Heads of K and V that are worked on at one time: those of which one query head each has its Q, dO and sums of dQ in
# 32 MiB of L2, with a causal mask all of them. Where those are few, two blocks for every multiprocessor: where the walk
# of the long one ends that of the short one begins; and with turns enough that few blocks of a head wait for each other.
[[value]]
name = "cached_heads"
expression = "floor_div(33554432 * (mask ? kv_heads : 1), 8 * head_dim * q_len * (mask ? heads : 1))"
[[value]]
name = "window"
expression = "max(keys_left, keys_right) > 0 || packed"

[[needs]]
expression = "dim % 8 == 0 && v_dim % 8 == 0 && max(dim, v_dim) <= 128"
reason = "the kernel takes heads of multiples of 8 up to 128"
[[needs]]
expression = "min(q_len, k_len) > 0"
reason = "there is nothing to multiply"
[[needs]]
expression = "heads_total <= 65535"
reason = "a grid has at most 65535 heads of all sequences"
[[needs]]
expression = "max(q_len, k_len, pairs, tiles * batch * kv_heads) <= 1073741824"
reason = "queries, keys and tiles are counted in 32 bits"
[[needs]]
expression = "window == 0 || max(q_len, k_len) <= 268435456"
reason = "the ends of a window are counted in 32 bits"
[[needs]]
expression = "sinks == 0 || heads_total > 0"
reason = "the gradients of sinks are written by blocks of queries, and there is none"
[[needs]]
expression = "min(q_align, k_align, v_align, o_align, d_o_align, d_q_align, d_k_align, d_v_align) >= 16"
reason = "the copy engine needs rows that start on 16 bytes"
[[workspace]]
name = "scaled_log_sum"
bytes = "4 * pairs * block_m"
[[workspace]]
name = "delta"
bytes = "4 * pairs * block_m"
[[workspace]]
name = "grad_query"
bytes = "32768 * pairs"
[[workspace]]
name = "turns"
bytes = "deterministic ? 8 * pairs : 0"
[[workspace]]
name = "key_tiles"
bytes = "packed ? 32 * (tiles + 1) : 0"
[[workspace]]
name = "query_blocks"
bytes = "packed ? 8 * (q_blocks + 1) : 0"
[[workspace]]
name = "sink_sums"
bytes = "sinks ? 4 * pairs : 0"
[[tensor_map]]
name = "map_q"
operand = "q"
sizes = ["dim", "q_len", "heads", "batch"]
strides = ["2 * q_stride1", "2 * q_stride2", "2 * q_stride0"]
box = [64, 64, 1, 1]
[[tensor_map]]
name = "map_k"
operand = "k"
sizes = ["dim", "k_len", "kv_heads", "batch"]
strides = ["2 * k_stride1", "2 * k_stride2", "2 * k_stride0"]
box = [64, 64, 1, 1]
[[tensor_map]]
name = "map_v"
operand = "v"
sizes = ["v_dim", "k_len", "kv_heads", "batch"]
strides = ["2 * v_stride1", "2 * v_stride2", "2 * v_stride0"]
box = [64, 64, 1, 1]
[[tensor_map]]
name = "map_d_o"
operand = "d_o"
sizes = ["v_dim", "q_len", "heads", "batch"]
strides = ["2 * d_o_stride1", "2 * d_o_stride2", "2 * d_o_stride0"]
box = [64, 64, 1, 1]
[[tensor_map]]
name = "map_d_k"
operand = "d_k"
sizes = ["dim", "k_len", "kv_heads", "batch"]
strides = ["2 * d_k_stride1", "2 * d_k_stride2", "2 * d_k_stride0"]
box = [64, 64, 1, 1]
[[tensor_map]]
name = "map_d_v"
operand = "d_v"
sizes = ["v_dim", "k_len", "kv_heads", "batch"]
strides = ["2 * d_v_stride1", "2 * d_v_stride2", "2 * d_v_stride0"]
box = [64, 64, 1, 1]
[[struct]]
name = "view"
members = [
  { operand = "o" }, { i64 = "o_stride0" }, { i64 = "o_stride2" }, { i64 = "o_stride1" },
  { operand = "d_o" }, { i64 = "d_o_stride0" }, { i64 = "d_o_stride2" }, { i64 = "d_o_stride1" },
  { operand = "d_q" }, { i64 = "d_q_stride0" }, { i64 = "d_q_stride2" }, { i64 = "d_q_stride1" },
  { operand = "log_sum_exp" }, { i64 = "log_sum_exp_stride0" }, { i64 = "log_sum_exp_stride1" },
  { workspace = "scaled_log_sum" }, { workspace = "delta" }, { workspace = "grad_query" }, { workspace = "turns" },
  { u32 = "q_len" }, { u32 = "k_len" }, { u32 = "heads" }, { u32 = "kv_heads" }, { u32 = "batch" },
  { u32 = "heads / kv_heads" }, { u32 = "q_blocks" }, { u32 = "tiles" },
  { u32 = "min(batch * kv_heads, max(mask && cached_heads < 16 ? floor_div(2 * sm_count, tiles) : cached_heads, deterministic && cached_heads < 16 ? floor_div(8 * sm_count * kv_heads, q_blocks * heads) : 0, 1))" },
  { f32 = "scale" }, { f32 = "1.4426950408889634 * scale" },
  # More than any length where a window has no end.
  { u32 = "keys_left == 0 ? 536870912 : min(keys_left - 1, 536870912)" },
  { u32 = "mask ? 0 : keys_right == 0 ? 536870912 : min(keys_right - 1, 536870912)" },
  { operand = "d_k" }, { i64 = "d_k_stride0" }, { i64 = "d_k_stride2" }, { i64 = "d_k_stride1" },
  { operand = "d_v" }, { i64 = "d_v_stride0" }, { i64 = "d_v_stride2" }, { i64 = "d_v_stride1" },
  { workspace = "key_tiles" }, { workspace = "query_blocks" },
  { u32 = "dim" }, { u32 = "v_dim" },
  { operand = "sinks", when = "sinks" }, { operand = "d_sinks", when = "sinks" }, { workspace = "sink_sums" },
  # Caps so small that the first is no number of fp32, or so large that the second is none, have the largest.
  { f32 = "min(2.8853900817779268 * scale / cap, 3.4028234663852886e38)", when = "softcap" },
  { f32 = "min(1.4426950408889634 * cap, 3.4028234663852886e38)", when = "softcap" },
  { operand = "alibi_slopes", when = "alibi" },
]
[[kernel]]
symbol = "ridge_attention_backward_documents"
grid = [1]
block = [1024]
when = "packed"
args = [
  { struct = [
    { operand = "q_offsets", when = "packed" }, { operand = "k_offsets", when = "packed" },
    { u32 = "documents" }, { u32 = "q_len" }, { u32 = "k_len" },
  ] },
  { struct = "view" },
]
[[kernel]]
symbol = "ridge_attention_backward_prepare"
grid = ["q_blocks", "heads_total"]
block = [256]
args = [{ struct = "view" }]
[[kernel]]
symbol = "ridge_attention_backward"
grid = ["tiles * batch * kv_heads"]
block = [384]
# K and V, two stages of Q, of dO and of dS, two parts of dQ, the rows' factors, and the barriers.
shared = "head_dim * (512 + 8 * block_m) + 528 * block_m + 33024"
args = [
  { tensor_map = "map_q" }, { tensor_map = "map_k" }, { tensor_map = "map_v" }, { tensor_map = "map_d_o" },
  { tensor_map = "map_d_k" }, { tensor_map = "map_d_v" }, { struct = "view" },
]
[[kernel]]
symbol = "ridge_attention_backward_finish"
grid = ["q_blocks", "heads_total"]
block = [256]
args = [{ struct = "view" }]
*/
// clang-format on

#include "../../../device/cuda/kernel/memory_add.cuh"
#include "../../../device/cuda/kernel/pipeline.cuh"
#include "../../../device/cuda/kernel/tma.cuh"
#include "../../../device/cuda/kernel/wgmma.cuh"
#include "../documents.cuh"
#include "../softcap.cuh"
#include "../spans.cuh"

#ifndef RIDGE_PRODUCER_REGISTERS
#define RIDGE_PRODUCER_REGISTERS 24
#endif
#ifndef RIDGE_CONSUMER_REGISTERS
#define RIDGE_CONSUMER_REGISTERS 240
#endif

namespace ridge::cuda {
namespace {

struct Config {
  static constexpr MatrixType kType = MatrixType::RIDGE_TYPE;
  static constexpr u32 kHeadDim = RIDGE_HEAD_DIM;
  static constexpr u32 kBlockM = RIDGE_BLOCK_M;
  static constexpr bool kCausal = RIDGE_CAUSAL != 0;
  static constexpr bool kWindow = RIDGE_WINDOW != 0;
  static constexpr bool kPacked = RIDGE_PACKED != 0;
  static constexpr bool kOrdered = RIDGE_ORDERED != 0;
  static constexpr bool kSinks = RIDGE_SINKS != 0;
  static constexpr bool kSoftcap = RIDGE_SOFTCAP != 0;
  static constexpr bool kAlibi = RIDGE_ALIBI != 0;
  static constexpr bool kBothSides = RIDGE_ALIBI == 2;  // queries see keys before and behind their places
  static constexpr bool kClipped = RIDGE_CLIPPED != 0;  // heads are smaller than kHeadDim
  static constexpr u32 kColumns = RIDGE_COLUMNS;        // of kHeadDim that may be other than zero
  // Where a step has 64 queries, dV is issued before dS is computed and runs under it; for 128 the registers do not do.
  static constexpr bool kEarlyValues = RIDGE_BLOCK_M == 64;
  static constexpr u32 kStages = 2;  // of Q, of dO, and of dS, so that a step's number says where everything lies

  static constexpr u32 kConsumers = 2;
  static constexpr u32 kConsumerWarps = 4 * kConsumers;
  static constexpr u32 kBlockN = 64 * kConsumers;
  static constexpr u32 kThreads = (kConsumers + 1) * kWarpgroupThreads;
  static constexpr u32 kPanels = kHeadDim / 64;  // a tile is panels of 64 columns, one swizzle row wide
  static constexpr u32 kQueryPanels = kBlockM / 64;
  static constexpr u32 kKeyPanelBytes = kBlockN * kRowBytes;
  static constexpr u32 kKeyBytes = kPanels * kKeyPanelBytes;
  static constexpr u32 kQueryPanelBytes = kBlockM * kRowBytes;
  static constexpr u32 kQueryBytes = kPanels * kQueryPanelBytes;
  static constexpr u32 kRowFactorBytes = kBlockM * 4;  // log-sum-exp or delta of a block of queries
  static constexpr u32 kScoreBytes = kQueryPanels * kKeyPanelBytes;
  // A warpgroup computes a quarter of 128 x 128, or half of 64 x 128, of dQ: always 64 x 64.
  static constexpr u32 kPartFloats = 64 * 64;
  static constexpr u32 kPartBytes = kPartFloats * 4;

  static constexpr u32 kParts = 2;  // of the sums of dQ of a block of queries
  static constexpr u32 kTurns = 2;  // at these sums
  static constexpr u32 kValueDim = kHeadDim;

  static_assert(kHeadDim * kBlockM == 128 * 64, "dQ of a block of queries is two parts of 64 x 64");
  static_assert(kWindow || !kPacked, "documents have the masks of a window");
  static_assert(kEarlyValues || !kSoftcap, "P is rounded before it takes the slope of the softcap");
};

struct SharedLayout {
  static constexpr u32 kKeys = 0;
  static constexpr u32 kValues = kKeys + Config::kKeyBytes;
  static constexpr u32 kQueries = kValues + Config::kKeyBytes;
  static constexpr u32 kGrads = kQueries + Config::kStages * Config::kQueryBytes;
  static constexpr u32 kScores = kGrads + Config::kStages * Config::kQueryBytes;
  static constexpr u32 kParts = kScores + Config::kStages * Config::kScoreBytes;
  static constexpr u32 kLogSums = kParts + Config::kConsumers * Config::kPartBytes;
  static constexpr u32 kDeltas = kLogSums + Config::kStages * Config::kRowFactorBytes;
  static constexpr u32 kQueryRing = kDeltas + Config::kStages * Config::kRowFactorBytes;
  static constexpr u32 kGradRing = kQueryRing + Ring<Config::kStages>::kBytes;
  static constexpr u32 kScoreRing = kGradRing + Ring<Config::kStages>::kBytes;
  static constexpr u32 kPartRings = kScoreRing + Ring<Config::kStages>::kBytes;  // one of one stage per consumer
  static constexpr u32 kKeysFull = kPartRings + Config::kConsumers * Ring<1>::kBytes;
  static constexpr u32 kValuesFull = kKeysFull + kBarrierBytes;
  static constexpr u32 kBytes = kValuesFull + kBarrierBytes;
  static_assert(kBytes <= 232448, "more shared memory than a block can have");
};

inline constexpr u32 kConsumersBarrier = 1;  // all consumers
inline constexpr u32 kWarpgroupBarrier = 2;  // and 3: one warpgroup

}  // namespace
}  // namespace ridge::cuda

#include "blocks.cuh"

namespace ridge::cuda {
namespace {

// ---- Producer: one thread fills the rings
// -----------------------------------------------------------------------------

struct Producer {
  const TensorMap& map_q;
  const TensorMap& map_k;
  const TensorMap& map_v;
  const TensorMap& map_do;
  const AttentionBackwardView& view;
  u32 base;

  __device__ __forceinline__ void load_keys(u32 offset, const TensorMap& map, u32 full, const Walk& walk) const {
    using C = Config;
    barrier_arrive_expect_bytes(base + full, C::kKeyBytes);
#pragma unroll
    for (u32 panel = 0; panel < C::kPanels; ++panel) {
#pragma unroll
      for (u32 half = 0; half < C::kConsumers; ++half) {
        load_box(base + offset + panel * C::kKeyPanelBytes + half * 64 * kRowBytes, map, base + full,
                 {static_cast<i32>(panel * 64), static_cast<i32>(walk.key_row() + half * 64),
                  static_cast<i32>(walk.kv_head), static_cast<i32>(walk.batch)});
      }
    }
  }

  // A block of Q with its log-sum-exp, or of dO with its delta.
  __device__ __forceinline__ void load_queries(const RingPosition<Config::kStages>& position, u32 ring_offset,
                                               u32 tiles_offset, u32 factors_offset, const TensorMap& map,
                                               const float* factors, const Walk& walk) const {
    using C = Config;
    const Ring<C::kStages> ring{base + ring_offset};
    const u32 full = ring.full(position.stage);
    barrier_wait(ring.empty(position.stage), position.parity ^ 1u);
    barrier_arrive_expect_bytes(full, C::kQueryBytes + C::kRowFactorBytes);
#pragma unroll
    for (u32 panel = 0; panel < C::kPanels; ++panel) {
#pragma unroll
      for (u32 part = 0; part < C::kQueryPanels; ++part) {
        load_box(
            base + tiles_offset + position.stage * C::kQueryBytes + panel * C::kQueryPanelBytes + part * 64 * kRowBytes,
            map, full,
            {static_cast<i32>(panel * 64), static_cast<i32>(walk.query_row() + part * 64),
             static_cast<i32>(walk.flat_head - walk.batch * view.heads), static_cast<i32>(walk.batch)});
      }
    }
    load_bytes(base + factors_offset + position.stage * C::kRowFactorBytes,
               factors + (static_cast<i64>(walk.flat_head) * view.q_blocks + walk.query_block()) * C::kBlockM,
               C::kRowFactorBytes, full);
  }

  __device__ __forceinline__ void run() const {
    Walk walk(view);
    load_keys(SharedLayout::kKeys, map_k, SharedLayout::kKeysFull, walk);
    RingPosition<Config::kStages> position;
    for (u32 step = 0; step < walk.steps; ++step) {
      load_queries(position, SharedLayout::kQueryRing, SharedLayout::kQueries, SharedLayout::kLogSums, map_q,
                   view.scaled_log_sum, walk);
      if (step == 0) load_keys(SharedLayout::kValues, map_v, SharedLayout::kValuesFull, walk);
      load_queries(position, SharedLayout::kGradRing, SharedLayout::kGrads, SharedLayout::kDeltas, map_do, view.delta,
                   walk);
      position.advance();
      walk.advance(view);
    }
    if (walk.steps == 0) load_keys(SharedLayout::kValues, map_v, SharedLayout::kValuesFull, walk);
  }
};

// ---- Adding warp: one thread per consumer warpgroup sends its parts of dQ away
// -----------------------------------------------------------------------------

__device__ __forceinline__ void add_parts(const AttentionBackwardView& view, u32 base, u32 warpgroup) {
  using C = Config;
  const Ring<1> ring{base + SharedLayout::kPartRings + warpgroup * Ring<1>::kBytes};
  const u32 source = base + SharedLayout::kParts + warpgroup * C::kPartBytes;
  Walk walk(view);
  for (u32 step = 0; step < walk.steps; ++step) {
    const i64 part = (static_cast<i64>(walk.flat_head) * view.q_blocks + walk.query_block()) * 2 + warpgroup;
    const u32 turn = walk.turn(view);
    walk.advance(view);
    if constexpr (C::kOrdered) await_turn(view.turns + part, turn);
    barrier_wait(ring.full(0), step & 1u);
    add_bytes_f32(view.grad_query + part * C::kPartFloats, source, C::kPartBytes);
    commit_stores();
    wait_stores_read<0>();
    barrier_arrive(ring.empty(0));
    if constexpr (C::kOrdered) {
      wait_stores_done();
      pass_turn_on(view.turns + part);
    }
  }
  wait_stores_done();
}

// ---- Consumers
// --------------------------------------------------------------------------------------------------------

struct Consumer {
  using C = Config;
  using ScoreMma = Wgmma<C::kBlockM, C::kType, C::kType, Major::kK, Major::kK>;      // S^T = K Q^T, dP^T = V dO^T
  using KeyGradMma = Wgmma<C::kColumns, C::kType, C::kType, Major::kK, Major::kMn>;  // dV += P^T dO, dK += dS^T Q
  using QueryGradMma = Wgmma<64, C::kType, C::kType, Major::kMn, Major::kMn>;        // dQ = dS K
  static constexpr int kScores = C::kBlockM / 2;
  static constexpr int kGrads = C::kColumns / 2;
  static constexpr int kChunks = C::kBlockM / 16;
  static constexpr int kFactors = 4;  // chunks whose factors are in registers

  const AttentionBackwardView& view;
  u32 base, warpgroup, warp_in_group, lane;
  u32 step = 0;

  float s[kScores];  // S^T, then P^T in fp32
  float dp[kScores];
  float dk[kGrads];
  float dv[kGrads];
  float dq[32];
  float factors[kFactors][4];
  Distances distances;
  u32 p[kChunks][4];
  u32 ds[kChunks][4];

  // Keys (or values) of this warpgroup times a block of queries (or of dO), both along the head's dimension.
  __device__ __forceinline__ void issue_scores(float (&d)[kScores], u32 keys_offset, u32 queries) const {
    const u64 k = matrix_descriptor<Major::kK>(base + keys_offset + warpgroup * 64 * kRowBytes, 0);
    const u64 q = matrix_descriptor<Major::kK>(queries, 0);
    keep_in_registers(d);
    wgmma_fence();
#pragma unroll
    for (u32 panel = 0; panel < C::kPanels; ++panel) {
#pragma unroll
      for (u32 step = 0; step < kRowBytes / kWgmmaStepBytes; ++step) {
        if (panel * 64 + step * 16 >= C::kColumns) continue;
        ScoreMma::mma(d, k + panel * (C::kKeyPanelBytes >> 4) + step * kDescriptorStep<Major::kK>,
                      q + panel * (C::kQueryPanelBytes >> 4) + step * kDescriptorStep<Major::kK>,
                      panel != 0 || step != 0);
      }
    }
    wgmma_commit();
  }

  // dV += P^T dO or dK += dS^T Q.
  __device__ __forceinline__ void issue_key_grad(float (&d)[kGrads], u32 (&a)[kChunks][4], u32 queries) const {
    const u64 b = matrix_descriptor<Major::kMn>(queries, C::kQueryPanelBytes);
    keep_in_registers(d);
    wgmma_fence();
#pragma unroll
    for (u32 chunk = 0; chunk < kChunks; ++chunk) {
      KeyGradMma::mma_register_a(d, a[chunk], b + chunk * kDescriptorStep<Major::kMn>, 1u);
    }
    wgmma_commit();
  }

  // This warpgroup's 64 x 64 of dQ = dS K, over all keys of the block: with one panel of queries its own panel of the
  // head's dimension, with two its own queries.
  __device__ __forceinline__ void issue_query_grad(u32 of) {
    constexpr bool kSplitQueries = C::kQueryPanels == 2;
    const u64 a = matrix_descriptor<Major::kMn>(
        base + SharedLayout::kScores + stage(of) * C::kScoreBytes + (kSplitQueries ? warpgroup * C::kKeyPanelBytes : 0),
        C::kKeyPanelBytes);
    const u64 b = matrix_descriptor<Major::kMn>(
        base + SharedLayout::kKeys + (kSplitQueries ? 0 : warpgroup * C::kKeyPanelBytes), C::kKeyPanelBytes);
    keep_in_registers(dq);
    wgmma_fence();
#pragma unroll
    for (u32 chunk = 0; chunk < C::kBlockN / 16; ++chunk) {
      QueryGradMma::mma(dq, a + chunk * kDescriptorStep<Major::kMn>, b + chunk * kDescriptorStep<Major::kMn>,
                        chunk != 0);
    }
    wgmma_commit();
  }

  // Where things of step `of` lie, and the parity of the barriers of its stage.
  static __device__ __forceinline__ u32 stage(u32 of) { return of % C::kStages; }
  static __device__ __forceinline__ u32 parity(u32 of) { return of / C::kStages % 2; }
  __device__ __forceinline__ u32 queries(u32 of) const {
    return base + SharedLayout::kQueries + stage(of) * C::kQueryBytes;
  }
  __device__ __forceinline__ u32 grads(u32 of) const {
    return base + SharedLayout::kGrads + stage(of) * C::kQueryBytes;
  }
  __device__ __forceinline__ Ring<C::kStages> query_ring() const { return {base + SharedLayout::kQueryRing}; }
  __device__ __forceinline__ Ring<C::kStages> grad_ring() const { return {base + SharedLayout::kGradRing}; }
  __device__ __forceinline__ Ring<C::kStages> score_ring() const { return {base + SharedLayout::kScoreRing}; }

  // The first of the factors of this thread's columns. Loads, and waits for barriers, stand in front of products:
  // behind them they would wait until the matrix unit has taken those.
  template <int kFrom, int kTo>
  __device__ __forceinline__ void load_factors(u32 offset) {
    const u32 address = base + offset + stage(step) * C::kRowFactorBytes + (lane % 4) * 16;
#pragma unroll
    for (int chunk = kFrom; chunk < kTo; ++chunk) load_shared_v4(address + chunk * 64, factors[chunk % kFactors]);
  }

  // P^T = exp(S^T - log-sum-exp), in place.
  __device__ __forceinline__ void weights() {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (kChunks > kFactors && chunk == kFactors) load_factors<kFactors, kChunks>(SharedLayout::kLogSums);
      if constexpr (C::kSoftcap) {
        weigh_chunk(s, chunk, factors[chunk % kFactors], view, distances, p[chunk]);
      } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          float& score = s[8 * chunk + i];
          const float log_sum = factors[chunk % kFactors][i / 4 * 2 + i % 2];
          score = exp2_approx(distances.power(score, view.scale_log2, log_sum, 8 * chunk + i));
        }
        if constexpr (C::kEarlyValues) pack_weights(chunk);
      }
    }
  }

  __device__ __forceinline__ void pack_weights(int chunk) {
#pragma unroll
    for (int i = 0; i < 4; ++i) p[chunk][i] = pack(s[8 * chunk + 2 * i], s[8 * chunk + 2 * i + 1]);
  }

  // dS^T = P^T (dP^T - delta), rounded for the products.
  __device__ __forceinline__ void score_grads() {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (kChunks > kFactors && chunk == kFactors) load_factors<kFactors, kChunks>(SharedLayout::kDeltas);
      const float(&deltas)[4] = factors[chunk % kFactors];
      if constexpr (!C::kEarlyValues) pack_weights(chunk);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int low = 8 * chunk + 2 * i;
        ds[chunk][i] = pack(s[low] * (dp[low] - deltas[i / 2 * 2]), s[low + 1] * (dp[low + 1] - deltas[i / 2 * 2 + 1]));
      }
    }
  }

  // Waits for a place for dS. It stands between the exponentials and the wait for dP, because the branch in it keeps
  // the compiler from moving them behind that wait, where they would no longer run under the product.
  __device__ __forceinline__ void await_score_stage() {
    keep_in_registers(s);
    barrier_wait(score_ring().empty(stage(step)), parity(step) ^ 1u);
  }

  // dS^T into shared memory, for dQ: a row per key, as it is.
  __device__ __forceinline__ void store_score_grads() {
    const u32 tile =
        base + SharedLayout::kScores + stage(step) * C::kScoreBytes + (warpgroup * 64 + warp_in_group * 16) * kRowBytes;
#pragma unroll
    for (u32 chunk = 0; chunk < kChunks; ++chunk) {
      store_matrix_x4(tile + chunk / 4 * C::kKeyPanelBytes + swizzled_chunk(lane & 15u, 2 * (chunk % 4) + (lane >> 4)),
                      ds[chunk][0], ds[chunk][1], ds[chunk][2], ds[chunk][3]);
    }
    fence_proxy_async_shared();
    __syncwarp();
    release(score_ring().full(stage(step)));
  }

  // The finished part of dQ of step `of` to the warp that adds it.
  __device__ __forceinline__ void send_query_grad(u32 of) const {
    const Ring<1> ring{base + SharedLayout::kPartRings + warpgroup * Ring<1>::kBytes};
    barrier_wait(ring.empty(0), (of + 1) % 2);
    const u32 thread = warp_in_group * kWarpThreads + lane;
    const u32 part = base + SharedLayout::kParts + warpgroup * C::kPartBytes + thread * 16;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
      store_shared_v4(part + i * 2048, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    }
    fence_proxy_async_shared();
    __syncwarp();
    release(ring.full(0));
  }

  __device__ __forceinline__ void release(u32 barrier) const {
    if (lane == 0) barrier_arrive(barrier);
  }

  // dV and dK of every step, and dQ of the step before it. At the end of a step nothing is in flight: the compiler
  // follows accumulators through a step, not from one to the next.
  __device__ __forceinline__ void walk_queries(Walk& walk) {
    for (; step < walk.steps; ++step) {
      barrier_wait(query_ring().full(stage(step)), parity(step));
      barrier_wait(grad_ring().full(stage(step)), parity(step));
      load_factors<0, kFactors>(SharedLayout::kLogSums);
      distances.load(view, walk);
      issue_scores(s, SharedLayout::kKeys, queries(step));
      issue_scores(dp, SharedLayout::kValues, grads(step));
      wgmma_wait<1>();
      keep_in_registers(s);
      cap_scores(s, view);
      if (walk.masked(view, step)) {
        walk.find_block(view, step);
        mask_scores(s, view, walk, warpgroup, warp_in_group, lane);
      }
      distances.set(view, walk, warpgroup, warp_in_group, lane);
      weights();
      load_factors<0, kFactors>(SharedLayout::kDeltas);
      await_score_stage();
      // dQ of the first step, which has no predecessor, is never looked at.
      if (step > 0) await_score_grads(step - 1);
      if constexpr (C::kEarlyValues) {
        issue_key_grad(dv, p, grads(step));
        wgmma_wait<1>();
      } else {
        wgmma_wait<0>();
      }
      keep_in_registers(dp);
      score_grads();
      store_score_grads();
      if constexpr (!C::kEarlyValues) issue_key_grad(dv, p, grads(step));
      issue_key_grad(dk, ds, queries(step));
      issue_query_grad(step + 1);
      wgmma_wait<0>();
      keep_in_registers(dq);
      release(query_ring().empty(stage(step)));
      release(grad_ring().empty(stage(step)));
      if (step > 0) {
        release(score_ring().empty(stage(step + 1)));
        send_query_grad(step - 1);
      }
      if constexpr (Walk::kFollowsBlocks) walk.advance(view);
    }
    await_score_grads(step - 1);
    issue_query_grad(step - 1);
    wgmma_wait<0>();
    keep_in_registers(dq);
    send_query_grad(step - 1);
  }

  // dS of step `of`, from both warpgroups.
  __device__ __forceinline__ void await_score_grads(u32 of) const {
    barrier_wait(score_ring().full(stage(of)), parity(of));
  }

  __device__ __forceinline__ void run(const TensorMap& map_dk, const TensorMap& map_dv) {
    Walk walk(view);
#pragma unroll
    for (int i = 0; i < kGrads; ++i) dk[i] = dv[i] = 0.0f;
    barrier_wait(base + SharedLayout::kKeysFull, 0);
    barrier_wait(base + SharedLayout::kValuesFull, 0);
    if (walk.steps != 0) walk_queries(walk);
    keep_in_registers(dk);
    keep_in_registers(dv);
    // The other warpgroup has read these keys for the last time.
    named_barrier(kConsumersBarrier, C::kConsumers * kWarpgroupThreads);
    store_gradient(dv, 1.0f, base + SharedLayout::kValues, warpgroup, warp_in_group, lane);
    store_gradient(dk, view.scale, base + SharedLayout::kKeys, warpgroup, warp_in_group, lane);
    fence_proxy_async_shared();
    named_barrier(kWarpgroupBarrier + warpgroup, kWarpgroupThreads);
    if constexpr (C::kPacked) {
      // Found again where registers are short, so that nothing of it is held until here.
      if constexpr (C::kHeadDim == 128) walk = Walk(view);
      const u32 first = walk.first_key() + warpgroup * 64, keys = walk.document.keys;
      if (first + 64 > keys) {
        const u32 rows = keys > first ? keys - first : 0;
        const u32 thread = warp_in_group * kWarpThreads + lane;
        store_rows<C::kHeadDim>(view.d_v, view.value_dim, base + SharedLayout::kValues, walk, warpgroup, thread, rows);
        store_rows<C::kHeadDim>(view.d_k, view.dim, base + SharedLayout::kKeys, walk, warpgroup, thread, rows);
        return;
      }
    }
    if (warp_in_group == 0 && elect_one()) {
#pragma unroll
      for (u32 panel = 0; panel < C::kPanels; ++panel) {
        const u32 offset = panel * C::kKeyPanelBytes + warpgroup * 64 * kRowBytes;
        const BoxCorner at{static_cast<i32>(panel * 64), static_cast<i32>(walk.key_row() + warpgroup * 64),
                           static_cast<i32>(walk.kv_head), static_cast<i32>(walk.batch)};
        store_box(map_dv, base + SharedLayout::kValues + offset, at);
        store_box(map_dk, base + SharedLayout::kKeys + offset, at);
      }
      commit_stores();
      wait_stores_done();
    }
  }
};

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(ridge::cuda::Config::kThreads, 1) ridge_attention_backward(
    const __grid_constant__ ridge::cuda::TensorMap map_q, const __grid_constant__ ridge::cuda::TensorMap map_k,
    const __grid_constant__ ridge::cuda::TensorMap map_v, const __grid_constant__ ridge::cuda::TensorMap map_do,
    const __grid_constant__ ridge::cuda::TensorMap map_dk, const __grid_constant__ ridge::cuda::TensorMap map_dv,
    const __grid_constant__ ridge::cuda::AttentionBackwardView view) {
  using namespace ridge::cuda;
  using C = Config;
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared);
  const u32 warp = warp_uniform(threadIdx.x / kWarpThreads);
  const u32 lane = threadIdx.x % kWarpThreads;
  const u32 warpgroup = warp / 4;

  if constexpr (C::kPacked) {
    if (place_of(view).tile >= view.key_tiles[0].first) return;  // behind the last block of keys
  }
  if (warp == 0 && elect_one()) {
    prefetch_tensor_map(map_q);
    prefetch_tensor_map(map_k);
    prefetch_tensor_map(map_v);
    prefetch_tensor_map(map_do);
    Ring<C::kStages>{base + SharedLayout::kQueryRing}.init(C::kConsumerWarps);
    Ring<C::kStages>{base + SharedLayout::kGradRing}.init(C::kConsumerWarps);
    for (u32 stage = 0; stage < C::kStages; ++stage) {  // filled and emptied by the consumers
      const Ring<C::kStages> ring{base + SharedLayout::kScoreRing};
      barrier_init(ring.full(stage), C::kConsumerWarps);
      barrier_init(ring.empty(stage), C::kConsumerWarps);
    }
    for (u32 consumer = 0; consumer < C::kConsumers; ++consumer) {
      const Ring<1> ring{base + SharedLayout::kPartRings + consumer * Ring<1>::kBytes};
      barrier_init(ring.full(0), 4);
      barrier_init(ring.empty(0), 1);
    }
    barrier_init(base + SharedLayout::kKeysFull, 1);
    barrier_init(base + SharedLayout::kValuesFull, 1);
    barrier_init_fence();
  }
  __syncthreads();

  if (warpgroup == C::kConsumers) {
    decrease_registers<RIDGE_PRODUCER_REGISTERS>();
    const u32 role = warp - C::kConsumers * 4;
    if (role == 0) {
      if (elect_one()) Producer{map_q, map_k, map_v, map_do, view, base}.run();
    } else if (role <= C::kConsumers) {
      if (elect_one()) add_parts(view, base, role - 1);
    }
  } else {
    increase_registers<RIDGE_CONSUMER_REGISTERS>();
    Consumer consumer{view, base, warpgroup, warp % 4, lane};
    consumer.run(map_dk, map_dv);
  }
}
