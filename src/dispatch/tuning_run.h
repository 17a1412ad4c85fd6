// Where implementations are compared: scratch operands in the memory of a device, a check of their numbers, and a
// clock. Never a caller's memory and never a caller's stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dispatch/choice.h"
#include "dispatch/probe.h"

namespace ridge::dispatch {

class TuningRun {
 public:
  TuningRun() = default;
  TuningRun(const TuningRun&) = delete;
  TuningRun& operator=(const TuningRun&) = delete;
  virtual ~TuningRun() = default;

  // Runs the problem once and says why the outcome is wrong, in words with the values; nothing when it is right.
  // The first contender asked is the one that the others must agree with at full size.
  virtual std::optional<std::string> wrong(const Choice& choice) = 0;
  // Seconds of one call, the mean of `calls` in a row; nothing when one failed.
  virtual std::optional<double> seconds(const Choice& choice, std::int64_t calls) = 0;
};

// On a processor or a GPU. `prober` remembers what it found about the same implementation on other problems.
Result<std::unique_ptr<TuningRun>> make_tuning_run(const ops::Problem& problem, const Stream& stream, Prober& prober);

// The CUDA part of it; in a build without that backend an error.
Result<std::unique_ptr<TuningRun>> make_cuda_course(const ops::Problem& problem, const Stream& stream, Prober& prober);
// Runs a problem on a GPU with operands in host memory: copies them there, waits, and copies the outputs back.
Runner cuda_runner(const Stream& stream);
// Whether launches on the stream are being recorded into a graph, so that nothing may be allocated or waited for. True
// as well where the driver will not say.
bool is_recording(const Stream& stream);

// Runs `calls`, which calls operators on that stream alone. On a GPU those whose kernels take lists share launches.
Status run_together(const std::function<Status()>& calls, const Stream& stream);

// Gives the calling thread back, at its end, the CUDA context that was current at its beginning: calls make their own
// device's current, and the caller's next work may be another device's. Nothing for a stream of the processor.
class CallersContext {
 public:
  explicit CallersContext(const Stream& stream);
  CallersContext(const CallersContext&) = delete;
  CallersContext& operator=(const CallersContext&) = delete;
  ~CallersContext();

 private:
  bool known_ = false;
  void* context_ = nullptr;
};

}  // namespace ridge::dispatch
