// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
// 128-bit counter and 64-bit key in, four independent 32-bit words out; no state, so element i of a stream can be
// drawn by anyone at any time: kernels, hosts and threads agree whatever the split of the work. Not cryptographic.
#pragma once

#include <array>
#include <cstdint>

namespace ridge::numerics {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xd2511f53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xcd9e8d57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9e3779b9;  // golden ratio
    key[1] += 0xbb67ae85;  // sqrt(3) - 1
  }
  return counter;
}

// Four words of the stream `seed`: word w of the stream is philox_block(seed, w / 4)[w % 4].
constexpr PhiloxCounter philox_block(std::uint64_t seed, std::uint64_t block, std::uint64_t stream = 0) {
  return philox4x32_10({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                        static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                       {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

constexpr std::uint32_t philox_word(std::uint64_t seed, std::uint64_t word) {
  return philox_block(seed, word / 4)[word % 4];
}

// A seed for part `index` of something that has the seed `seed`: operands of one call, calls of one session.
constexpr std::uint64_t derive_seed(std::uint64_t seed, std::uint64_t index) {
  const PhiloxCounter words = philox_block(seed, index, 0x6465726976650000);
  return (std::uint64_t{words[1]} << 32) | words[0];
}

}  // namespace ridge::numerics
