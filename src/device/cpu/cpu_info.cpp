#include "device/cpu/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/environment.h"

namespace ridge::device::cpu {
namespace {

std::int64_t cache_size(int name) { return std::max(0L, sysconf(name)); }

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

bool bit(unsigned value, int index) { return ((value >> index) & 1u) != 0; }

// Which register states the operating system saves: XCR0.
std::uint64_t enabled_states() {
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

std::vector<std::string> read_features() {
  std::vector<std::string> features;
  const Registers basic = cpuid(1), extended = cpuid(7), extended1 = cpuid(7, 1);
  const std::uint64_t states = bit(basic.c, 27) ? enabled_states() : 0;
  const InstructionSet limit = instruction_set_limit();
  const bool ymm = (states & 0x6) == 0x6 && limit >= InstructionSet::kAvx2;
  const bool zmm = (states & 0xe6) == 0xe6 && limit >= InstructionSet::kAvx512;
  const bool tiles = (states & 0x60000) == 0x60000 && limit >= InstructionSet::kAvx512;
  const auto add = [&](bool present, const char* name) {
    if (present) features.emplace_back(name);
  };
  add(bit(basic.c, 20), "sse4.2");
  add(ymm && bit(basic.c, 28), "avx");
  add(ymm && bit(basic.c, 12), "fma");
  add(ymm && bit(basic.c, 29), "f16c");
  add(ymm && bit(extended.b, 5), "avx2");
  add(ymm && bit(extended1.a, 4), "avx_vnni");
  add(zmm && bit(extended.b, 16), "avx512f");
  add(zmm && bit(extended.b, 17), "avx512dq");
  add(zmm && bit(extended.b, 30), "avx512bw");
  add(zmm && bit(extended.b, 31), "avx512vl");
  add(zmm && bit(extended.c, 11), "avx512_vnni");
  add(zmm && bit(extended1.a, 5), "avx512_bf16");
  add(zmm && bit(extended.d, 23), "avx512_fp16");
  add(tiles && bit(extended.d, 24), "amx_tile");
  add(tiles && bit(extended.d, 22), "amx_bf16");
  add(tiles && bit(extended.d, 25), "amx_int8");
  return features;
}

std::string read_vendor() {
  const Registers r = cpuid(0);
  std::array<char, 13> text{};
  const std::array<unsigned, 3> parts{r.b, r.d, r.c};
  std::memcpy(text.data(), parts.data(), sizeof parts);
  return text.data();
}

std::string read_name() {
  if (cpuid(0x80000000).a < 0x80000004) return "unknown";
  std::array<char, 49> text{};
  for (unsigned i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002 + i);
    std::memcpy(text.data() + 16 * i, &r, 16);
  }
  const std::string name(text.data());
  const std::size_t first = name.find_first_not_of(' ');
  return first == std::string::npos ? "unknown" : name.substr(first, name.find_last_not_of(' ') - first + 1);
}

constexpr const char* kArch = "x86-64";
#else
std::vector<std::string> read_features() { return {}; }
std::string read_vendor() { return "unknown"; }
std::string read_name() { return "unknown"; }
#if defined(__aarch64__)
constexpr const char* kArch = "aarch64";
#else
constexpr const char* kArch = "unknown";
#endif
#endif

CpuInfo read() {
  CpuInfo info;
  info.name = read_name();
  info.vendor = read_vendor();
  info.arch = kArch;
  info.features = read_features();
  info.cpus = static_cast<int>(allowed_cpus().size());
  info.l1d_bytes = cache_size(_SC_LEVEL1_DCACHE_SIZE);
  info.l2_bytes = cache_size(_SC_LEVEL2_CACHE_SIZE);
  info.l3_bytes = cache_size(_SC_LEVEL3_CACHE_SIZE);
  return info;
}

}  // namespace

bool CpuInfo::has(std::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

bool CpuInfo::has_avx2() const { return has("avx2") && has("fma") && has("f16c"); }

bool CpuInfo::has_avx512() const {
  return has_avx2() && has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = read();
  return info;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

}  // namespace ridge::device::cpu
