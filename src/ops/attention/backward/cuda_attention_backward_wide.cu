// Attention, backward, of wide heads on Hopper's matrix units: heads of q and k up to 192 with values up to 128
// (multi-head latent attention), heads up to 192, and up to 256. Definitions, memory and numerics as
// cuda_attention_backward.cu.
//
// dK and dV of a block of keys fill most of the registers, so the warpgroups have parts of their own. One computes S^T
// and dP^T of 64 keys and 64 queries at a time, hands P^T and dS^T over in shared memory as 16-bit numbers, and
// computes dQ = dS K. Two keep the gradients: of 128 keys each those of 64 (RIDGE_BLOCK_N 128, dims 192 and 128), or of
// 64 keys one dV and one dK (RIDGE_BLOCK_N 64, dims 192 and 256). Nothing is computed twice, and while the first one
// works on weights the matrix unit has the products of the other two. dQ leaves in parts of 64 x 64, by a bulk add into
// fp32 memory, which takes longer than the products of dQ: with 64 keys the last two parts leave during the next step.
//
// Registers a thread, 512 in all for the four warpgroups of a block: 24 the copying warps; scores and dP 64, over which
// dQ is made (128 keys) or beside which two parts of it wait (64 keys), 104 or 168 in all; dK and dV 160 (128 keys), or
// 128 for the one of 256 columns, 192 or 160 in all. Shared memory, KiB (dims 192/128 and 256): K 48, 32; V 32, 32; two
// stages of Q 48, 64 and of dO 32, 64; P 16, 8; dS 16, 8; parts of dQ 32, 16: 224 both.
//
// Heads of fewer columns cost what those of a build cost: the copy engine fills the columns that they lack with zeros
// and stores none of them. Made for a thousand tokens and more; equal bits over runs with RIDGE_ORDERED, windows
// (RIDGE_WINDOW), documents (RIDGE_PACKED), sinks (RIDGE_SINKS), a softcap (RIDGE_SOFTCAP) and slopes (RIDGE_ALIBI) as
// in cuda_attention_backward.cu.
//
// Entry points: with RIDGE_PACKED `ridge_attention_backward_documents`, `ridge_attention_backward_prepare`,
// `ridge_attention_backward`, `ridge_attention_backward_finish`, in this order on one stream.

