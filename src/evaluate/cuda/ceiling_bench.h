// What the ceilings of a GPU are measured with: its own process's device, the harness's timer behind its gate, and
// samples long enough that launches and clocks do not count.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "evaluate/cuda/timer.h"
#include "record/measurement.h"
#include "ridge/tensor.h"
#include "toolchain/build.h"

namespace ridge::evaluate::cuda {

// What may be asked of a kernel of ceilings.cu in flight; one module of each.
inline constexpr std::array<int, 3> kUnrolls = {2, 4, 8};

class CeilingBench {
 public:
  using Launches = Timer::Launches;

  // Compiles what is not in the cache, in other processes, then opens the device in this one: nothing may be forked to
  // measure afterwards.
  static Result<std::unique_ptr<CeilingBench>> create(const device::cuda::GpuInfo& gpu,
                                                      const toolchain::BuildOptions& options);

  [[nodiscard]] const device::cuda::Device& device() const { return *device_; }
  [[nodiscard]] const device::cuda::Stream& stream() const { return *stream_; }
  [[nodiscard]] const Instrument& instrument() const { return timer_->instrument(); }
  // A kernel of ceilings.cu with that many loads in flight.
  Result<device::cuda::Kernel> kernel(int unroll, const std::string& name) const;

  // Memory of random normal values, or of one value in every element.
  Result<TensorView> random(DType dtype, std::int64_t rows, std::int64_t columns, std::uint64_t seed);
  Result<TensorView> constant(DType dtype, std::int64_t rows, std::int64_t columns, std::uint64_t bits);
  void free_memory() { memory_.clear(); }

  // Median seconds of a few runs: what configurations are chosen by.
  Result<double> quick(const Launches& launches);

  // `amount` (FLOP, bytes) of one run per second. A sample is as many runs in a row as last kSample, between the events
  // of one timing; samples whose clocks contradict each other are left out, and are an error when they are the rule.
  struct Subject {
    std::string name, unit;
    double amount = 0;
    Launches launches;
    std::string method;
    // Seconds of idleness before each sample, which is then one run. The matrix units at full load draw more power than
    // the card may for long: its clock falls within milliseconds, and comes back at rest.
    double rest = 0;
  };
  Result<record::Ceiling> measure(const Subject& subject);

 private:
  explicit CeilingBench(const device::cuda::Device& device) : device_(&device) {}
  Result<TensorView> allocate(DType dtype, std::int64_t rows, std::int64_t columns);
  Result<Timing> time(const Launches& launches, int runs);

  const device::cuda::Device* device_;
  std::optional<device::cuda::Stream> stream_;
  std::unique_ptr<CheckModule> harness_;
  std::vector<device::cuda::Module> modules_;  // by kUnrolls
  std::unique_ptr<Timer> timer_;
  std::vector<device::cuda::Buffer> memory_;
};

}  // namespace ridge::evaluate::cuda
