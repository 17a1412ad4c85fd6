// Ceilings of one multiprocessor's parts, all of them at once: shared memory, multiply-add units, and empty launches.
#include <algorithm>

#include "base/error.h"
#include "evaluate/cuda/ceilings.h"

namespace ridge::evaluate::cuda {
namespace {

namespace gpu = device::cuda;

constexpr int kUnroll = kUnrolls.front();  // means nothing to these kernels

struct Unit {
  const char *name, *unit, *kernel;
  std::uint32_t threads;
  std::int64_t steps;
  double amount;  // of one thread and step: bytes or FLOP, as ceilings.cu has it
  const char* method;
};
constexpr Unit kUnits[] = {
    {"shared_memory_bandwidth", "B/s", "ridge_shared", 512, 200, 64.0 * 16, "reads of 16 bytes without bank conflicts"},
    {"fma_f32", "FLOP/s", "ridge_fma_f32", 256, 8192, 2.0 * 16, "16 chains of multiply-adds a thread"},
    {"fma_f64", "FLOP/s", "ridge_fma_f64", 256, 4096, 2.0 * 16, "16 chains of multiply-adds a thread"}};

Result<record::Ceiling> unit_ceiling(CeilingBench& bench, const Unit& unit, void* out) {
  RIDGE_TRY(kernel, bench.kernel(kUnroll, unit.kernel));
  const gpu::GpuInfo& info = bench.device().info();
  // As many as stay resident at once: no block waits, no unit idles.
  const std::uint32_t resident = static_cast<std::uint32_t>(info.max_threads_per_multiprocessor) / unit.threads;
  const std::uint32_t blocks = static_cast<std::uint32_t>(info.multiprocessors) * resident;
  CeilingBench::Subject subject;
  subject.name = unit.name;
  subject.unit = unit.unit;
  subject.amount = unit.amount * static_cast<double>(unit.steps) * blocks * unit.threads;
  subject.method = fmt::format("{}, {} blocks of {} threads", unit.method, blocks, unit.threads);
  subject.launches = [kernel, out, blocks, &unit](gpu::StreamHandle stream) {
    void* to = out;
    std::int64_t steps = unit.steps;
    void* const arguments[] = {&to, &steps};
    return kernel.launch({{blocks}, {unit.threads}}, arguments, stream);
  };
  return bench.measure(subject);
}

// Seconds instead of a rate: the samples are turned over, and the least counts.
record::Ceiling as_time(record::Ceiling ceiling) {
  ceiling.unit = "s";
  for (double& sample : ceiling.samples) sample = 1 / sample;
  ceiling.value = 1 / ceiling.value;
  return ceiling;
}

}  // namespace

Status unit_ceilings(CeilingBench& bench, const NoteCeiling& note, std::vector<record::Ceiling>& ceilings) {
  RIDGE_TRY(out, bench.constant(DType::kF64, 1, 1024, 0));
  double at = 0;
  for (const Unit& unit : kUnits) {
    note(unit.name, at++ / 4);
    RIDGE_TRY(ceiling, unit_ceiling(bench, unit, out.data));
    ceilings.push_back(std::move(ceiling));
  }
  note("launch_time", at / 4);
  RIDGE_TRY(kernel, bench.kernel(kUnroll, "ridge_empty"));
  CeilingBench::Subject empty;
  empty.name = "launch_time_chained";
  empty.amount = 1;
  empty.method = "an empty kernel";
  empty.launches = [kernel](gpu::StreamHandle stream) { return kernel.launch({{1}, {32}}, {}, stream); };
  RIDGE_TRY(chained, bench.measure(empty));
  record::Ceiling alone = chained;
  alone.name = "launch_time";
  alone.unit = "s";
  alone.samples = {bench.instrument().empty};
  alone.value = bench.instrument().empty;
  alone.method = "an empty kernel between two events, median: part of every span that is measured";
  ceilings.push_back(std::move(alone));
  ceilings.push_back(as_time(std::move(chained)));
  bench.free_memory();
  return ok_status();
}

}  // namespace ridge::evaluate::cuda
