#include "base/coin.h"

#include "base/hash.h"

namespace ridge {

Coin::Coin() : state_(secret_seed()) {}

// splitmix64
std::uint64_t Coin::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace ridge
