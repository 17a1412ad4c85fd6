// Random numbers for simulations: the same on every machine, which std::normal_distribution does not promise.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace ridge::stats {

class Noise {
 public:
  explicit Noise(std::uint64_t seed) : random_(seed) {}
  double uniform() { return (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53; }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }
  // Heavy tails, like launches that the machine disturbed: one in ten is five times wider.
  double heavy() { return normal() * (uniform() < 0.1 ? 5 : 1); }
  bool coin() { return (random_() >> 63) != 0; }

 private:
  std::mt19937_64 random_;
};

}  // namespace ridge::stats
