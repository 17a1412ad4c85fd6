#include "dispatch/tuning_run.h"

#include <algorithm>

#include "base/error.h"
#include "measure/machine.h"

namespace ridge::dispatch {
namespace {

class CpuTuningRun final : public TuningRun {
 public:
  CpuTuningRun(const ops::Problem& problem, const Stream& stream, Prober& prober)
      : problem_(problem), stream_(stream), prober_(prober), scratch_(problem, 11) {}

  std::optional<std::string> wrong(const Choice& choice) override { return prober_.wrong(choice, problem_); }

  std::optional<double> seconds(const Choice& choice, std::int64_t calls) override {
    const ops::Problem problem = configured(problem_, choice);
    const std::uint64_t start = measure::now_ns();
    for (std::int64_t i = 0; i < calls; ++i) {
      if (!choice.implementation->run(problem, scratch_.views(), stream_)) return std::nullopt;
    }
    return std::max(1e-9 * static_cast<double>(measure::now_ns() - start), 1e-9) / static_cast<double>(calls);
  }

 private:
  const ops::Problem& problem_;
  Stream stream_;
  Prober& prober_;
  Scratch scratch_;
};

}  // namespace

Result<std::unique_ptr<TuningRun>> make_tuning_run(const ops::Problem& problem, const Stream& stream, Prober& prober) {
  if (stream.backend != Backend::kCpu) return make_cuda_course(problem, stream, prober);
  return std::unique_ptr<TuningRun>(std::make_unique<CpuTuningRun>(problem, stream, prober));
}

}  // namespace ridge::dispatch
