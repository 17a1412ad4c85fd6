// A thread stays at one place of a head and takes it of several heads of a token, of q alone or of k alone: weight, cos
// and sin are read once for them, and the 16-byte loads of all of them are in flight before the first square. The
// threads of a head add up their squares by shuffles, and each turns its own elements. Bound by memory: every element
// once, weights and a table's row from a cache but for the first time.
// Heads that do not start on 16 bytes, or whose pairs do not fill such pieces, go by elements; where the places of a
// head are no power of two, its threads add up in shared memory.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "HEADS"
values = [1, 2, 4]
default = 2
category = "tile"
title = "heads of a thread, of two pieces each, at most"
[[tunable]]
name = "THREADS"
values = [64, 128, 256]
default = 64
category = "resource"
title = "threads of a block, about"
[[tunable]]
name = "SM_THREADS"
values = [512, 640, 768, 1024]
default = 768
category = "resource"
title = "threads of a multiprocessor that have registers"
[[constraint]]
expression = "SM_THREADS <= (HEADS == 4 ? 512 : HEADS == 2 ? 768 : 1024)"
reason = "a thread has registers for its heads"
*/
/* ridge-kernel
op = "rope_norm"
max_registers = 168
sass = [{ opcode = "LDG" }, { opcode = "STG" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_TYPE_W = { value = "weight == 2 ? 0 : dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WEIGHT = { value = "weight != 0" }
RIDGE_ZERO_CENTRED = { value = "zero_centred" }
RIDGE_CHUNKS = { value = "by_chunks" }
RIDGE_INTERLEAVED = { value = "interleaved" }
RIDGE_POSITIONS = { value = "positions", names = ["kNone", "kI64", "kI32"] }
RIDGE_LANES = { value = "lanes" }
RIDGE_HEADS = { value = "each" }
RIDGE_THREADS = { value = "round_up(threads, 32)" }
RIDGE_BLOCKS = { value = "max(1, floor_div(sm_threads, round_up(threads, 32)))" }
[configs]
default = { }
threads128 = { THREADS = 128 }
heads4 = { HEADS = 4, THREADS = 128, SM_THREADS = 512 }
heads1 = { HEADS = 1, THREADS = 128, SM_THREADS = 1024 }
[variants]
bf16_128 = { case = "rope_norm batch=2 length=4096 heads=32 kv_heads=8 dim=128", every = true }
bf16_128_f32_weight = { case = "rope_norm length=8192 heads=64 kv_heads=8 dim=128 positions=i64 weight=f32 zero_centred=1", every = true }
bf16_64_interleaved = { case = "rope_norm length=8192 heads=64 kv_heads=8 dim=64 interleaved=1", every = true }
bf16_256 = { case = "rope_norm length=8192 heads=8 kv_heads=4 dim=256 zero_centred=1" }
bf16_96 = { case = "rope_norm length=8192 heads=32 kv_heads=8 dim=96" }
bf16_128_none = { case = "rope_norm length=8192 heads=32 kv_heads=32 dim=128 rotary=64 positions=i32 weight=none" }
f16_128 = { case = "rope_norm length=8192 heads=32 kv_heads=8 dim=128 dtype=f16" }
f32_128 = { case = "rope_norm length=8192 heads=32 kv_heads=8 dim=128 dtype=f32 positions=i64", every = true }
f32_128_interleaved = { case = "rope_norm length=8192 heads=32 kv_heads=8 dim=128 dtype=f32 interleaved=1" }
bf16_odd = { case = "rope_norm length=100 heads=9 kv_heads=7 dim=27 rotary=10", every = true }
f32_odd_interleaved = { case = "rope_norm length=100 heads=9 kv_heads=7 dim=27 rotary=10 interleaved=1 dtype=f32 positions=i64" }
*/
/* ridge-launch
[[value]]
name = "chunk"
expression = "floor_div(16, q_bytes)"
# heads_align: of all operands of heads, weights_align: of the weights (op.cpp). Rows of cos and sin start on what a thread reads of them at once.
[[value]]
name = "by_chunks"
expression = "min(heads_align, weights_align) >= 16 && dim % chunk == 0 && (interleaved ? rotary : floor_div(rotary, 2)) % chunk == 0 && min(cos_align, sin_align) >= (interleaved ? min(16, 2 * chunk) : 16)"
# Places of a head: those that are turned, in pairs of pieces (or pieces that hold pairs), and the others, two pieces each.
[[value]]
name = "alone"
expression = "by_chunks && interleaved"
[[value]]
name = "pieces"
expression = "by_chunks ? floor_div(dim, chunk) : dim"
[[value]]
name = "turned"
expression = "by_chunks ? floor_div(rotary, alone ? chunk : 2 * chunk) : floor_div(rotary, 2)"
[[value]]
name = "rest"
expression = "ceil_div(pieces - turned * (alone ? 1 : 2), alone ? 1 : 2)"
[[value]]
name = "places"
expression = "turned + rest"
[[value]]
name = "lanes"
expression = "places == 1 || places == 2 || places == 4 || places == 8 || places == 16 || places == 32 ? places : 0"
# Groups of heads of q, and of all; each thread has a group's.
[[value]]
name = "each"
expression = "max(1, min(alone ? 2 * HEADS : HEADS, max(heads, kv_heads)))"
[[value]]
name = "q_groups"
expression = "ceil_div(heads, each)"
[[value]]
name = "groups"
expression = "q_groups + ceil_div(kv_heads, each)"
[[value]]
name = "head_blocks"
expression = "max(1, ceil_div(groups, max(1, floor_div(THREADS, places))))"
[[value]]
name = "block_groups"
expression = "max(1, ceil_div(groups, head_blocks))"
[[value]]
name = "token_threads"
expression = "places * block_groups"
[[value]]
name = "block_tokens"
expression = "max(1, min(64, min(length, floor_div(THREADS + floor_div(token_threads, 2), token_threads))))"
[[value]]
name = "threads"
expression = "token_threads * block_tokens"
# Weights and conversions of two heads in pairs of pieces take more registers than 768 threads have.
[[value]]
name = "sm_threads"
expression = "HEADS == 2 && alone == 0 && (dtype == 2 || weight == 2) ? min(SM_THREADS, 640) : SM_THREADS"
[[value]]
name = "sequence_blocks"
expression = "ceil_div(length, block_tokens)"
[[needs]]
expression = "batch * sequence_blocks <= 2147483647"
reason = "a grid has at most 2147483647 blocks of tokens"
[[needs]]
expression = "head_blocks <= 65535"
reason = "a grid has at most 65535 blocks of heads"
[[kernel]]
symbol = "ridge_rope_norm"
grid = ["batch * sequence_blocks", "head_blocks"]
block = ["places", "block_groups", "block_tokens"]
shared = "lanes ? 0 : 4 * each * threads"
args = [{ struct = [
  { operand = "q" }, { operand = "q_out" },
  { i64 = "q_stride0 * q_bytes" }, { i64 = "q_stride1 * q_bytes" }, { i64 = "q_stride2 * q_bytes" },
  { i64 = "q_out_stride0 * q_bytes" }, { i64 = "q_out_stride1 * q_bytes" }, { i64 = "q_out_stride2 * q_bytes" },
  { operand = "k", when = "kv_heads" }, { operand = "k_out", when = "kv_heads" },
  { i64 = "k_stride0 * q_bytes", when = "kv_heads" }, { i64 = "k_stride1 * q_bytes", when = "kv_heads" }, { i64 = "k_stride2 * q_bytes", when = "kv_heads" },
  { i64 = "k_out_stride0 * q_bytes", when = "kv_heads" }, { i64 = "k_out_stride1 * q_bytes", when = "kv_heads" }, { i64 = "k_out_stride2 * q_bytes", when = "kv_heads" },
  { operand = "q_weight", when = "weight" }, { operand = "k_weight", when = "weight != 0 && kv_heads > 0" },
  { u32 = "heads" }, { u32 = "kv_heads" }, { u32 = "q_groups" }, { u32 = "groups" }, { f32 = "1 / dim" }, { f32 = "eps" },
  { operand = "cos" }, { operand = "sin" }, { i64 = "cos_stride0" }, { i64 = "sin_stride0" },
  { operand = "positions", when = "positions" }, { i64 = "positions_stride0", when = "positions" }, { i64 = "positions_stride1", when = "positions" },
  { f64 = "offset" }, { i64 = "length" }, { i64 = "rows" },
  { u32 = "sequence_blocks" }, { u32 = "turned" }, { u32 = "rest" }, { u32 = "pieces" }, { f32 = "1" },
] }]
*/
// clang-format on

