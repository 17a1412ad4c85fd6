// A thread stays at one place of a head and takes it of several heads of a token: cos and sin are read once for them,
// and the 16-byte loads of all of them are in flight before the first is turned. Heads of q and k follow each other in
// one launch; a block takes some tokens, its three dimensions are the place, the head and the token, so that nothing is
// divided but the number of a block. Bound by memory: every element once, a table's row from a cache but for the first
// time.
// Heads that do not start on 16 bytes, or whose pairs do not fill such pieces, go by elements.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "HEADS"
values = [1, 2, 4, 8]
default = 4
category = "tile"
title = "heads of a thread, of two pieces each, at most"
[[tunable]]
name = "THREADS"
values = [128, 256]
default = 256
category = "resource"
title = "threads of a block, about"
[[tunable]]
name = "SM_THREADS"
values = [512, 768, 1024, 1280]
default = 768
category = "resource"
title = "threads of a multiprocessor that have registers"
[[constraint]]
expression = "SM_THREADS <= (HEADS == 8 ? 512 : HEADS == 4 ? 768 : HEADS == 2 ? 1024 : 1280)"
reason = "a thread has registers for its heads"
*/
/* ridge-kernel
op = "rope"
max_registers = 168
sass = [{ opcode = "LDG" }, { opcode = "STG" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_CHUNKS = { value = "by_chunks" }
RIDGE_INTERLEAVED = { value = "interleaved" }
RIDGE_POSITIONS = { value = "positions", names = ["kNone", "kI64", "kI32"] }
RIDGE_HEADS = { value = "each" }
RIDGE_THREADS = { value = "round_up(threads, 32)" }
RIDGE_BLOCKS = { value = "max(1, floor_div(SM_THREADS, round_up(threads, 32)))" }
[configs]
default = { }
heads2 = { HEADS = 2, SM_THREADS = 1024 }
heads8 = { HEADS = 8, SM_THREADS = 512 }
threads128 = { THREADS = 128 }
heads2_threads128 = { HEADS = 2, THREADS = 128, SM_THREADS = 1024 }
[variants]
bf16_128 = { case = "rope batch=2 length=4096 heads=32 kv_heads=8 dim=128", every = true }
bf16_128_wide = { case = "rope length=8192 heads=64 kv_heads=8 dim=128 positions=i64", every = true }
bf16_64_interleaved = { case = "rope length=8192 heads=64 kv_heads=8 dim=64 interleaved=1", every = true }
bf16_128_partial = { case = "rope length=8192 heads=32 kv_heads=32 dim=128 rotary=64 positions=i32" }
f16_128_inverse = { case = "rope length=8192 heads=32 kv_heads=8 dim=128 dtype=f16 inverse=1" }
f32_128 = { case = "rope length=8192 heads=32 kv_heads=8 dim=128 dtype=f32 positions=i64", every = true }
f32_128_interleaved = { case = "rope length=8192 heads=32 kv_heads=8 dim=128 dtype=f32 interleaved=1" }
bf16_odd = { case = "rope length=100 heads=9 kv_heads=7 dim=27 rotary=10", every = true }
f32_odd_interleaved = { case = "rope length=100 heads=9 kv_heads=7 dim=27 rotary=10 interleaved=1 dtype=f32 positions=i64" }
bf16_long_odd = { case = "rope length=100 heads=9 kv_heads=0 dim=1023 rotary=514" }
*/
/* ridge-launch
[[value]]
name = "chunk"
expression = "floor_div(16, q_bytes)"
# heads_align: of q, k and their results (op.cpp). Rows of cos and sin start on what a thread reads of them at once.
[[value]]
name = "by_chunks"
expression = "heads_align >= 16 && dim % chunk == 0 && (interleaved ? rotary : floor_div(rotary, 2)) % chunk == 0 && min(cos_align, sin_align) >= (interleaved ? min(16, 2 * chunk) : 16)"
# Places of a head: those that are turned, in pairs of pieces (or pieces that hold pairs), and what is copied, two pieces each.
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
name = "turned_pieces"
expression = "turned * (alone ? 1 : 2)"
[[value]]
name = "rest"
expression = "ceil_div(pieces - turned_pieces, alone ? 1 : 2)"
[[value]]
name = "places"
expression = "turned + rest"
[[value]]
name = "all_heads"
expression = "heads + kv_heads"
# Each thread has about as many heads as the others, and each block of heads as many groups.
[[value]]
name = "groups"
expression = "max(1, ceil_div(all_heads, alone ? 2 * HEADS : HEADS))"
[[value]]
name = "each"
expression = "max(1, ceil_div(all_heads, groups))"
[[value]]
name = "head_blocks"
expression = "ceil_div(groups, max(1, floor_div(THREADS, places)))"
[[value]]
name = "block_groups"
expression = "ceil_div(groups, head_blocks)"
[[value]]
name = "token_threads"
expression = "places * block_groups"
[[value]]
name = "block_tokens"
expression = "max(1, min(64, min(length, floor_div(THREADS + floor_div(token_threads, 2), token_threads))))"
[[value]]
name = "threads"
expression = "token_threads * block_tokens"
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
symbol = "ridge_rope"
grid = ["batch * sequence_blocks", "head_blocks"]
block = ["places", "block_groups", "block_tokens"]
args = [{ struct = [
  { operand = "q" }, { operand = "q_out" },
  { i64 = "q_stride0 * q_bytes" }, { i64 = "q_stride1 * q_bytes" }, { i64 = "q_stride2 * q_bytes" },
  { i64 = "q_out_stride0 * q_bytes" }, { i64 = "q_out_stride1 * q_bytes" }, { i64 = "q_out_stride2 * q_bytes" },
  { operand = "k", when = "kv_heads" }, { operand = "k_out", when = "kv_heads" },
  { i64 = "k_stride0 * q_bytes", when = "kv_heads" }, { i64 = "k_stride1 * q_bytes", when = "kv_heads" }, { i64 = "k_stride2 * q_bytes", when = "kv_heads" },
  { i64 = "k_out_stride0 * q_bytes", when = "kv_heads" }, { i64 = "k_out_stride1 * q_bytes", when = "kv_heads" }, { i64 = "k_out_stride2 * q_bytes", when = "kv_heads" },
  { u32 = "heads" }, { u32 = "all_heads" },
  { operand = "cos" }, { operand = "sin" }, { i64 = "cos_stride0" }, { i64 = "sin_stride0" },
  { operand = "positions", when = "positions" }, { i64 = "positions_stride0", when = "positions" }, { i64 = "positions_stride1", when = "positions" },
  { f64 = "offset" }, { i64 = "length" }, { i64 = "rows" },
  { u32 = "sequence_blocks" }, { u32 = "turned" }, { u32 = "rest" }, { u32 = "pieces" },
  { f32 = "inverse ? -1 : 1" },
] }]
*/
// clang-format on

