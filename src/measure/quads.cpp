#include "measure/quads.h"

#include "base/hash.h"

namespace ridge::measure {

Coin::Coin() : state_(secret_seed()) {}

// splitmix64
std::uint64_t Coin::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Result<std::vector<record::Quad>> run_quads(const Launch& launch, std::int64_t quads, std::int64_t launches,
                                            Coin& coin) {
  std::vector<record::Quad> result;
  for (std::int64_t q = 0; q < quads; ++q) {
    record::Quad quad;
    quad.order = coin.flip() ? "ABBA" : "BAAB";
    for (const char letter : quad.order) {
      std::vector<double> block;
      for (std::int64_t i = 0; i < launches; ++i) {
        RIDGE_TRY(latency, launch(letter == 'A' ? Arm::kIncumbent : Arm::kCandidate));
        block.push_back(latency);
      }
      quad.blocks.push_back(std::move(block));
    }
    result.push_back(std::move(quad));
  }
  return result;
}

}  // namespace ridge::measure
