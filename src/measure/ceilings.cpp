#include "measure/ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/error.h"
#include "measure/ceiling_kernels.h"
#include "measure/machine.h"
#include "stats/summary.h"

namespace ridge::measure {
namespace {

constexpr double kArithmeticRun = 2e-3;         // seconds of one sample
constexpr std::size_t kArrayBytes = 64u << 20;  // per thread and array
constexpr double kQuantile = 0.95;

struct Free {
  void operator()(double* memory) const { std::free(memory); }
};
using Array = std::unique_ptr<double[], Free>;

Array make_array(std::size_t count) {
  Array array(static_cast<double*>(std::aligned_alloc(64, count * sizeof(double))));
  if (array) std::fill(array.get(), array.get() + count, 1.0);  // touched here: by the thread that will use it
  return array;
}

// Runs work(thread) on every processor of `cpus` at the same time, `samples` times; returns the seconds of each round,
// from the common start to the end of the slowest.
template <class Prepare, class Work>
std::vector<double> run_rounds(const std::vector<int>& cpus, double seconds, Prepare prepare, Work work) {
  std::vector<double> rounds;
  std::uint64_t start = 0;
  const std::uint64_t deadline = now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  bool more = true, started = false;
  const auto turn = [&]() noexcept {
    const std::uint64_t now = now_ns();
    if (started) {
      rounds.push_back(1e-9 * static_cast<double>(now - start));
      more = now < deadline || rounds.size() < 8;
    }
    started = true;
    start = now_ns();
  };
  std::barrier gate(static_cast<std::ptrdiff_t>(cpus.size()), turn);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    threads.emplace_back([&, i] {
      (void)pin(0, {cpus[i]});
      prepare(i);
      gate.arrive_and_wait();
      while (more) {
        work(i);
        gate.arrive_and_wait();
      }
    });
  }
  threads.clear();
  if (!rounds.empty()) rounds.erase(rounds.begin());  // the first one warms up
  return rounds;
}

record::Ceiling make_ceiling(std::string name, std::string unit, std::int64_t threads, double amount,
                             const std::vector<double>& rounds, std::string method) {
  record::Ceiling ceiling;
  ceiling.name = std::move(name);
  ceiling.unit = std::move(unit);
  ceiling.threads = threads;
  for (const double round : rounds) ceiling.samples.push_back(amount / round);
  ceiling.value = stats::quantile(ceiling.samples, kQuantile);
  ceiling.method = std::move(method);
  return ceiling;
}

record::Ceiling arithmetic(const std::string& name, const ArithmeticKernel& kernel, const std::vector<int>& cpus,
                           double seconds) {
  // As many steps as fit one sample, from a first look at the rate.
  std::int64_t steps = 1000;
  volatile double sink = 0;
  double taken = 0;
  while (taken < kArithmeticRun / 4) {
    steps *= 2;
    const std::uint64_t start = now_ns();
    sink = kernel.run(steps);
    taken = 1e-9 * static_cast<double>(now_ns() - start);
  }
  steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(steps) * kArithmeticRun / taken));
  const std::vector<double> rounds = run_rounds(
      cpus, seconds, [](std::size_t) {}, [&](std::size_t) { sink = kernel.run(steps); });
  const double amount = kernel.flop_per_step * static_cast<double>(steps) * static_cast<double>(cpus.size());
  return make_ceiling(name, "FLOP/s", static_cast<std::int64_t>(cpus.size()), amount, rounds, kernel.method);
}

enum class Traffic { kRead, kWrite, kCopy, kTriad };
struct Stream {
  const char* name;
  Traffic kind;
  double arrays;  // that move
};
constexpr Stream kStreams[] = {{"read_bandwidth", Traffic::kRead, 1},
                               {"write_bandwidth", Traffic::kWrite, 1},
                               {"copy_bandwidth", Traffic::kCopy, 2},
                               {"triad_bandwidth", Traffic::kTriad, 3}};

// A quarter of the second-level cache, so that three arrays stay in it.
std::size_t cached_array_bytes() {
  constexpr long kSmallest = 64l << 10, kLargest = 1l << 20;
  return static_cast<std::size_t>(std::clamp(::sysconf(_SC_LEVEL2_CACHE_SIZE) / 4, kSmallest, kLargest)) & ~511ul;
}