#include "heads.cuh"

namespace ridge::cuda {

// A tensor of heads with its result; pitches in bytes.
struct NormalHeads {
  const u8* in;
  u8* out;
  i64 in_sequence, in_token, in_head;
  i64 out_sequence, out_token, out_head;
};
// As the launch plan fills it.
struct RopeNormParameters {
  NormalHeads q, k;
  const u8 *q_weight, *k_weight;
  u32 heads, kv_heads, q_groups, groups;
  float inverse_dim, eps;
  RopeTokens tokens;
};

namespace {

__device__ __forceinline__ void normalise_and_turn_heads(const RopeNormParameters& p) {
  const RopeTokens& tokens = p.tokens;
  const u32 sequence = blockIdx.x / tokens.sequence_blocks, block = blockIdx.x % tokens.sequence_blocks;
  const i64 own = static_cast<i64>(block) * blockDim.z + threadIdx.z;
  const bool there = own < tokens.length;
  const i64 token = there ? own : tokens.length - 1;  // whose sums nothing reads
  const Place place = place_of(tokens);
  const Group group(p.heads, p.kv_heads, p.q_groups, p.groups);
  const NormalHeads& of = group.of_q ? p.q : p.k;
  const u8* const in = of.in + sequence * of.in_sequence + token * of.in_token;
  u8* const out = of.out + sequence * of.out_sequence + token * of.out_token;
  Piece x[kHeads][kPlacePieces];
#pragma unroll
  for (u32 h = 0; h < kHeads; ++h) {
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) {
      x[h][k].clear();
      if (group.has(h) && has_piece(place, k)) {
        x[h][k].load_own(in + group.head(h) * of.in_head + piece_of(place, k) * kPieceBytes);
      }
    }
  }
  Values factors;
  load_factors(group.of_q || p.k_weight == nullptr ? p.q_weight : p.k_weight, place, factors);
  // A place that is not turned has no pairs, and would read behind the row.
  const Angles angles(tokens, place.turned ? position_of(tokens, sequence, token) : -1);
  float sums[kHeads];
#pragma unroll
  for (u32 h = 0; h < kHeads; ++h) {
    sums[h] = 0.0f;
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) sums[h] += x[h][k][i] * x[h][k][i];
    }
  }
  add_up_head(sums);
  if (!there) return;
#pragma unroll
  for (u32 h = 0; h < kHeads; ++h) {
    if (!group.has(h)) continue;
    const float rstd = __frsqrt_rn(sums[h] * p.inverse_dim + p.eps);
    Values y;
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) y[k][i] = x[h][k][i] * rstd * factors[k][i];
    }
    if (place.turned) angles.turn(y);
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) {
      Piece stored;
      stored.set(y[k]);
      if (has_piece(place, k))
        stored.store_global(out + group.head(h) * of.out_head + piece_of(place, k) * kPieceBytes);
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS, RIDGE_BLOCKS)
    ridge_rope_norm(const ridge::cuda::RopeNormParameters p) {
  ridge::cuda::normalise_and_turn_heads(p);
}
