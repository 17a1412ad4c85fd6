// The instruction set that vectorised host loops of this module use, chosen once per process; internal.
// A loop is written once as an always-inline function and instantiated in one function per [[gnu::target]].
#pragma once

#include <algorithm>
#include <atomic>

namespace ridge::numerics {

enum class Isa { kPortable, kAvx2, kAvx512 };

inline Isa detected_isa() {
#if defined(__x86_64__)
  static const Isa chosen = [] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
      return Isa::kAvx512;
    }
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? Isa::kAvx2 : Isa::kPortable;
  }();
  return chosen;
#else
  return Isa::kPortable;
#endif
}

// Tests lower it to run the paths of lesser machines.
inline std::atomic<Isa> isa_limit{Isa::kAvx512};

inline Isa best_isa() { return std::min(detected_isa(), isa_limit.load(std::memory_order_relaxed)); }

}  // namespace ridge::numerics
