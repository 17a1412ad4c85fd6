// Blocks stay and take token after token. A thread has one place of several heads, of q alone or of k alone, as in
// rope_norm's kernel: its elements of both inputs are in flight at once and stay in registers from the sums of a head,
// which its threads add up by shuffles, to the gradient. The terms of the weights' gradients add up in registers for
// all tokens of a block; each block writes a row of partial sums, and a second kernel adds those in their order. Bound
// by memory: every element once.
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
default = 128
category = "resource"
title = "threads of a block, about"
[[tunable]]
name = "SM_THREADS"
values = [256, 320, 384, 512]
default = 512
category = "resource"
title = "threads of a multiprocessor that have registers"
[[constraint]]
expression = "SM_THREADS <= (HEADS == 4 ? 384 : 512)"
reason = "a thread has registers for its heads"
*/
/* ridge-kernel
op = "rope_norm_backward"
max_registers = 255
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
RIDGE_BLOCKS = { value = "resident" }
[configs]
default = { }
threads64 = { THREADS = 64 }
heads4 = { HEADS = 4, SM_THREADS = 320 }
heads1 = { HEADS = 1, THREADS = 64 }
[variants]
bf16_128 = { case = "rope_norm_backward batch=2 length=4096 heads=32 kv_heads=8 dim=128", every = true }
bf16_128_f32_weight = { case = "rope_norm_backward length=8192 heads=64 kv_heads=8 dim=128 positions=i64 weight=f32 zero_centred=1", every = true }
bf16_64_interleaved = { case = "rope_norm_backward length=8192 heads=64 kv_heads=8 dim=64 interleaved=1", every = true }
bf16_256 = { case = "rope_norm_backward length=8192 heads=8 kv_heads=4 dim=256 zero_centred=1" }
bf16_96 = { case = "rope_norm_backward length=8192 heads=32 kv_heads=8 dim=96" }
bf16_128_none = { case = "rope_norm_backward length=8192 heads=32 kv_heads=32 dim=128 rotary=64 positions=i32 weight=none" }
f16_128 = { case = "rope_norm_backward length=8192 heads=32 kv_heads=8 dim=128 dtype=f16" }
f32_128 = { case = "rope_norm_backward length=8192 heads=32 kv_heads=8 dim=128 dtype=f32 positions=i64", every = true }
f32_128_interleaved = { case = "rope_norm_backward length=8192 heads=32 kv_heads=8 dim=128 dtype=f32 interleaved=1" }
bf16_odd = { case = "rope_norm_backward length=100 heads=9 kv_heads=7 dim=27 rotary=10", every = true }
f32_odd_interleaved = { case = "rope_norm_backward length=100 heads=9 kv_heads=7 dim=27 rotary=10 interleaved=1 dtype=f32 positions=i64" }
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
[[value]]
name = "sequence_blocks"
expression = "ceil_div(length, block_tokens)"
# Blocks of a multiprocessor, blocks that take turns with the tokens, and rows of partial sums. Factors of one more than
# a weight stay in registers of their own.
[[value]]
name = "resident"
expression = "max(1, floor_div(zero_centred != 0 && dtype == 1 && weight == 1 ? min(SM_THREADS, 384) : SM_THREADS, round_up(threads, 32)))"
[[value]]
name = "token_blocks"
expression = "batch * sequence_blocks"
[[needs]]
expression = "batch * sequence_blocks <= 2147483647"
reason = "blocks of tokens are counted in 31 bits"
[[needs]]
expression = "head_blocks <= 65535"
reason = "a grid has at most 65535 blocks of heads"
[[workspace]]
name = "partial"
bytes = "weight ? 8 * dim * head_blocks * min(token_blocks, max(1, floor_div(resident * sm_count, head_blocks))) : 0"
[[struct]]
name = "parameters"
members = [
  { operand = "dq_out" }, { operand = "q" }, { operand = "dq" },
  { i64 = "dq_out_stride0 * q_bytes" }, { i64 = "dq_out_stride1 * q_bytes" }, { i64 = "dq_out_stride2 * q_bytes" },
  { i64 = "q_stride0 * q_bytes" }, { i64 = "q_stride1 * q_bytes" }, { i64 = "q_stride2 * q_bytes" },
  { i64 = "dq_stride0 * q_bytes" }, { i64 = "dq_stride1 * q_bytes" }, { i64 = "dq_stride2 * q_bytes" },
  { operand = "dk_out", when = "kv_heads" }, { operand = "k", when = "kv_heads" }, { operand = "dk", when = "kv_heads" },
  { i64 = "dk_out_stride0 * q_bytes", when = "kv_heads" }, { i64 = "dk_out_stride1 * q_bytes", when = "kv_heads" }, { i64 = "dk_out_stride2 * q_bytes", when = "kv_heads" },
  { i64 = "k_stride0 * q_bytes", when = "kv_heads" }, { i64 = "k_stride1 * q_bytes", when = "kv_heads" }, { i64 = "k_stride2 * q_bytes", when = "kv_heads" },
  { i64 = "dk_stride0 * q_bytes", when = "kv_heads" }, { i64 = "dk_stride1 * q_bytes", when = "kv_heads" }, { i64 = "dk_stride2 * q_bytes", when = "kv_heads" },
  { operand = "q_weight", when = "weight" }, { operand = "k_weight", when = "weight != 0 && kv_heads > 0" },
  { operand = "dq_weight", when = "weight" }, { operand = "dk_weight", when = "weight != 0 && kv_heads > 0" },
  { workspace = "partial" },
  { u32 = "heads" }, { u32 = "kv_heads" }, { u32 = "q_groups" }, { u32 = "groups" }, { f32 = "1 / dim" }, { f32 = "eps" },
  { u32 = "token_blocks" }, { u32 = "head_blocks * min(token_blocks, max(1, floor_div(resident * sm_count, head_blocks)))" }, { u32 = "dim" }, { u32 = "12816" },
  { operand = "cos" }, { operand = "sin" }, { i64 = "cos_stride0" }, { i64 = "sin_stride0" },
  { operand = "positions", when = "positions" }, { i64 = "positions_stride0", when = "positions" }, { i64 = "positions_stride1", when = "positions" },
  { f64 = "offset" }, { i64 = "length" }, { i64 = "rows" },
  { u32 = "sequence_blocks" }, { u32 = "turned" }, { u32 = "rest" }, { u32 = "pieces" }, { f32 = "-1" },
]
[[kernel]]
symbol = "ridge_rope_norm_backward"
grid = ["min(token_blocks, max(1, floor_div(resident * sm_count, head_blocks)))", "head_blocks"]
block = ["places", "block_groups", "block_tokens"]
shared = "max(lanes ? 0 : 8 * each * threads, weight ? 4 * dim * block_groups * block_tokens : 0)"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_rope_norm_dweight"
grid = ["ceil_div(dim, 32)", "kv_heads > 0 ? 2 : 1"]
block = [32, 32]
when = "weight"
overlap_previous = true
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../heads.cuh"

namespace ridge::cuda {

// What arrives, what was normalised, and what leaves; pitches in bytes.
struct GradientHeads {
  const u8 *dy, *x;
  u8* dx;
  i64 dy_sequence, dy_token, dy_head;
  i64 x_sequence, x_token, x_head;
  i64 dx_sequence, dx_token, dx_head;
};
// As the launch plan fills it.
struct RopeNormBackwardParameters {
  GradientHeads q, k;
  const u8 *q_weight, *k_weight;
  u8 *dq_weight, *dk_weight;
  float* partial;  // [parts, 2, dim]: of q, of k
  u32 heads, kv_heads, q_groups, groups;
  float inverse_dim, eps;
  u32 token_blocks, parts, dim;
  u32 order;  // kInOrder
  RopeTokens tokens;
};

namespace {

// The elements of a piece were read before; see Chunk::stay_packed.
template <class P>
__device__ __forceinline__ void stay_packed(P& piece, u32 order) {
  if constexpr (kChunks) piece.stay_packed(order);
}

// What arrives at a place of a head, turned back.
struct TurnedBack {
  Angles angles;
  bool turned;

  __device__ __forceinline__ void operator()(const Piece (&dy)[kPlacePieces], Values& g) const {
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) g[k][i] = dy[k][i];
    }
    if (turned) angles.turn(g);
  }
};

// One token of the heads of this thread; `there`: not one behind the last.
__device__ __forceinline__ void differentiate_token(const RopeNormBackwardParameters& p, const Group& group,
                                                    const Place& place, const Values& factors, u32 sequence, i64 token,
                                                    bool there, Values& totals) {
  const RopeTokens& tokens = p.tokens;
  const GradientHeads& of = group.of_q ? p.q : p.k;
  const u8 *const from_dy = of.dy + sequence * of.dy_sequence + token * of.dy_token, *const from_x =
                                                                                         of.x +
                                                                                         sequence * of.x_sequence +
                                                                                         token * of.x_token;
  u8* const to = of.dx + sequence * of.dx_sequence + token * of.dx_token;
  Piece dy[kHeads][kPlacePieces], x[kHeads][kPlacePieces];
#pragma unroll
  for (u32 h = 0; h < kHeads; ++h) {
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) {
      dy[h][k].clear(), x[h][k].clear();
      if (!there || !group.has(h) || !has_piece(place, k)) continue;
      const u32 at = piece_of(place, k) * kPieceBytes;
      dy[h][k].load_own(from_dy + group.head(h) * of.dy_head + at);
      x[h][k].load_own(from_x + group.head(h) * of.x_head + at);
    }
  }
  // A place that is not turned has no pairs, and would read behind the row.
  const TurnedBack turn_back{Angles(tokens, place.turned ? position_of(tokens, sequence, token) : -1), place.turned};
  float sums[2 * kHeads];  // of squares, then of products
#pragma unroll
  for (u32 h = 0; h < kHeads; ++h) {
    Values g;
    turn_back(dy[h], g);
    float squares = 0.0f, products = 0.0f;
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        const float one = x[h][k][i];
        squares += one * one;
        products += g[k][i] * factors[k][i] * one;
      }
    }
    sums[h] = squares, sums[kHeads + h] = products;
  }
  add_up_head(sums);
#pragma unroll
  for (u32 h = 0; h < kHeads; ++h) {
    if (!there || !group.has(h)) continue;
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) stay_packed(dy[h][k], p.order), stay_packed(x[h][k], p.order);
    const float rstd = __frsqrt_rn(sums[h] * p.inverse_dim + p.eps);
    const float c = sums[kHeads + h] * p.inverse_dim * rstd * rstd;
    Values g;
    turn_back(dy[h], g);
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) {
      float dx[kCount];
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        const float one = x[h][k][i];
        if constexpr (kWeight) totals[k][i] += g[k][i] * (one * rstd);
        dx[i] = (g[k][i] * factors[k][i] - c * one) * rstd;
      }
      Piece stored;
      stored.set(dx);
      if (has_piece(place, k)) stored.store_global(to + group.head(h) * of.dx_head + piece_of(place, k) * kPieceBytes);
    }
  }
}

// The sums of a block to its row of partial sums: tokens and groups in their order.
__device__ __forceinline__ void write_totals(const RopeNormBackwardParameters& p, const Place& place,
                                             const Values& totals) {
  extern __shared__ __align__(16) float parts[];
  __syncthreads();
  float* const own = parts + (threadIdx.y + blockDim.y * threadIdx.z) * p.dim;
#pragma unroll
  for (u32 k = 0; k < kPlacePieces; ++k) {
    if (!has_piece(place, k)) continue;
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) own[piece_of(place, k) * kCount + i] = totals[k][i];
  }
  __syncthreads();
  float* const row = p.partial + static_cast<u64>(blockIdx.y * gridDim.x + blockIdx.x) * 2 * p.dim;
  const u32 first = blockIdx.y * blockDim.y, of_q = p.q_groups > first ? min(p.q_groups - first, blockDim.y) : 0;
  for (u32 j = thread_of_block(); j < 2 * p.dim; j += blockDim.x * blockDim.y * blockDim.z) {
    const bool q = j < p.dim;
    const u32 column = q ? j : j - p.dim;
    float sum = 0.0f;
    for (u32 z = 0; z < blockDim.z; ++z) {
      for (u32 y = q ? 0 : of_q; y < (q ? of_q : blockDim.y); ++y) sum += parts[(y + blockDim.y * z) * p.dim + column];
    }
    row[j] = sum;
  }
}

__device__ __forceinline__ void differentiate_heads(const RopeNormBackwardParameters& p) {
  let_next_grid_start();
  const RopeTokens& tokens = p.tokens;
  const Place place = place_of(tokens);
  const Group group(p.heads, p.kv_heads, p.q_groups, p.groups);
  Values factors, totals = {};
  load_factors(group.of_q || p.k_weight == nullptr ? p.q_weight : p.k_weight, place, factors);
  for (u32 at = blockIdx.x; at < p.token_blocks; at += gridDim.x) {
    const u32 sequence = at / tokens.sequence_blocks, block = at % tokens.sequence_blocks;
    const i64 token = static_cast<i64>(block) * blockDim.z + threadIdx.z;
    const bool there = token < tokens.length;
    differentiate_token(p, group, place, factors, sequence, there ? token : tokens.length - 1, there, totals);
  }
  if constexpr (kWeight) write_totals(p, place, totals);
}

// The sums over all blocks, for 32 elements of one weight: 32 rows of partial sums side by side and then those, in
// their order.
__device__ __forceinline__ void add_parts(const RopeNormBackwardParameters& p) {
  __shared__ float sums[32][33];
  const u32 column = blockIdx.x * 32 + threadIdx.x;
  wait_for_prior_grid();
  float sum = 0.0f;
  for (u32 part = threadIdx.y; column < p.dim && part < p.parts; part += 32) {
    sum += p.partial[(static_cast<u64>(part) * 2 + blockIdx.y) * p.dim + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= p.dim) return;
  sum = 0.0f;
  for (u32 side = 0; side < 32; ++side) sum += sums[side][threadIdx.x];
  store_number<kTypeW>(blockIdx.y == 0 ? p.dq_weight : p.dk_weight, column, sum);
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS, RIDGE_BLOCKS)
    ridge_rope_norm_backward(const ridge::cuda::RopeNormBackwardParameters p) {
  ridge::cuda::differentiate_heads(p);
}

extern "C" __global__ void __launch_bounds__(1024)
    ridge_rope_norm_dweight(const ridge::cuda::RopeNormBackwardParameters p) {
  ridge::cuda::add_parts(p);
}
