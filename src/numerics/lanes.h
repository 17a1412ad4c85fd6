// Sixteen xoshiro128++ generators (Blackman and Vigna, 2019) side by side, for bulk input generation; internal.
// Written with compiler vectors, so the same source becomes AVX-512, AVX2 or plain instructions.
#pragma once

#include <cstdint>

#include "numerics/philox.h"

namespace ridge::numerics {

inline constexpr int kLanes = 16;
using U32Lanes = std::uint32_t __attribute__((vector_size(64)));
using I32Lanes = std::int32_t __attribute__((vector_size(64)));
using F32Lanes = float __attribute__((vector_size(64)));

struct LaneRandom {
  U32Lanes state[4];

  // Independent for every (key, block): all 2048 bits of state are drawn from Philox.
  void seed(std::uint64_t key, std::uint64_t block) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const PhiloxCounter words = philox_block(key, block * kLanes + static_cast<std::uint64_t>(lane));
      for (int i = 0; i < 4; ++i) state[i][lane] = words[static_cast<std::size_t>(i)];
    }
  }

  [[gnu::always_inline]] void next(U32Lanes& out) {
    const U32Lanes sum = state[0] + state[3];
    out = ((sum << 7) | (sum >> 25)) + state[0];
    const U32Lanes shifted = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = (state[3] << 11) | (state[3] >> 21);
  }
};

}  // namespace ridge::numerics
