// What this processor is and can do, asked once from the processor itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::device::cpu {

struct CpuInfo {
  std::string name;                   // "Intel(R) Xeon(R) Processor"; "unknown" where the processor does not say
  std::string vendor;                 // "GenuineIntel", "AuthenticAMD"; "unknown" where the processor does not say
  std::string arch;                   // "x86-64", "aarch64"
  std::vector<std::string> features;  // usable ones: the operating system saves their registers
  int cpus = 1;                       // that this process may run on
  std::int64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // of one core (L3: of one cluster); 0 = unknown

  [[nodiscard]] bool has(std::string_view feature) const;
  // Every instruction that files called *_avx2.cpp are compiled with: AVX2, FMA and F16C.
  [[nodiscard]] bool has_avx2() const;
  // Every instruction that files called *_avx512.cpp are compiled with: F, BW, DQ and VL, and those of has_avx2().
  [[nodiscard]] bool has_avx512() const;
};

const CpuInfo& cpu_info();

// Of one thing made for three sets of instructions, the one with the widest vectors that this processor has.
template <class T>
const T& widest(const T& avx512, const T& avx2, const T& portable) {
  if (cpu_info().has_avx512()) return avx512;
  return cpu_info().has_avx2() ? avx2 : portable;
}

// The processors this process may run on, ascending.
std::vector<int> allowed_cpus();

}  // namespace ridge::device::cpu
