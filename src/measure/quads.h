// Interleaving of two arms: quads of blocks in the order ABBA or BAAB, each order by a secret coin.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "record/measurement.h"
#include "ridge/result.h"

namespace ridge::measure {

enum class Arm { kIncumbent, kCandidate };

// One cold, verified launch of an arm; its latency in seconds.
using Launch = std::function<Result<double>(Arm)>;

// Coins that cannot be foreseen.
class Coin {
 public:
  Coin();
  explicit Coin(std::uint64_t seed) : state_(seed) {}  // reproducible, for tests
  bool flip() { return (next() >> 63) != 0; }
  std::uint64_t next();
  // Uniform in 0 .. bound - 1.
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }

 private:
  std::uint64_t state_;
};

// `quads` quads with blocks of `launches` launches. The first failing launch ends it.
Result<std::vector<record::Quad>> run_quads(const Launch& launch, std::int64_t quads, std::int64_t launches,
                                            Coin& coin);

}  // namespace ridge::measure
