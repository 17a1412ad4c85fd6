#include "device/cpu/matrix_unit.h"

#include <fmt/format.h>
#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cerrno>
#include <cstring>

#include "device/cpu/cpu_info.h"

namespace ridge::device::cpu {
namespace {

std::string ask() {
  for (const char* feature : {"amx_tile", "amx_bf16", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16"}) {
    if (!cpu_info().has(feature)) return fmt::format("the processor has no {}, or may not use it", feature);
  }
#if defined(__linux__) && defined(__x86_64__)
  constexpr int kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h, XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kAskForState, kTileData) == 0) return {};
  return fmt::format("the operating system keeps the matrix unit from this process: {}", std::strerror(errno));
#else
  return "only Linux on x86-64 is asked for the matrix unit";
#endif
}

}  // namespace

const std::string& matrix_unit_missing() {
  static const std::string why = ask();
  return why;
}

}  // namespace ridge::device::cpu
