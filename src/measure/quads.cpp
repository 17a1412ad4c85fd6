#include "measure/quads.h"

namespace ridge::measure {

Result<std::vector<record::Quad>> run_quads(const Launch& launch, std::int64_t quads, std::int64_t launches,
                                            Coin& coin) {
  std::vector<record::Quad> result;
  for (std::int64_t q = 0; q < quads; ++q) {
    record::Quad quad;
    quad.order = coin.order();
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
