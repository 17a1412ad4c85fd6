// V transposed, for the kernel of codes: the launch in front of it. Stands behind the names of whole numbers and
// let_next_grid_start(); includes nothing but the order of keys, so that a test runs it on the host.
#pragma once
#include "key_order.cuh"

namespace ridge::cuda {
namespace {

// A block turns so many keys of a head.
inline constexpr u32 kTurnedKeys = 128, kTurningThreads = 256, kMostColumns = 128;
inline constexpr u32 kOrders = kTurnedKeys / kKeysOfOrder;

// Four columns of four keys, a key in a word, become four keys of four columns.
__device__ __forceinline__ void turn(u32 (&words)[4]) {
  const u32 low = __byte_perm(words[0], words[1], 0x5140), next_low = __byte_perm(words[2], words[3], 0x5140);
  const u32 high = __byte_perm(words[0], words[1], 0x7362), next_high = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low, next_low, 0x5410);
  words[1] = __byte_perm(low, next_low, 0x7632);
  words[2] = __byte_perm(high, next_high, 0x5410);
  words[3] = __byte_perm(high, next_high, 0x7632);
}

}  // namespace
}  // namespace ridge::cuda

// V [batch, keys, kv_heads, columns] to [batch, kv_heads, columns, whole blocks of keys], with zeros behind the last
// key and the keys of every 16 in the order of key_at().
extern "C" __global__ void __launch_bounds__(ridge::cuda::kTurningThreads)
    ridge_attention_turn_values(const ridge::cuda::u8* const v, ridge::cuda::u8* const turned,
                                const ridge::cuda::i64 batch_stride, const ridge::cuda::i64 key_stride,
                                const ridge::cuda::i64 head_stride, const ridge::cuda::u32 k_len,
                                const ridge::cuda::u32 kv_heads, const ridge::cuda::u32 columns) {
  using namespace ridge::cuda;
  // Four words between the keys of one order and the next: lanes of a warp read from different banks.
  alignas(16) __shared__ u32 keys[kTurnedKeys * kMostColumns / 4 + kOrders * 4];
  let_next_grid_start();
  const u32 words = columns / 4, chunks = columns / 16, first = blockIdx.x * kTurnedKeys;
  const auto place_of = [&](u32 key) { return key * words + key / kKeysOfOrder * 4; };
  const u8* const from = v + blockIdx.y / kv_heads * batch_stride + blockIdx.y % kv_heads * head_stride;
  for (u32 i = threadIdx.x; i < kTurnedKeys * chunks; i += kTurningThreads) {
    const u32 key = i / chunks, chunk = i % chunks;
    uint4 codes = make_uint4(0, 0, 0, 0);
    if (first + key < k_len) {
      codes = __ldg(reinterpret_cast<const uint4*>(from + (first + key) * key_stride + chunk * 16));
    }
    *reinterpret_cast<uint4*>(keys + place_of(key) + chunk * 4) = codes;
  }
  __syncthreads();
  u8* const to = turned + (static_cast<i64>(blockIdx.y) * columns * gridDim.x + blockIdx.x) * kTurnedKeys;
  for (u32 i = threadIdx.x; i < kOrders * words; i += kTurningThreads) {
    const u32 order = i % kOrders, word = i / kOrders;
    u32 rows[4][4];
#pragma unroll
    for (u32 quarter = 0; quarter < 4; ++quarter) {
      u32 four[4];
#pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        four[j] = keys[place_of(order * kKeysOfOrder + key_at(4 * quarter + j)) + word];
      }
      turn(four);
#pragma unroll
      for (u32 c = 0; c < 4; ++c) rows[c][quarter] = four[c];
    }
#pragma unroll
    for (u32 c = 0; c < 4; ++c) {
      u8* const row = to + static_cast<i64>(4 * word + c) * gridDim.x * kTurnedKeys;
      *reinterpret_cast<uint4*>(row + order * kKeysOfOrder) =
          make_uint4(rows[c][0], rows[c][1], rows[c][2], rows[c][3]);
    }
  }
}