record::Ceiling bandwidth(const Stream& stream, bool warm, const std::vector<int>& cpus, double seconds) {
  const std::size_t bytes = warm ? cached_array_bytes() : kArrayBytes, count = bytes / sizeof(double);
  const std::size_t passes = kArrayBytes / bytes;  // of one sample: the same traffic, cold or warm
  const Stores stores = warm ? Stores::kIntoCaches : Stores::kPastCaches;
  struct Arrays {
    Array x, y, z;
  };
  std::vector<Arrays> arrays(cpus.size());
  volatile double sink = 0;
  const auto prepare = [&](std::size_t i) { arrays[i] = {make_array(count), make_array(count), make_array(count)}; };
  const auto work = [&](std::size_t i) {
    const Arrays& a = arrays[i];
    if (!a.x || !a.y || !a.z) return;
    for (std::size_t pass = 0; pass < passes; ++pass) {
      switch (stream.kind) {
        case Traffic::kRead: sink = stream_read(a.x.get(), count); break;
        case Traffic::kWrite: stream_write(a.y.get(), count, stores); break;
        case Traffic::kCopy: stream_copy(a.x.get(), a.y.get(), count, stores); break;
        case Traffic::kTriad: stream_triad(a.x.get(), a.z.get(), a.y.get(), count, stores); break;
      }
    }
  };
  const std::vector<double> rounds = run_rounds(cpus, seconds, prepare, work);
  const double amount = stream.arrays * static_cast<double>(bytes * passes) * static_cast<double>(cpus.size());
  const std::string method = warm ? fmt::format("{} arrays of {} KiB per thread, in the second-level cache, {} passes",
                                                stream.arrays, bytes >> 10, passes)
                                  : fmt::format("{} arrays of {} MiB per thread, streamed", stream.arrays, bytes >> 20);
  return make_ceiling(std::string(stream.name) + (warm ? "_warm" : ""), "B/s", static_cast<std::int64_t>(cpus.size()),
                      amount, rounds, method);
}

}  // namespace

Result<std::vector<record::Ceiling>> measure_ceilings(const CeilingOptions& options,
                                                      const std::function<void(const std::string&, double)>& progress) {
  RIDGE_TRY(placement, place(options.threads, usable_cpus()));
  const std::vector<int>& cpus = placement.measured;
  std::vector<record::Ceiling> ceilings;
  int done = 0;
  const auto note = [&](const char* name) {
    if (progress) progress(name, done++ / 12.0);
  };
  note("fma_f32");
  ceilings.push_back(arithmetic("fma_f32", best_fma_f32(), cpus, options.seconds));
  const record::Ceiling f32 = ceilings.back();
  note("fma_f64");
  ceilings.push_back(arithmetic("fma_f64", best_fma_f64(), cpus, options.seconds));
  note("fma_bf16");
  const auto widened = [&](const record::Ceiling& from, const char* name, const char* how) {
    record::Ceiling ceiling = from;
    ceiling.name = name;
    ceiling.method = std::string(how) + from.method;
    return ceiling;
  };
  constexpr const char* kToF32 = "widened to fp32: ";
  record::Ceiling bf16 = widened(f32, "fma_bf16", kToF32);
  if (const ArithmeticKernel native = best_dot_bf16(); native.run != nullptr) {
    record::Ceiling dot = arithmetic("fma_bf16", native, cpus, options.seconds);
    if (dot.value > bf16.value) bf16 = std::move(dot);
  }
  ceilings.push_back(bf16);
  // Native fp16 arithmetic also sums in fp16, which the operators do not allow: widening is the ceiling.
  for (const char* name : {"fma_f16", "fma_e4m3fn", "fma_e5m2"}) ceilings.push_back(widened(f32, name, kToF32));
  if (const ArithmeticKernel tiles = best_tiles_bf16(); tiles.run != nullptr) {
    note("matrix_bf16");
    const record::Ceiling matrix = arithmetic("matrix_bf16", tiles, cpus, options.seconds);
    ceilings.push_back(matrix);
    ceilings.push_back(widened(matrix, "matrix_fp8", "widened to bf16: "));
  }
  for (const bool warm : {false, true}) {
    for (const Stream& stream : kStreams) {
      note(stream.name);
      ceilings.push_back(bandwidth(stream, warm, cpus, warm ? options.seconds / 2 : options.seconds));
    }
  }
  return ceilings;
}

}  // namespace ridge::measure
