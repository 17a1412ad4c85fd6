// Heads of tokens and the angles that they are turned by: what the kernels of rope and of norm/ share. A thread stays
// at one place of a head: the pieces that a pair's elements lie in, of chunks of 16 bytes or of single elements.
#pragma once
#include "../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {

enum class Position { kNone, kI64, kI32 };

// The table, where in it the tokens are, and how a head is cut; as a launch plan fills it.
struct RopeTokens {
  const float *cos, *sin;
  i64 cos_pitch, sin_pitch;  // elements
  const void* positions;
  i64 positions_sequence, positions_token;  // elements
  double offset;                            // a whole number
  i64 length, rows;
  u32 sequence_blocks;  // of a sequence's tokens
  u32 turned, rest;     // places of a head
  u32 pieces;           // of a head
  float sign;           // of sin
};

namespace {

constexpr Number kType = Number::RIDGE_TYPE;
constexpr Position kPositions = Position::RIDGE_POSITIONS;
constexpr bool kChunks = RIDGE_CHUNKS != 0, kInterleaved = RIDGE_INTERLEAVED != 0;

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
__device__ __forceinline__ Place place_of(const RopeTokens& p) {
  const u32 at = threadIdx.x;
  if (at < p.turned) {
    if constexpr (kPlacePieces == 1) return {at, at, true};
    if constexpr (kInterleaved) return {2 * at, 2 * at + 1, true};
    return {at, at + p.turned, true};
  }
  const u32 first = p.turned * kPlacePieces + (at - p.turned), second = first + p.rest;
  return {first, second < p.pieces ? second : first, false};  // of an odd number the last is copied twice
}

__device__ __forceinline__ i64 position_of(const RopeTokens& p, i64 sequence, i64 token) {
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

  __device__ __forceinline__ Angles(const RopeTokens& p, i64 position) {
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
  // All elements of a place.
  __device__ __forceinline__ void turn(float (&x)[kPlacePieces][Piece::kCount]) const {
#pragma unroll
    for (u32 i = 0; i < kPairs; ++i) {
      float &one = x[0][kPlacePieces == 1 ? 2 * i : i], &other = x[kPlacePieces - 1][kPlacePieces == 1 ? 2 * i + 1 : i];
      const float a = one, b = other;
      turn(i, a, b, one, other);
    }
  }
  __device__ __forceinline__ void turn(Piece (&x)[kPlacePieces]) const {
    float values[kPlacePieces][Piece::kCount];
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) {
#pragma unroll
      for (u32 i = 0; i < Piece::kCount; ++i) values[k][i] = x[k][i];
    }
    turn(values);
#pragma unroll
    for (u32 k = 0; k < kPlacePieces; ++k) x[k].set(values[k]);
  }
};

}  // namespace
}  // namespace ridge::cuda