#include "turn.cuh"

namespace ridge::cuda {

// A tensor of heads with its result; pitches in bytes.
struct RopeHeads {
  const u8* in;
  u8* out;
  i64 in_sequence, in_token, in_head;
  i64 out_sequence, out_token, out_head;
};

// As the launch plan fills it.
struct RopeParameters {
  RopeHeads q, k;
  u32 heads, all_heads;  // of q, of q and k
  RopeTokens tokens;
};

namespace {

constexpr u32 kHeads = RIDGE_HEADS;

// Of this thread's token, and its heads.
struct Heads {
  const u8 *q_in, *k_in;
  u8 *q_out, *k_out;
  u32 first;

  __device__ __forceinline__ Heads(const RopeParameters& p, i64 sequence, i64 token)
      : q_in(p.q.in + sequence * p.q.in_sequence + token * p.q.in_token),
        k_in(p.k.in + sequence * p.k.in_sequence + token * p.k.in_token),
        q_out(p.q.out + sequence * p.q.out_sequence + token * p.q.out_token),
        k_out(p.k.out + sequence * p.k.out_sequence + token * p.k.out_token),
        first(blockIdx.y * blockDim.y * kHeads + threadIdx.y) {}

  // Number of the i-th head, k's behind q's.
  __device__ __forceinline__ u32 head(u32 i) const { return first + i * blockDim.y; }
  // Chosen by value: a warp that has heads of both takes no branch.
  __device__ __forceinline__ const u8* in(const RopeParameters& p, u32 head) const {
    const bool of_q = head < p.heads;
    const i64 pitch = of_q ? p.q.in_head : p.k.in_head;
    return (of_q ? q_in : k_in) + (of_q ? head : head - p.heads) * pitch;
  }
  __device__ __forceinline__ u8* out(const RopeParameters& p, u32 head) const {
    const bool of_q = head < p.heads;
    const i64 pitch = of_q ? p.q.out_head : p.k.out_head;
    return (of_q ? q_out : k_out) + (of_q ? head : head - p.heads) * pitch;
  }
  __device__ __forceinline__ static bool in_place(const RopeParameters& p, u32 head) {
    return head < p.heads ? p.q.in == p.q.out : p.k.in == p.k.out;
  }
};

__device__ __forceinline__ void turn_heads(const RopeParameters& p) {
  const RopeTokens& tokens = p.tokens;
  const u32 sequence = blockIdx.x / tokens.sequence_blocks, block = blockIdx.x % tokens.sequence_blocks;
  const i64 token = static_cast<i64>(block) * blockDim.z + threadIdx.z;
  if (token >= tokens.length) return;
  const Place place = place_of(tokens);
  const Heads heads(p, sequence, token);
  Piece x[kHeads][kPlacePieces];
#pragma unroll
  for (u32 i = 0; i < kHeads; ++i) {
    const u32 head = heads.head(i);
#pragma unroll
    for (u32 j = 0; j < kPlacePieces; ++j) x[i][j].clear();
    if (head >= p.all_heads) continue;
    const u8* const in = heads.in(p, head);
    x[i][0].load_own(in + place.first * kPieceBytes);
    if constexpr (kPlacePieces == 2) x[i][1].load_own(in + place.second * kPieceBytes);
  }
  const auto store = [&](u32 i, u32 head) {
    u8* const out = heads.out(p, head);
    x[i][0].store_global(out + place.first * kPieceBytes);
    if constexpr (kPlacePieces == 2) x[i][1].store_global(out + place.second * kPieceBytes);
  };
  if (!place.turned) {
#pragma unroll
    for (u32 i = 0; i < kHeads; ++i) {
      const u32 head = heads.head(i);
      if (head < p.all_heads && !Heads::in_place(p, head)) store(i, head);
    }
    return;
  }
  const Angles angles(tokens, position_of(tokens, sequence, token));
#pragma unroll
  for (u32 i = 0; i < kHeads; ++i) {
    angles.turn(x[i]);
    const u32 head = heads.head(i);
    if (head < p.all_heads) store(i, head);
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS, RIDGE_BLOCKS)
    ridge_rope(const ridge::cuda::RopeParameters p) {
  ridge::cuda::turn_heads(p);
}