// clang-format off
/* ridge-kernel
op = "attention_backward"
# At entry 65536 registers are shared by 512 threads; setmaxnreg then moves them to the gradients.
max_registers = 128
[define]
RIDGE_TYPE = { value = "dtype", names = ["kBf16", "kF16"] }
RIDGE_QUERY_DIM = { value = "query_dim" }
RIDGE_VALUE_DIM = { value = "value_dim" }
RIDGE_BLOCK_N = { value = "block_n" }
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
d256_bf16_causal = { case = "attention_backward dim=256 dtype=bf16 mask=causal" }
d256_bf16_full = { case = "attention_backward dim=256 dtype=bf16 mask=full" }
d256_bf16_full_ordered = { case = "attention_backward dim=256 dtype=bf16 mask=full deterministic=1" }
d256_bf16_window = { case = "attention_backward dim=256 dtype=bf16 mask=causal keys_left=65" }
d256_bf16_packed_ordered = { case = "attention_backward dim=256 dtype=bf16 mask=causal documents=4 deterministic=1" }
d192_bf16_causal = { case = "attention_backward dim=192 dtype=bf16 mask=causal" }
d192_bf16_packed_ordered = { case = "attention_backward dim=192 dtype=bf16 mask=causal documents=4 deterministic=1" }
d192_f16_window = { case = "attention_backward dim=192 dtype=f16 keys_right=65" }
d256_f16_full = { case = "attention_backward dim=256 dtype=f16 mask=full" }
d256_f16_packed = { case = "attention_backward dim=256 dtype=f16 documents=4" }
d192_v128_bf16_causal = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=causal" }
d192_v128_bf16_full = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=full" }
d192_v128_bf16_causal_ordered = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=causal deterministic=1" }
d192_v128_bf16_window = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=causal keys_left=65" }
d192_v128_bf16_window_ordered = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 keys_right=65 deterministic=1" }
d192_v128_bf16_packed = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=causal documents=4" }
d192_v128_bf16_packed_ordered = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=causal documents=4 deterministic=1" }
d192_v128_f16_causal = { case = "attention_backward dim=192 v_dim=128 dtype=f16 mask=causal" }
d256_bf16_causal_softcap = { case = "attention_backward dim=256 dtype=bf16 mask=causal softcap=1" }
d256_bf16_window_softcap_ordered = { case = "attention_backward dim=256 dtype=bf16 mask=causal keys_left=65 deterministic=1 softcap=1" }
d256_f16_packed_softcap_sinks = { case = "attention_backward dim=256 dtype=f16 documents=4 softcap=1 sinks=1" }
d192_bf16_causal_softcap = { case = "attention_backward dim=192 dtype=bf16 mask=causal softcap=1" }
d192_v128_bf16_causal_softcap = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=causal softcap=1" }
d192_v128_bf16_packed_sinks = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=causal documents=4 sinks=1" }
d192_v128_bf16_causal_alibi = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=causal alibi=1" }
d192_v128_bf16_full_alibi = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=full alibi=1" }
d192_v128_bf16_packed_alibi_ordered = { case = "attention_backward dim=192 v_dim=128 dtype=bf16 mask=causal documents=4 deterministic=1 alibi=1" }
d192_bf16_causal_alibi_softcap = { case = "attention_backward dim=192 dtype=bf16 mask=causal softcap=1 alibi=1" }
d256_bf16_causal_alibi = { case = "attention_backward dim=256 dtype=bf16 mask=causal alibi=1" }
d256_bf16_packed_alibi = { case = "attention_backward dim=256 dtype=bf16 documents=4 alibi=1" }
*/
/* ridge-launch
# The heads that a build is made for; what smaller ones lack is read as zeros and not written. Scores of 128 keys have
# no registers for a softcap.
[[value]]
name = "latent"
expression = "dim <= 192 && v_dim <= 128 && softcap == 0"
[[value]]
name = "query_dim"
expression = "max(dim, v_dim) <= 192 ? 192 : 256"
[[value]]
name = "value_dim"
expression = "latent ? 128 : query_dim"
[[value]]
name = "block_n"
expression = "latent ? 128 : 64"
[[value]]
name = "packed"
expression = "documents > 0"
# Every document may end with a block of its own, as may the rows before the first and behind the last one.
[[value]]
name = "q_blocks"
expression = "packed ? floor_div(q_len, 64) + documents + 2 : ceil_div(q_len, 64)"
[[value]]
name = "tiles"
expression = "packed ? floor_div(k_len, block_n) + documents + 2 : ceil_div(k_len, block_n)"
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
expression = "floor_div(33554432 * (mask ? kv_heads : 1), (6 * query_dim + 2 * value_dim) * q_len * (mask ? heads : 1))"
[[value]]
name = "window"
expression = "max(keys_left, keys_right) > 0 || packed"

[[needs]]
expression = "max(dim, v_dim) > 128"
reason = "the kernel is made for heads of more than 128"
[[needs]]
expression = "dim % 8 == 0 && v_dim % 8 == 0 && max(dim, v_dim) <= 256"
reason = "the kernel takes heads of multiples of 8 up to 256"
[[needs]]
expression = "min(q_len, k_len) > 0"
reason = "there is nothing to multiply"
[[needs]]
expression = "sinks == 0 || heads_total > 0"
reason = "the gradients of sinks are written by blocks of queries, and there is none"
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
expression = "min(q_align, k_align, v_align, o_align, d_o_align, d_q_align, d_k_align, d_v_align) >= 16"
reason = "the copy engine needs rows that start on 16 bytes"
[[workspace]]
name = "scaled_log_sum"
bytes = "256 * pairs"
[[workspace]]
name = "delta"
bytes = "256 * pairs"
[[workspace]]
name = "grad_query"
bytes = "256 * query_dim * pairs"
[[workspace]]
name = "turns"
bytes = "deterministic ? 4 * pairs : 0"
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
block = [512]
# K, V, two stages of Q and of dO, P, dS, parts of dQ, the rows' factors, and the barriers.
shared = "229376 + 1024 + 176"
args = [
  { tensor_map = "map_q" }, { tensor_map = "map_k" }, { tensor_map = "map_v" }, { tensor_map = "map_d_o" },
  { tensor_map = "map_d_k" }, { tensor_map = "map_d_v" }, { struct = "view" },
]
[[kernel]]
symbol = "ridge_attention_backward_finish"
grid = ["q_blocks", "heads_total"]
block = ["2 * query_dim"]
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

#ifndef RIDGE_AHEAD
#define RIDGE_AHEAD 1
#endif

namespace ridge::cuda {
namespace {

struct Config {
  static constexpr MatrixType kType = MatrixType::RIDGE_TYPE;
  static constexpr u32 kQueryDim = RIDGE_QUERY_DIM;  // of Q and K
  static constexpr u32 kValueDim = RIDGE_VALUE_DIM;  // of V and O
  static constexpr u32 kBlockN = RIDGE_BLOCK_N;
  static constexpr u32 kBlockM = 64;
  static constexpr bool kCausal = RIDGE_CAUSAL != 0;
  static constexpr bool kWindow = RIDGE_WINDOW != 0;
  static constexpr bool kPacked = RIDGE_PACKED != 0;
  static constexpr bool kOrdered = RIDGE_ORDERED != 0;
  static constexpr bool kSinks = RIDGE_SINKS != 0;
  static constexpr bool kSoftcap = RIDGE_SOFTCAP != 0;
  static constexpr bool kAlibi = RIDGE_ALIBI != 0;
  static constexpr bool kBothSides = RIDGE_ALIBI == 2;  // queries see keys before and behind their places
  static constexpr bool kClipped = true;
  static constexpr u32 kStages = 2;  // of Q and of dO, so that a step's number says where everything lies

  static constexpr u32 kHalves = kBlockN / 64;  // of the keys; P and dS of each have a place of their own
  // Gradients of 64 keys in each of two warpgroups, or dV in one and dK in the other.
  static constexpr bool kSplitKeys = kHalves == 2;
  static constexpr u32 kGradGroups = 2;
  static constexpr u32 kWorkers = 1 + kGradGroups;  // warpgroups that compute
  static constexpr u32 kThreads = (kWorkers + 1) * kWarpgroupThreads;
  static constexpr int kProducerRegisters = 24;
  static constexpr int kScoreRegisters = kSplitKeys ? 104 : 168;
  static constexpr int kGradRegisters = kSplitKeys ? 192 : 160;

  static constexpr u32 kQueryDimPanels = kQueryDim / 64;  // a tile is panels of 64 columns, one swizzle row wide
  static constexpr u32 kValueDimPanels = kValueDim / 64;
  static constexpr u32 kKeyPanelBytes = kBlockN * kRowBytes;
  static constexpr u32 kKeyBytes = kQueryDimPanels * kKeyPanelBytes;
  static constexpr u32 kValueBytes = kValueDimPanels * kKeyPanelBytes;
  static constexpr u32 kQueryPanelBytes = kBlockM * kRowBytes;
  static constexpr u32 kQueryBytes = kQueryDimPanels * kQueryPanelBytes;
  static constexpr u32 kGradBytes = kValueDimPanels * kQueryPanelBytes;
  static constexpr u32 kRowFactorBytes = kBlockM * 4;  // log-sum-exp or delta of a block of queries
  static constexpr u32 kScoreBytes = 64 * kRowBytes;   // P or dS of 64 keys
  static constexpr u32 kParts = kQueryDimPanels;       // of the sums of dQ of a block of queries
  static constexpr u32 kPartFloats = 64 * 64;
  static constexpr u32 kPartBytes = kPartFloats * 4;
  // A part leaves in pieces, of which two have a place.
  static constexpr u32 kPartPieces = kSplitKeys ? 1 : 2;
  static constexpr u32 kPieceBytes = kPartBytes / kPartPieces;
  static constexpr u32 kPieceStages = 2;
  // The last parts of a step leave during the next one, where registers hold them: the bulk add takes longer than the
  // products of dQ.
  static constexpr u32 kLateParts = kSplitKeys || (kSoftcap && (kPacked || kAlibi)) ? 0 : 2;
  // Where they do not, the first scores of the next step are multiplied while the last part of dQ leaves, and dP is
  // issued behind the log-sum-exps, because there are no registers for them beside it.
  static constexpr bool kAhead = kSplitKeys && RIDGE_AHEAD != 0;
  static constexpr bool kApart = kSplitKeys;
  static constexpr u32 kTurns = 1;
  static constexpr u32 kQueryPanels = 1;
  // Warps that read Q, and as many that read dO.
  static constexpr u32 kQueryReaders = 4 * (1 + (kSplitKeys ? kGradGroups : 1));

  static_assert(kHalves == 1 || kHalves == 2, "a warpgroup has 64 keys");
  static_assert(kProducerRegisters + kScoreRegisters + kGradGroups * kGradRegisters <= 512, "65536 registers");
  static_assert(kWindow || !kPacked, "documents have the masks of a window");
  static_assert(!kSplitKeys || !kSoftcap, "scores of 128 keys have no registers for a softcap");
};

struct SharedLayout {
  static constexpr u32 kKeys = 0;
  static constexpr u32 kValues = kKeys + Config::kKeyBytes;
  static constexpr u32 kQueries = kValues + Config::kValueBytes;
  static constexpr u32 kGrads = kQueries + Config::kStages * Config::kQueryBytes;
  static constexpr u32 kWeights = kGrads + Config::kStages * Config::kGradBytes;
  static constexpr u32 kScoreGrads = kWeights + Config::kHalves * Config::kScoreBytes;
  static constexpr u32 kParts = kScoreGrads + Config::kHalves * Config::kScoreBytes;
  static constexpr u32 kLogSums = kParts + Config::kPieceStages * Config::kPieceBytes;
  static constexpr u32 kDeltas = kLogSums + Config::kStages * Config::kRowFactorBytes;
  static constexpr u32 kQueryRing = kDeltas + Config::kStages * Config::kRowFactorBytes;
  static constexpr u32 kGradRing = kQueryRing + Ring<Config::kStages>::kBytes;
  static constexpr u32 kWeightRing = kGradRing + Ring<Config::kStages>::kBytes;  // P: a stage per half of the keys
  static constexpr u32 kScoreGradRing = kWeightRing + Ring<Config::kHalves>::kBytes;
  static constexpr u32 kPieceRing = kScoreGradRing + Ring<Config::kHalves>::kBytes;
  static constexpr u32 kKeysFull = kPieceRing + Ring<Config::kPieceStages>::kBytes;
  static constexpr u32 kValuesFull = kKeysFull + kBarrierBytes;
  static constexpr u32 kBytes = kValuesFull + kBarrierBytes;
  static_assert(kBytes <= 229376 + 1024 + 176, "more shared memory than the launch plan has");
};

inline constexpr u32 kWorkersBarrier = 1;    // all warpgroups that compute
inline constexpr u32 kWarpgroupBarrier = 2;  // and 3: one of gradients

}  // namespace
}  // namespace ridge::cuda

#include "blocks.cuh"

namespace ridge::cuda {
namespace {

using StageRing = Ring<Config::kStages>;
using HalfRing = Ring<Config::kHalves>;
using PieceRing = Ring<Config::kPieceStages>;

// Where things of a step lie, and the parity of the barriers of its stage; P and dS have one stage.
__device__ __forceinline__ u32 stage_of(u32 step) { return step % Config::kStages; }
__device__ __forceinline__ u32 parity_of(u32 step) { return step / Config::kStages % 2; }
__device__ __forceinline__ u32 queries_at(u32 base, u32 step) {
  return base + SharedLayout::kQueries + stage_of(step) * Config::kQueryBytes;
}
__device__ __forceinline__ u32 grads_at(u32 base, u32 step) {
  return base + SharedLayout::kGrads + stage_of(step) * Config::kGradBytes;
}
__device__ __forceinline__ StageRing query_ring(u32 base) { return {base + SharedLayout::kQueryRing}; }
__device__ __forceinline__ StageRing grad_ring(u32 base) { return {base + SharedLayout::kGradRing}; }
__device__ __forceinline__ HalfRing weight_ring(u32 base) { return {base + SharedLayout::kWeightRing}; }
__device__ __forceinline__ HalfRing score_grad_ring(u32 base) { return {base + SharedLayout::kScoreGradRing}; }
__device__ __forceinline__ PieceRing piece_ring(u32 base) { return {base + SharedLayout::kPieceRing}; }

// By every lane of a warp that has read or written for the last time.
__device__ __forceinline__ void signal(u32 barrier, u32 lane) {
  if (lane == 0) barrier_arrive(barrier);
}

// ---- Producer: one thread fills the rings
// -----------------------------------------------------------------------------

struct Producer {
  const TensorMap& map_q;
  const TensorMap& map_k;
  const TensorMap& map_v;
  const TensorMap& map_do;
  const AttentionBackwardView& view;
  u32 base;

  // kRows rows of one head: panels of 64 columns, in boxes of 64 rows.
  template <u32 kPanels, u32 kRows>
  __device__ __forceinline__ static void load_tile(u32 target, const TensorMap& map, u32 full, u32 row, u32 head,
                                                   u32 batch) {
#pragma unroll
    for (u32 panel = 0; panel < kPanels; ++panel) {
#pragma unroll
      for (u32 part = 0; part < kRows / 64; ++part) {
        load_box(target + (panel * kRows + part * 64) * kRowBytes, map, full,
                 {static_cast<i32>(panel * 64), static_cast<i32>(row + part * 64), static_cast<i32>(head),
                  static_cast<i32>(batch)});
      }
    }
  }

  template <u32 kPanels>
  __device__ __forceinline__ void load_keys(u32 offset, const TensorMap& map, u32 full, const Walk& walk) const {
    barrier_arrive_expect_bytes(base + full, kPanels * Config::kKeyPanelBytes);
    load_tile<kPanels, Config::kBlockN>(base + offset, map, base + full, walk.key_row(), walk.kv_head, walk.batch);
  }

  // A block of Q with its log-sum-exp, or of dO with its delta.
  template <u32 kPanels>
  __device__ __forceinline__ void load_queries(const RingPosition<Config::kStages>& position, const StageRing& ring,
                                               u32 tiles_offset, u32 factors_offset, const TensorMap& map,
                                               const float* factors, const Walk& walk) const {
    using C = Config;
    constexpr u32 kBytes = kPanels * C::kQueryPanelBytes;
    const u32 full = ring.full(position.stage);
    barrier_wait(ring.empty(position.stage), position.parity ^ 1u);
    barrier_arrive_expect_bytes(full, kBytes + C::kRowFactorBytes);
    load_tile<kPanels, C::kBlockM>(base + tiles_offset + position.stage * kBytes, map, full, walk.query_row(),
                                   walk.flat_head - walk.batch * view.heads, walk.batch);
    load_bytes(base + factors_offset + position.stage * C::kRowFactorBytes,
               factors + (static_cast<i64>(walk.flat_head) * view.q_blocks + walk.query_block()) * C::kBlockM,
               C::kRowFactorBytes, full);
  }

  __device__ __forceinline__ void run() const {
    using C = Config;
    Walk walk(view);
    load_keys<C::kQueryDimPanels>(SharedLayout::kKeys, map_k, SharedLayout::kKeysFull, walk);
    RingPosition<C::kStages> position;
    for (u32 step = 0; step < walk.steps; ++step) {
      load_queries<C::kQueryDimPanels>(position, query_ring(base), SharedLayout::kQueries, SharedLayout::kLogSums,
                                       map_q, view.scaled_log_sum, walk);
      if (step == 0) load_keys<C::kValueDimPanels>(SharedLayout::kValues, map_v, SharedLayout::kValuesFull, walk);
      load_queries<C::kValueDimPanels>(position, grad_ring(base), SharedLayout::kGrads, SharedLayout::kDeltas, map_do,
                                       view.delta, walk);
      position.advance();
      walk.advance(view);
    }
    if (walk.steps == 0) load_keys<C::kValueDimPanels>(SharedLayout::kValues, map_v, SharedLayout::kValuesFull, walk);
  }
};

// ---- Adding warp: one thread sends the parts of dQ away
// -----------------------------------------------------------------------------

__device__ __forceinline__ void add_parts(const AttentionBackwardView& view, u32 base) {
  using C = Config;
  const PieceRing ring = piece_ring(base);
  RingPosition<C::kPieceStages> position;
  Walk walk(view);
  for (u32 step = 0; step < walk.steps; ++step) {
    const i64 block = static_cast<i64>(walk.flat_head) * view.q_blocks + walk.query_block();
    const u32 turn = walk.turn(view);
    walk.advance(view);
    if constexpr (C::kOrdered) await_turn(view.turns + block, turn);
    float* target = view.grad_query + block * C::kParts * C::kPartFloats;
    for (u32 piece = 0; piece < C::kParts * C::kPartPieces; ++piece) {
      barrier_wait(ring.full(position.stage), position.parity);
      add_bytes_f32(target, base + SharedLayout::kParts + position.stage * C::kPieceBytes, C::kPieceBytes);
      target += C::kPieceBytes / 4;
      commit_stores();
      wait_stores_read<0>();
      barrier_arrive(ring.empty(position.stage));
      position.advance();
    }
    if constexpr (C::kOrdered) {
      wait_stores_done();
      pass_turn_on(view.turns + block);
    }
  }
  wait_stores_done();
}

// ---- Scores: one warpgroup makes P and dS, and dQ of them
// -----------------------------------------------------------------------------

struct Scores {
  using C = Config;
  using ScoreMma = Wgmma<64, C::kType, C::kType, Major::kK, Major::kK>;        // S^T = K Q^T, dP^T = V dO^T
  using QueryGradMma = Wgmma<64, C::kType, C::kType, Major::kMn, Major::kMn>;  // dQ = dS K
  static constexpr int kScores = 32;                                           // of 64 x 64 in a thread
  static constexpr int kChunks = 4;
  static constexpr int kFactors = C::kSplitKeys ? 2 : 4;  // chunks whose factors are in registers

  const AttentionBackwardView& view;
  u32 base, warp_in_group, lane;
  u32 step = 0;

  float s[kScores];  // S^T, then P^T in fp32
  float dp[kScores];
  float late[2][kScores];  // parts of dQ that leave during the next step
  float factors[kFactors][4];
  Distances distances;

  // 64 keys (or values) times a block of queries (or of dO), both along the head's dimension.
  template <u32 kPanels>
  __device__ __forceinline__ static void issue_scores(float (&d)[kScores], u32 keys, u32 queries) {
    // Descriptors are made where they are used: kept from step to step they would take registers that there are not.
    if constexpr (C::kAhead) asm volatile("" : "+r"(keys), "+r"(queries));
    const u64 k = matrix_descriptor<Major::kK>(keys, 0);
    const u64 q = matrix_descriptor<Major::kK>(queries, 0);
    keep_in_registers(d);
    wgmma_fence();
#pragma unroll
    for (u32 panel = 0; panel < kPanels; ++panel) {
#pragma unroll
      for (u32 chunk = 0; chunk < kRowBytes / kWgmmaStepBytes; ++chunk) {
        ScoreMma::mma(d, k + panel * (C::kKeyPanelBytes >> 4) + chunk * kDescriptorStep<Major::kK>,
                      q + panel * (C::kQueryPanelBytes >> 4) + chunk * kDescriptorStep<Major::kK>,
                      panel != 0 || chunk != 0);
      }
    }
    wgmma_commit();
  }

  // S^T of 64 keys and the queries of step `of`.
  __device__ __forceinline__ void issue_key_scores(u32 half, u32 of) {
    issue_scores<C::kQueryDimPanels>(s, base + SharedLayout::kKeys + half * C::kScoreBytes, queries_at(base, of));
  }

  // dP^T of 64 keys and the queries of the step.
  __device__ __forceinline__ void issue_value_scores(u32 half) {
    issue_scores<C::kValueDimPanels>(dp, base + SharedLayout::kValues + half * C::kScoreBytes, grads_at(base, step));
  }

  // 64 columns of dQ = dS K, over all keys of the block.
  __device__ __forceinline__ void issue_query_grad(float (&d)[kScores], u32 part) const {
    const u64 a = matrix_descriptor<Major::kMn>(base + SharedLayout::kScoreGrads, C::kScoreBytes);
    const u64 b =
        matrix_descriptor<Major::kMn>(base + SharedLayout::kKeys + part * C::kKeyPanelBytes, C::kKeyPanelBytes);
    keep_in_registers(d);
    wgmma_fence();
#pragma unroll
    for (u32 chunk = 0; chunk < C::kBlockN / 16; ++chunk) {
      QueryGradMma::mma(d, a + chunk * kDescriptorStep<Major::kMn>, b + chunk * kDescriptorStep<Major::kMn>,
                        chunk != 0);
    }
    wgmma_commit();
  }

  // The factors of this thread's columns: the first of them in front of the products, behind which a load would wait
  // until the matrix unit has taken those.
  __device__ __forceinline__ void load_factors(u32 offset, int chunk) {
    const u32 address = base + offset + stage_of(step) * C::kRowFactorBytes + (lane % 4) * 16;
    if (chunk < kChunks) load_shared_v4(address + chunk * 64, factors[chunk % kFactors]);
  }
  __device__ __forceinline__ void load_first_factors(u32 offset) {
#pragma unroll
    for (int chunk = 0; chunk < kFactors; ++chunk) load_factors(offset, chunk);
  }

  // 16 columns of P^T or dS^T into shared memory, a row per key.
  __device__ __forceinline__ void store_chunk(const u32 (&x)[4], u32 tile, u32 chunk) const {
    store_matrix_x4(tile + swizzled_chunk(lane & 15u, 2 * chunk + (lane >> 4)), x[0], x[1], x[2], x[3]);
  }
  __device__ __forceinline__ void handed_over(u32 full) const {
    fence_proxy_async_shared();
    __syncwarp();
    signal(full, lane);
  }

  // P and dS of 64 keys and the step's queries.
  __device__ __forceinline__ void hand_over(u32 half, Walk& walk) {
    const u32 tile = base + half * C::kScoreBytes + warp_in_group * 16 * kRowBytes;
    if constexpr (!C::kApart) load_first_factors(SharedLayout::kLogSums);
    distances.load(view, walk);
    if (!C::kAhead || half != 0) issue_key_scores(half, step);
    if constexpr (!C::kApart) issue_value_scores(half);
    wgmma_wait<C::kApart ? 0 : 1>();
    keep_in_registers(s);
    cap_scores(s, view);
    if (walk.masked(view, step)) {
      walk.find_block(view, step);
      // Found again where a block is masked: held from step to step it would take registers that there are not.
      u32 own_lane = lane;
      asm volatile("" : "+r"(own_lane));
      mask_scores(s, view, walk, half, warp_in_group, own_lane);
    }
    if constexpr (C::kApart) load_first_factors(SharedLayout::kLogSums);
    distances.set(view, walk, half, warp_in_group, lane);
    if constexpr (C::kSoftcap) {
      hand_over_capped_weights(half, tile);
    } else {
      hand_over_weights(half, tile);
    }
    if constexpr (C::kLateParts == 2) send_late_part<C::kParts - 2>();
    load_first_factors(SharedLayout::kDeltas);
    barrier_wait(score_grad_ring(base).empty(half), step % 2 ^ 1u);
    wgmma_wait<0>();
    keep_in_registers(dp);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      u32 x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int low = 8 * chunk + 2 * i;
        x[i] = pack(s[low] * (dp[low] - factors[chunk % kFactors][i / 2 * 2]),
                    s[low + 1] * (dp[low + 1] - factors[chunk % kFactors][i / 2 * 2 + 1]));
      }
      load_factors(SharedLayout::kDeltas, chunk + kFactors);
      store_chunk(x, tile + SharedLayout::kScoreGrads, chunk);
    }
    handed_over(score_grad_ring(base).full(half));
    if constexpr (C::kLateParts == 2) send_late_part<C::kParts - 1>();
  }

  // P of these scores.
  __device__ __forceinline__ void hand_over_weights(u32 half, u32 tile) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& score = s[8 * chunk + i];
        const float log_sum = factors[chunk % kFactors][i / 4 * 2 + i % 2];
        score = distances.power(score, view.scale_log2, log_sum, 8 * chunk + i);
      }
      load_factors(SharedLayout::kLogSums, chunk + kFactors);
    }
    // There are no registers for factors beside dP.
    if constexpr (C::kApart) {
      keep_in_registers(s);
      issue_value_scores(half);
    }
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] = exp2_approx(s[i]);
    // The branch in the wait keeps the compiler from moving exponentials behind it and between the stores, where they
    // would no longer run under the product.
    keep_in_registers(s);
    barrier_wait(weight_ring(base).empty(half), step % 2 ^ 1u);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      u32 x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = pack(s[8 * chunk + 2 * i], s[8 * chunk + 2 * i + 1]);
      store_chunk(x, tile + SharedLayout::kWeights, chunk);
    }
    handed_over(weight_ring(base).full(half));
  }

  // P behind a softcap, whose slope takes its place: a chunk at a time, because there are no registers for both.
  __device__ __forceinline__ void hand_over_capped_weights(u32 half, u32 tile) {
    barrier_wait(weight_ring(base).empty(half), step % 2 ^ 1u);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      u32 x[4];
      weigh_chunk(s, chunk, factors[chunk % kFactors], view, distances, x);
      load_factors(SharedLayout::kLogSums, chunk + kFactors);
      store_chunk(x, tile + SharedLayout::kWeights, chunk);
    }
    handed_over(weight_ring(base).full(half));
  }

  // A finished part of dQ to the warp that adds it.
  __device__ __forceinline__ void send_query_grad(const float (&d)[kScores], u32 part, u32 of) const {
    constexpr u32 kStores = 8 / C::kPartPieces;  // of 16 bytes
    const PieceRing ring = piece_ring(base);
    const u32 thread = warp_in_group * kWarpThreads + lane;
#pragma unroll
    for (u32 piece = 0; piece < C::kPartPieces; ++piece) {
      const u32 number = (of * C::kParts + part) * C::kPartPieces + piece, stage = number % C::kPieceStages;
      barrier_wait(ring.empty(stage), number / C::kPieceStages % 2 ^ 1u);
      const u32 target = base + SharedLayout::kParts + stage * C::kPieceBytes + thread * 16;
      const float* const from = d + piece * kStores * 4;
#pragma unroll
      for (u32 i = 0; i < kStores; ++i) {
        store_shared_v4(target + i * 2048, from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]);
      }
      fence_proxy_async_shared();
      __syncwarp();
      signal(ring.full(stage), lane);
    }
  }

  // Where a part of dQ is made: over the scores, which are done with, or where it stays for the next step.
  template <u32 kPart>
  __device__ __forceinline__ float (&part_of_query_grad())[kScores] {
    if constexpr (C::kLateParts != 0) {
      return late[kPart % 2];
    } else if constexpr (kPart % 2 == 0) {
      return dp;
    } else {
      return s;
    }
  }

  // A part of the step before.
  template <u32 kPart>
  __device__ __forceinline__ void send_late_part() const {
    if (step > 0) send_query_grad(late[kPart % 2], kPart, step - 1);
  }

  // dQ of the step from a part on, which is on its way: the next one is multiplied while it leaves.
  template <u32 kPart>
  __device__ __forceinline__ void send_query_grads(u32 steps) {
    constexpr bool kLast = kPart + 1 == C::kParts;
    if constexpr (!kLast) {
      issue_query_grad(part_of_query_grad<kPart + 1>(), kPart + 1);
      wgmma_wait<1>();
    } else {
      if constexpr (C::kAhead) {
        // Behind the last step they are never looked at.
        if (step + 1 < steps) barrier_wait(query_ring(base).full(stage_of(step + 1)), parity_of(step + 1));
        issue_key_scores(0, step + 1);
      }
      wgmma_wait<C::kAhead ? 1 : 0>();
#pragma unroll
      for (u32 half = 0; half < C::kHalves; ++half) signal(score_grad_ring(base).empty(half), lane);
    }
    keep_in_registers(part_of_query_grad<kPart>());
    if constexpr (kPart + C::kLateParts < C::kParts) send_query_grad(part_of_query_grad<kPart>(), kPart, step);
    if constexpr (!kLast) send_query_grads<kPart + 1>(steps);
  }
  __device__ __forceinline__ void query_grads(u32 steps) {
#pragma unroll
    for (u32 half = 0; half < C::kHalves; ++half) barrier_wait(score_grad_ring(base).full(half), step % 2);
    issue_query_grad(part_of_query_grad<0>(), 0);
    send_query_grads<0>(steps);
    if constexpr (C::kAhead) {
      wgmma_wait<0>();
      keep_in_registers(s);
    }
  }

  __device__ __forceinline__ void walk_queries(Walk& walk) {
    if constexpr (C::kAhead) {
      barrier_wait(query_ring(base).full(0), 0);
      issue_key_scores(0, 0);
      wgmma_wait<0>();
      keep_in_registers(s);
    }
    for (; step < walk.steps; ++step) {
      if constexpr (!C::kAhead) barrier_wait(query_ring(base).full(stage_of(step)), parity_of(step));
      barrier_wait(grad_ring(base).full(stage_of(step)), parity_of(step));
#pragma unroll
      for (u32 half = 0; half < C::kHalves; ++half) hand_over(half, walk);
      signal(query_ring(base).empty(stage_of(step)), lane);
      signal(grad_ring(base).empty(stage_of(step)), lane);
      query_grads(walk.steps);
      if constexpr (Walk::kFollowsBlocks) walk.advance(view);
    }
    if constexpr (C::kLateParts == 2) {
      send_late_part<C::kParts - 2>();
      send_late_part<C::kParts - 1>();
    }
  }

  __device__ __forceinline__ void run() {
    Walk walk(view);
    barrier_wait(base + SharedLayout::kKeysFull, 0);
    barrier_wait(base + SharedLayout::kValuesFull, 0);
    if (walk.steps != 0) walk_queries(walk);
    // Keys and values are read no more: their gradients may take their place.
    named_barrier_arrive(kWorkersBarrier, C::kWorkers * kWarpgroupThreads);
  }
};

// ---- Gradients of keys: dV, dK or both of 64 keys in the registers of a warpgroup
// -----------------------------------------------------------------------------

template <bool kValues, bool kKeys>
struct KeyGradients {
  using C = Config;
  // An instruction of 256 columns does not fit into the 128 registers that the compiler takes a thread to have at
  // first.
  static constexpr int kPieces = C::kQueryDim == 256 ? 2 : 1;
  static constexpr int kValuePiece = C::kValueDim / kPieces, kKeyPiece = C::kQueryDim / kPieces;  // columns

  const AttentionBackwardView& view;
  u32 base, group, half, warp_in_group, lane;

  float dv[kPieces][kValuePiece / 2];
  float dk[kPieces][kKeyPiece / 2];

  template <int kGrads>
  __device__ __forceinline__ static void keep(float (&d)[kPieces][kGrads]) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) keep_in_registers(d[piece]);
  }

  // dV += P^T dO or dK += dS^T Q.
  template <int kGrads>
  __device__ __forceinline__ static void issue(float (&d)[kPieces][kGrads], u32 scores, u32 queries) {
    using Mma = Wgmma<2 * kGrads, C::kType, C::kType, Major::kK, Major::kMn>;
    const u64 a = matrix_descriptor<Major::kK>(scores, 0);
    const u64 b = matrix_descriptor<Major::kMn>(queries, C::kQueryPanelBytes);
    keep(d);
    wgmma_fence();
#pragma unroll
    for (u32 chunk = 0; chunk < C::kBlockM / 16; ++chunk) {
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        Mma::mma(d[piece], a + chunk * kDescriptorStep<Major::kK>,
                 b + piece * (kGrads / 32 * (C::kQueryPanelBytes >> 4)) + chunk * kDescriptorStep<Major::kMn>, 1u);
      }
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void walk_queries(u32 steps) {
    for (u32 step = 0; step < steps; ++step) {
      const u32 stage = stage_of(step), parity = parity_of(step);
      if constexpr (kValues) {
        barrier_wait(grad_ring(base).full(stage), parity);
        barrier_wait(weight_ring(base).full(half), step % 2);
        issue(dv, base + SharedLayout::kWeights + half * C::kScoreBytes, grads_at(base, step));
      }
      if constexpr (kKeys) {
        barrier_wait(query_ring(base).full(stage), parity);
        barrier_wait(score_grad_ring(base).full(half), step % 2);
        issue(dk, base + SharedLayout::kScoreGrads + half * C::kScoreBytes, queries_at(base, step));
      }
      if constexpr (kValues) {
        wgmma_wait<kKeys ? 1 : 0>();
        keep(dv);
        signal(weight_ring(base).empty(half), lane);
        signal(grad_ring(base).empty(stage), lane);
      }
      if constexpr (kKeys) {
        wgmma_wait<0>();
        keep(dk);
        signal(score_grad_ring(base).empty(half), lane);
        signal(query_ring(base).empty(stage), lane);
      }
    }
  }

  // This warpgroup's rows of a finished gradient.
  template <u32 kDim, int kGrads>
  __device__ __forceinline__ void store(const float (&d)[kPieces][kGrads], float factor, u32 offset,
                                        const TensorMap& map, const AttentionRows& rows, u32 columns,
                                        const Walk& walk) const {
#pragma unroll
    for (u32 piece = 0; piece < kPieces; ++piece) {
      store_gradient(d[piece], factor, base + offset + piece * (kGrads / 32) * C::kKeyPanelBytes, half, warp_in_group,
                     lane);
    }
    fence_proxy_async_shared();
    named_barrier(kWarpgroupBarrier + group, kWarpgroupThreads);
    if constexpr (C::kPacked) {
      const u32 first = walk.first_key() + half * 64, keys = walk.document.keys;
      if (first + 64 > keys) {
        store_rows<kDim>(rows, columns, base + offset, walk, half, warp_in_group * kWarpThreads + lane,
                         keys > first ? keys - first : 0);
        return;
      }
    }
    if (warp_in_group == 0 && elect_one()) {
#pragma unroll
      for (u32 panel = 0; panel < kDim / 64; ++panel) {
        store_box(map, base + offset + panel * C::kKeyPanelBytes + half * C::kScoreBytes,
                  {static_cast<i32>(panel * 64), static_cast<i32>(walk.key_row() + half * 64),
                   static_cast<i32>(walk.kv_head), static_cast<i32>(walk.batch)});
      }
      commit_stores();
      wait_stores_done();
    }
  }

  __device__ __forceinline__ void run(const TensorMap& map_dk, const TensorMap& map_dv) {
    if constexpr (kValues) {
#pragma unroll
      for (auto& piece : dv) {
#pragma unroll
        for (float& x : piece) x = 0.0f;
      }
    }
    if constexpr (kKeys) {
#pragma unroll
      for (auto& piece : dk) {
#pragma unroll
        for (float& x : piece) x = 0.0f;
      }
    }
    walk_queries(Walk(view).steps);
    if constexpr (kValues) keep(dv);
    if constexpr (kKeys) keep(dk);
    named_barrier(kWorkersBarrier, C::kWorkers * kWarpgroupThreads);
    const Walk walk(view);
    if constexpr (kValues) {
      store<C::kValueDim>(dv, 1.0f, SharedLayout::kValues, map_dv, view.d_v, view.value_dim, walk);
    }
    if constexpr (kKeys) store<C::kQueryDim>(dk, view.scale, SharedLayout::kKeys, map_dk, view.d_k, view.dim, walk);
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
    query_ring(base).init(C::kQueryReaders);
    grad_ring(base).init(C::kQueryReaders);
    for (u32 half = 0; half < C::kHalves; ++half) {  // filled by the warps of scores
      barrier_init(weight_ring(base).full(half), 4);
      barrier_init(weight_ring(base).empty(half), 4);
      barrier_init(score_grad_ring(base).full(half), 4);
      barrier_init(score_grad_ring(base).empty(half), 8);  // read for dK and for dQ
    }
    for (u32 stage = 0; stage < C::kPieceStages; ++stage) {
      barrier_init(piece_ring(base).full(stage), 4);
      barrier_init(piece_ring(base).empty(stage), 1);
    }
    barrier_init(base + SharedLayout::kKeysFull, 1);
    barrier_init(base + SharedLayout::kValuesFull, 1);
    barrier_init_fence();
  }
  __syncthreads();

  if (warpgroup == C::kWorkers) {
    decrease_registers<C::kProducerRegisters>();
    if (warp % 4 == 0) {
      if (elect_one()) Producer{map_q, map_k, map_v, map_do, view, base}.run();
    } else if (warp % 4 == 1) {
      if (elect_one()) add_parts(view, base);
    }
  } else if (warpgroup == 0) {
    if constexpr (C::kScoreRegisters < 128) {
      decrease_registers<C::kScoreRegisters>();
    } else {
      increase_registers<C::kScoreRegisters>();
    }
    Scores scores{view, base, warp % 4, lane};
    scores.run();
  } else {
    increase_registers<C::kGradRegisters>();
    const u32 group = warpgroup - 1;
    if constexpr (C::kSplitKeys) {
      KeyGradients<true, true> both{view, base, group, group, warp % 4, lane};
      both.run(map_dk, map_dv);
    } else if (group == 0) {
      KeyGradients<true, false> values{view, base, group, 0, warp % 4, lane};
      values.run(map_dk, map_dv);
    } else {
      KeyGradients<false, true> keys{view, base, group, 0, warp % 4, lane};
      keys.run(map_dk, map_dv);
    }
  }
}
