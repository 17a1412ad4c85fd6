#include "measure/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "base/error.h"

namespace ridge::measure {
namespace {

constexpr std::uintptr_t kLine = 64;

#if defined(__x86_64__)
bool has_clflushopt() {
  static const bool present = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && ((b >> 23) & 1u) != 0;
  }();
  return present;
}

__attribute__((target("clflushopt"))) void flush_opt(std::uintptr_t first, std::uintptr_t last) {
  for (std::uintptr_t line = first; line < last; line += kLine) _mm_clflushopt(reinterpret_cast<void*>(line));
  _mm_sfence();
}

void flush(std::uintptr_t first, std::uintptr_t last) {
  for (std::uintptr_t line = first; line < last; line += kLine) _mm_clflush(reinterpret_cast<void*>(line));
  _mm_mfence();
}
#endif

double seconds(const timespec& t) { return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec); }
double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); }

}  // namespace

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

Status pin(std::int32_t thread_id, const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(thread_id, sizeof set, &set) != 0) {
    return make_error(ErrorCode::kIo, "cannot pin to {} processors: {}", cpus.size(), std::strerror(errno));
  }
  return ok_status();
}

Result<Placement> place(std::int64_t threads, const std::vector<int>& usable) {
  if (threads < 1) return invalid("threads = {}; at least 1 is needed", threads);
  if (static_cast<std::size_t>(threads) > usable.size()) {
    return with_hint(invalid("threads = {}, but only {} processors may be used", threads, usable.size()),
                     fmt::format("ask for at most {} threads", usable.size()));
  }
  Placement placement;
  placement.measured.assign(usable.begin(), usable.begin() + threads);
  placement.harness = static_cast<std::size_t>(threads) < usable.size() ? std::vector<int>{usable.back()} : usable;
  return placement;
}

std::vector<int> Placement::all() const {
  std::vector<int> cpus = measured;
  cpus.insert(cpus.end(), harness.begin(), harness.end());
  return cpus;
}

bool evict(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data) & ~(kLine - 1);
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(data) + bytes;
#if defined(__x86_64__)
  if (has_clflushopt()) {
    flush_opt(begin, end);
  } else {
    flush(begin, end);
  }
  return true;
#elif defined(__aarch64__)
  for (std::uintptr_t line = begin; line < end; line += kLine) asm volatile("dc civac, %0" ::"r"(line) : "memory");
  asm volatile("dsb sy" ::: "memory");
  return true;
#else
  (void)begin;
  (void)end;
  return false;
#endif
}

const char* evict_method() {
#if defined(__x86_64__)
  return has_clflushopt() ? "clflushopt" : "clflush";
#elif defined(__aarch64__)
  return "dc civac";
#else
  return "none";
#endif
}

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

double dependent_chain(std::int64_t steps) {
  std::uint64_t x = 88172645463325252u;
  const std::uint64_t start = now_ns();
  for (std::int64_t i = 0; i < steps; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
#if defined(__GNUC__)
    asm volatile("" : "+r"(x));
#endif
  }
  return 1e-9 * static_cast<double>(now_ns() - start);
}

CpuAccount read_cpu_account() {
  CpuAccount account;
  std::ifstream file("/proc/stat");
  std::string name;
  // user nice system idle iowait irq softirq steal, in ticks; guest time is inside user.
  double ticks[8] = {};
  file >> name;
  for (double& value : ticks) file >> value;
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  account.busy = tick * (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]);
  account.steal = tick * ticks[7];
  account.total = account.busy + account.steal + tick * (ticks[3] + ticks[4]);
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(static_cast<__rusage_who>(who), &usage);
    account.own += seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  return account;
}

StretchGuards guards_between(const CpuAccount& before, const CpuAccount& after, double host_seconds) {
  StretchGuards guards;
  const double total = after.total - before.total;
  if (total <= 0) return guards;
  guards.steal_fraction = std::max(0.0, after.steal - before.steal) / total;
  const double foreign = (after.busy - before.busy) - (after.own - before.own) - host_seconds;
  guards.foreign_load = std::clamp(foreign / total, 0.0, 1.0);
  return guards;
}

std::string disturbance(const StretchGuards& stretch, double max_steal, double max_foreign_load) {
  std::string text;
  if (!(stretch.foreign_load <= max_foreign_load)) {
    text = fmt::format("others used {:.0f} % of the processors", 100 * stretch.foreign_load);
  }
  if (!(stretch.steal_fraction <= max_steal)) {
    text +=
        fmt::format("{}the hypervisor took {:.0f} % of them", text.empty() ? "" : ", ", 100 * stretch.steal_fraction);
  }
  return text;
}

double process_cpu_seconds(std::int32_t pid) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return -1.0;
  return seconds(time);
}

}  // namespace ridge::measure
