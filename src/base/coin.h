// Numbers drawn from a seed, the same for the same seed: coins, places, contents.
#pragma once

#include <cstdint>

namespace ridge {

class Coin {
 public:
  Coin();  // of a secret seed: it cannot be foreseen
  explicit Coin(std::uint64_t seed) : state_(seed) {}
  bool flip() { return (next() >> 63) != 0; }
  std::uint64_t next();
  // Uniform in 0 .. bound - 1.
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  // The order in which the arms of a quad run: "ABBA" or "BAAB".
  const char* order() { return flip() ? "ABBA" : "BAAB"; }

 private:
  std::uint64_t state_;
};

}  // namespace ridge
