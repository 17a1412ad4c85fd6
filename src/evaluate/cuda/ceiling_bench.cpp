#include "evaluate/cuda/ceiling_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <thread>

#include "base/embedded.h"
#include "base/error.h"
#include "device/cuda/nvml.h"
#include "evaluate/cuda/build_apart.h"
#include "numerics/fill.h"
#include "stats/summary.h"

namespace ridge::evaluate::cuda {

std::span<const EmbeddedFile> ceiling_files();  // ceilings.cu

namespace {

constexpr double kSample = 2e-3, kPerCeiling = 0.2;  // seconds
constexpr int kFewestSamples = 20, kMostSamples = 60, kWarmUps = 3, kQuickSamples = 3, kMostRuns = 200;
// (kMostRuns: a stream takes about a thousand launches behind a closed gate, then the host waits.)
constexpr double kLimit = 20.0;  // seconds of one timing: none takes a tenth of it
// As on the CPU: a robust maximum, because a ceiling that noise has lowered would let a kernel look better than it is.
constexpr double kQuantile = 0.95;

Result<std::vector<std::string>> images(const std::string& arch, const toolchain::BuildOptions& options) {
  std::vector<DeviceJob> jobs(1 + kUnrolls.size());
  jobs[0].code.files = {{"harness.cu", harness_source()}};
  for (std::size_t i = 0; i < kUnrolls.size(); ++i) {
    jobs[1 + i].code.files = {{"ceilings.cu", std::string(ceiling_files().front().text)}};
    jobs[1 + i].code.defines = {fmt::format("UNROLL={}", kUnrolls[i])};
  }
  RIDGE_TRY(built, build_apart(jobs, arch, options));
  std::vector<std::string> cubins;
  for (toolchain::DeviceBuild& one : built) {
    if (!one.ok()) return make_error(ErrorCode::kInternal, "a kernel of the ceilings does not compile: {}", one.error);
    cubins.push_back(std::move(one.cubin));
  }
  return cubins;
}

std::string name_of(const device::cuda::GpuInfo& gpu) {
  const std::string driver = device::cuda::nvml_driver_version();
  return fmt::format("{}, {}, driver {}", gpu.name, gpu.uuid,
                     driver.empty()
                         ? fmt::format("for CUDA {}.{}", gpu.driver_version / 1000, gpu.driver_version % 1000 / 10)
                         : driver);
}

}  // namespace

Result<std::unique_ptr<CeilingBench>> CeilingBench::create(const device::cuda::GpuInfo& gpu,
                                                           const toolchain::BuildOptions& options) {
  RIDGE_TRY(cubins, images(gpu.arch, options));
  RIDGE_TRY(device, device::cuda::Device::open(gpu.index));
  RIDGE_CHECK_OK(device->make_current());
  std::unique_ptr<CeilingBench> bench(new CeilingBench(*device));
  RIDGE_TRY(stream, device::cuda::Stream::create(*device));
  bench->stream_ = std::move(stream);
  RIDGE_TRY(harness, CheckModule::load(*device, cubins[0]));
  bench->harness_ = std::move(harness);
  for (std::size_t i = 1; i < cubins.size(); ++i) {
    RIDGE_TRY(module, device::cuda::Module::load(*device, cubins[i]));
    bench->modules_.push_back(std::move(module));
  }
  RIDGE_TRY(timer, Timer::create(*device, *bench->harness_, *bench->stream_));
  bench->timer_ = std::move(timer);
  return bench;
}

Result<device::cuda::Kernel> CeilingBench::kernel(int unroll, const std::string& name) const {
  const auto at = std::find(kUnrolls.begin(), kUnrolls.end(), unroll) - kUnrolls.begin();
  return modules_[static_cast<std::size_t>(at)].kernel(name);
}

Result<TensorView> CeilingBench::allocate(DType dtype, std::int64_t rows, std::int64_t columns) {
  RIDGE_TRY(buffer, device::cuda::Buffer::allocate(*device_, size_bytes(dtype, rows * columns)));
  memory_.push_back(std::move(buffer));
  return TensorView::contiguous(memory_.back().data(), dtype, {rows, columns});
}

Result<TensorView> CeilingBench::random(DType dtype, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  RIDGE_TRY(view, allocate(dtype, rows, columns));
  RIDGE_CHECK_OK(harness_->run(
      {"ridge_fill",
       blocks_for(view.element_count() / 4 + 1),
       1,
       256,
       {ops::device_matrix(view), ops::CheckLaunch::number(static_cast<std::int64_t>(numerics::Family::kNormal)),
        ops::CheckLaunch::Argument{seed}}},
      stream_->handle()));
  return view;
}

Result<TensorView> CeilingBench::constant(DType dtype, std::int64_t rows, std::int64_t columns, std::uint64_t bits) {
  RIDGE_TRY(view, allocate(dtype, rows, columns));
  RIDGE_CHECK_OK(harness_->run({"ridge_fill_code",
                                blocks_for(view.element_count()),
                                1,
                                256,
                                {ops::device_matrix(view), ops::CheckLaunch::Argument{bits}}},
                               stream_->handle()));
  return view;
}

Result<Timing> CeilingBench::time(const Launches& launches, int runs) {
  const auto repeated = [&](device::cuda::StreamHandle stream) -> Status {
    for (int i = 0; i < runs; ++i) RIDGE_CHECK_OK(launches(stream));
    return ok_status();
  };
  auto timed = timer_->time(repeated, kLimit);
  if (const LaunchTrouble* trouble = std::get_if<LaunchTrouble>(&timed))
    return make_error(ErrorCode::kToolFailed, "a ceiling cannot be timed: {}", trouble->detail);
  return std::get<Timing>(timed);
}

Result<double> CeilingBench::quick(const Launches& launches) {
  std::vector<double> spans;
  for (int i = 0; i <= kQuickSamples; ++i) {
    RIDGE_TRY(timing, time(launches, 1));
    if (i > 0) spans.push_back(timing.span);  // the first one warms up
  }
  return stats::median(spans);
}

Result<record::Ceiling> CeilingBench::measure(const Subject& subject) {
  // A library sets itself up in its first call, which must not be held behind the gate.
  RIDGE_CHECK_OK(subject.launches(stream_->handle()));
  RIDGE_CHECK_OK(stream_->synchronize());
  RIDGE_TRY(once, quick(subject.launches));
  const int runs =
      subject.rest > 0 ? 1 : static_cast<int>(std::clamp(std::ceil(kSample / once), 1.0, double{kMostRuns}));
  const double each = subject.rest + runs * once;
  const int wanted = static_cast<int>(std::clamp(kPerCeiling / each, double{kFewestSamples}, double{kMostSamples}));
  record::Ceiling ceiling;
  ceiling.name = subject.name;
  ceiling.unit = subject.unit;
  ceiling.device = name_of(device_->info());
  std::vector<double> clocks;
  std::string disagreement;
  for (int i = -kWarmUps; i < wanted; ++i) {
    if (subject.rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(subject.rest));
    RIDGE_TRY(timing, time(subject.launches, runs));
    if (i < 0) continue;
    if (auto contradictory = contradiction(timing, instrument())) {
      disagreement = std::move(*contradictory);
      continue;
    }
    ceiling.samples.push_back(subject.amount * runs / timing.span);
    clocks.push_back(timing.clock);
  }
  if (static_cast<int>(ceiling.samples.size()) < wanted / 2)
    return make_error(ErrorCode::kToolFailed, "{}: the clocks contradict each other: {}", subject.name, disagreement);
  ceiling.value = stats::quantile(ceiling.samples, kQuantile);
  const std::string how = subject.rest > 0 ? fmt::format("one run after {:.0f} ms of rest", 1e3 * subject.rest)
                                           : fmt::format("{} run{} in a row", runs, runs == 1 ? "" : "s");
  ceiling.method = fmt::format("{}; {} per sample, multiprocessors at {:.0f} MHz", subject.method, how,
                               1e-6 * stats::median(clocks));
  return ceiling;
}

}  // namespace ridge::evaluate::cuda
