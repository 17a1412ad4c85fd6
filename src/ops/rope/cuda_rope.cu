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
  { operand = "cos" }, { operand = "sin" }, { i64 = "cos_stride0" }, { i64 = "sin_stride0" },
  { operand = "positions", when = "positions" }, { i64 = "positions_stride0", when = "positions" }, { i64 = "positions_stride1", when = "positions" },
  { f64 = "offset" }, { i64 = "length" }, { i64 = "rows" },
  { u32 = "sequence_blocks" }, { u32 = "heads" }, { u32 = "all_heads" }, { u32 = "turned" }, { u32 = "rest" }, { u32 = "pieces" },
  { f32 = "inverse ? -1 : 1" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {

enum class Position { kNone, kI64, kI32 };

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
  const float *cos, *sin;
  i64 cos_pitch, sin_pitch;  // elements
  const void* positions;
  i64 positions_sequence, positions_token;  // elements
  double offset;                            // a whole number
  i64 length, rows;
  u32 sequence_blocks;   // of a sequence's tokens
  u32 heads, all_heads;  // of q, of q and k
  u32 turned, rest;      // places of a head
  u32 pieces;            // of a head
  float sign;            // of sin
};

namespace {

constexpr Number kType = Number::RIDGE_TYPE;
constexpr Position kPositions = Position::RIDGE_POSITIONS;
constexpr bool kChunks = RIDGE_CHUNKS != 0, kInterleaved = RIDGE_INTERLEAVED != 0;
constexpr u32 kHeads = RIDGE_HEADS;

// One element, with the interface of a chunk.
template <Number kOf>
struct Element {
  static constexpr u32 kCount = 1;
  static constexpr bool kWide = kOf == Number::kF32;
  u32 bits;

  __device__ __forceinline__ float operator[](u32) const { return load_number<kOf>(&bits, 0); }
  __device__ __forceinline__ void set(const float (&values)[kCount]) { store_number<kOf>(&bits, 0, values[0]); }
  __device__ __forceinline__ void clear() { bits = 0; }
  __device__ __forceinline__ void load_own(const void* from) {
    bits = kWide ? *static_cast<const u32*>(from) : *static_cast<const u16*>(from);
  }
  __device__ __forceinline__ void store_global(void* to) const {
    if constexpr (kWide) {
      *static_cast<u32*>(to) = bits;
    } else {
      *static_cast<u16*>(to) = static_cast<u16>(bits);
    }
  }
};

template <bool kOfChunks>
struct PieceOf {
  using Type = Chunk<kType>;
};
template <>
struct PieceOf<false> {
  using Type = Element<kType>;
};
using Piece = PieceOf<kChunks>::Type;
constexpr u32 kPieceBytes = kChunks ? 16 : Chunk<kType>::kBytes;
// Pieces of a place. A chunk of neighbours holds whole pairs.
constexpr u32 kPlacePieces = kChunks && kInterleaved ? 1 : 2;
constexpr u32 kPairs = Piece::kCount * kPlacePieces / 2;  // of a place

// Where this thread works: the pieces of a head that it reads and writes.
struct Place {
  u32 first, second;
  bool turned;
};
__device__ __forceinline__ Place place_of(const RopeParameters& p) {
  const u32 at = threadIdx.x;
  if (at < p.turned) {
    if constexpr (kPlacePieces == 1) return {at, at, true};
    if constexpr (kInterleaved) return {2 * at, 2 * at + 1, true};
    return {at, at + p.turned, true};
  }
  const u32 first = p.turned * kPlacePieces + (at - p.turned), second = first + p.rest;
  return {first, second < p.pieces ? second : first, false};  // of an odd number the last is copied twice
}

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

__device__ __forceinline__ i64 position_of(const RopeParameters& p, i64 sequence, i64 token) {
  const i64 at = sequence * p.positions_sequence + token * p.positions_token;
  if constexpr (kPositions == Position::kI64) return static_cast<const i64*>(p.positions)[at];
  if constexpr (kPositions == Position::kI32) return static_cast<const i32*>(p.positions)[at];
  return static_cast<i64>(p.offset) + token;
}

__device__ __forceinline__ void load_row(const float* row, float (&values)[kPairs]) {
  const float* const from = row + threadIdx.x * kPairs;
  if constexpr (kPairs >= 4) {
#pragma unroll
    for (u32 i = 0; i < kPairs; i += 4) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(from + i));
      values[i] = four.x, values[i + 1] = four.y, values[i + 2] = four.z, values[i + 3] = four.w;
    }
  } else if constexpr (kPairs == 2) {
    const float2 two = __ldg(reinterpret_cast<const float2*>(from));
    values[0] = two.x, values[1] = two.y;
  } else {
    values[0] = __ldg(from);
  }
}

// cos and sin of a place's pairs. A position that the table does not have is the caller's mistake, which costs a read
// of its memory to find: it reads nothing here, and what it turns is no number.
struct Angles {
  float cos[kPairs], sin[kPairs];

  __device__ __forceinline__ Angles(const RopeParameters& p, i64 position) {
    if (position >= 0 && position < p.rows) {
      load_row(p.cos + position * p.cos_pitch, cos);
      load_row(p.sin + position * p.sin_pitch, sin);
    } else {
#pragma unroll
      for (u32 i = 0; i < kPairs; ++i) cos[i] = sin[i] = __uint_as_float(0x7FFFFFFFu);
    }
#pragma unroll
    for (u32 i = 0; i < kPairs; ++i) sin[i] *= p.sign;
  }

  // One rounding of a product and one of the sum, in every form of the kernel alike.
  __device__ __forceinline__ void turn(u32 pair, float x, float y, float& x_out, float& y_out) const {
    x_out = __fmaf_rn(x, cos[pair], -__fmul_rn(y, sin[pair]));
    y_out = __fmaf_rn(y, cos[pair], __fmul_rn(x, sin[pair]));
  }
  __device__ __forceinline__ void turn(Piece (&x)[kPlacePieces]) const {
    float out[kPlacePieces][Piece::kCount];
#pragma unroll
    for (u32 i = 0; i < kPairs; ++i) {
      if constexpr (kPlacePieces == 1) {
        turn(i, x[0][2 * i], x[0][2 * i + 1], out[0][2 * i], out[0][2 * i + 1]);
      } else {
        turn(i, x[0][i], x[1][i], out[0][i], out[1][i]);
      }
    }
#pragma unroll
    for (u32 i = 0; i < kPlacePieces; ++i) x[i].set(out[i]);
  }
};

__device__ __forceinline__ void turn_heads(const RopeParameters& p) {
  const u32 sequence = blockIdx.x / p.sequence_blocks, block = blockIdx.x % p.sequence_blocks;
  const i64 token = static_cast<i64>(block) * blockDim.z + threadIdx.z;
  if (token >= p.length) return;
  const Place place = place_of(p);
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
  const Angles angles(p, position_of(p, sequence, token));
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
