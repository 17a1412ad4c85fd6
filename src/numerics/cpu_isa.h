// The instruction set that vectorised host loops of this module use, chosen once per process; internal.
// A loop is written once as an always-inline function and instantiated in one function per [[gnu::target]].
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <atomic>

#include "base/environment.h"

namespace ridge::numerics {

using Isa = InstructionSet;

inline Isa detected_isa() {
#if defined(__x86_64__)
  static const Isa chosen = [] {
    __builtin_cpu_init();
    const bool avx512 =
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;  // clang 14 has no word for f16c
    const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
    return std::min(instruction_set_limit(), avx512 ? Isa::kAvx512 : avx2 ? Isa::kAvx2 : Isa::kPortable);
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
