// Matrices element by element, for operators whose results need no sum over a row: activations, and their gradients.
// Blocks come and go, each with a piece of one row or with several short rows, whose loads are all in flight before the
// first result is stored.
//
// A team works on a piece, a power of two of threads of one block. Its threads take chunks of 16 bytes in turns, so
// that a warp's loads are whole lines. Rows that start on 16 bytes and are whole chunks have nothing else
// (`kAligned`). Of others a row is looked at where it lies: where the chunks of all matrices begin at the same element,
// only the elements around them go one by one, else all do, kCount of a thread at once.
//
// Bytes in flight: by Little's law 25 to 36 KiB of a multiprocessor at 4.8 TB/s; 1024 threads with two chunks have 32.
#pragma once
#include "chunk.cuh"

namespace ridge::cuda {

// As a launch plan fills it. Rows that follow on each other without a gap may be one.
struct RowPieces {
  i64 rows, cols;
  u32 pieces;     // of a row
  u32 lane_bits;  // a team has 1 << lane_bits threads
};

// What this thread's team works on, and the thread's place in it.
struct RowPart {
  i64 row;
  u32 piece, lane, lanes;

  __device__ __forceinline__ explicit RowPart(const RowPieces& p) {
    const u32 rows = p.pieces == 1 ? blockIdx.x : blockIdx.x / p.pieces;
    piece = blockIdx.x - rows * p.pieces;
    lanes = 1u << p.lane_bits;
    lane = threadIdx.x & (lanes - 1);
    row = static_cast<i64>(rows) * (blockDim.x >> p.lane_bits) + (threadIdx.x >> p.lane_bits);
  }
  // The k-th of `side` chunks that a thread takes at once; `turn` counts pieces.
  __device__ __forceinline__ u64 chunk(u64 turn, u32 side, u32 k) const { return (turn * side + k) * lanes + lane; }
};

// Which elements of a row lie in chunks of all of its matrices.
template <Number kType, bool kAligned>
struct RowChunks {
  static constexpr u32 kCount = Chunk<kType>::kCount;
  u64 lead, count, edges;  // elements in front of the first chunk, chunks, elements outside of them

  template <u32 kMatrices>
  __device__ __forceinline__ RowChunks(const u8* const (&matrices)[kMatrices], i64 cols) {
    lead = 0, count = static_cast<u64>(cols) / kCount, edges = 0;
    if constexpr (kAligned) return;
    const u64 first = reinterpret_cast<u64>(matrices[0]);
    u64 apart = 0;
#pragma unroll
    for (u32 m = 1; m < kMatrices; ++m) apart |= first ^ reinterpret_cast<u64>(matrices[m]);
    lead = (0 - first) % 16 / Chunk<kType>::kBytes;
    const bool shared = apart % 16 == 0 && lead < static_cast<u64>(cols);
    count = shared ? (static_cast<u64>(cols) - lead) / kCount : 0;
    edges = static_cast<u64>(cols) - count * kCount;
    if (!shared) lead = edges;
  }
  // The i-th element outside of chunks.
  __device__ __forceinline__ u64 edge(u64 i) const { return i < lead ? i : i + count * kCount; }
};

// A chunk made of elements outside of chunks: those at `first` and every `step` from there.
template <Number kType, bool kAligned>
__device__ __forceinline__ void gather(Chunk<kType>& chunk, const u8* row, const RowChunks<kType, kAligned>& in,
                                       u64 first, u64 step) {
  using C = Chunk<kType>;
  chunk.clear();
#pragma unroll
  for (u32 i = 0; i < C::kCount; ++i) {
    const u64 at = first + i * step;
    if (at >= in.edges) continue;
    if constexpr (kType == Number::kF32) {
      chunk.words[i] = reinterpret_cast<const u32*>(row)[in.edge(at)];
    } else {
      const u32 bits = reinterpret_cast<const u16*>(row)[in.edge(at)];
      chunk.words[i / 2] |= i % 2 == 0 ? bits : bits << 16;
    }
  }
}
template <Number kType, bool kAligned>
__device__ __forceinline__ void scatter(const Chunk<kType>& chunk, u8* row, const RowChunks<kType, kAligned>& in,
                                        u64 first, u64 step) {
  using C = Chunk<kType>;
#pragma unroll
  for (u32 i = 0; i < C::kCount; ++i) {
    const u64 at = first + i * step;
    if (at >= in.edges) continue;
    if constexpr (kType == Number::kF32) {
      reinterpret_cast<u32*>(row)[in.edge(at)] = chunk.words[i];
    } else {
      reinterpret_cast<u16*>(row)[in.edge(at)] =
          static_cast<u16>(i % 2 == 0 ? chunk.words[i / 2] : chunk.words[i / 2] >> 16);
    }
  }
}

}  // namespace ridge::cuda
