// Any processor: four lanes in GCC's generic vectors, which every compiler maps to what the machine has.
#include <cstring>
#include <type_traits>

#include "numerics/convert.h"
#include "ops/matmul/simd/tile.h"

namespace ridge::ops::matmul::simd {
namespace portable {

struct Vec {
  static constexpr int kLanes = 4, kRows = 4, kDepth = 1;
  typedef float Reg __attribute__((vector_size(16)));
  template <Element E>
  using Stored = std::conditional_t<E == kF32, float, std::uint16_t>;

  static Reg zero() { return Reg{}; }
  static Reg load(const float* p) { return load_part(p, kLanes); }
  static Reg load_part(const float* p, int count) {
    Reg r{};
    std::memcpy(&r, p, static_cast<std::size_t>(count) * sizeof(float));
    return r;
  }
  static void store(float* p, Reg r) { store_part(p, r, kLanes); }
  static void store_part(float* p, Reg r, int count) {
    std::memcpy(p, &r, static_cast<std::size_t>(count) * sizeof(float));
  }
  static Reg broadcast(const float* p) { return Reg{*p, *p, *p, *p}; }
  static Reg fma(Reg x, Reg y, Reg z) { return x * y + z; }
  static Reg add(Reg x, Reg y) { return x + y; }
  template <Element E>
  static Reg load_as(const Stored<E>* p) {
    return load_part_as<E>(p, kLanes);
  }
  template <Element E>
  static Reg load_part_as(const Stored<E>* p, int count) {
    if constexpr (E == kF32) {
      return load_part(p, count);
    } else {
      float wide[kLanes] = {};
      numerics::to_float(E == kBf16 ? DType::kBf16 : DType::kF16, p, wide, count);
      return load_part(wide, kLanes);
    }
  }
  template <Element E>
  static Reg widen_as(const std::uint16_t* p, int count) {
    return load_part_as<E>(p, count);
  }
  template <Element E>
  static void narrow_as(std::uint16_t* p, Reg r, int count) {
    float wide[kLanes];
    store(wide, r);
    numerics::from_float(E == kBf16 ? DType::kBf16 : DType::kF16, wide, p, count);
  }
  static void transpose(Reg (&r)[kLanes]) {
    for (int i = 0; i < kLanes; ++i) {
      for (int j = 0; j < i; ++j) {
        const float x = r[i][j];
        r[i][j] = r[j][i];
        r[j][i] = x;
      }
    }
  }
};

}  // namespace portable

const KernelSet& portable_kernels() {
  static constexpr KernelSet kSet = make_kernels<portable::Vec, 2>("portable");
  return kSet;
}

}  // namespace ridge::ops::matmul::simd
