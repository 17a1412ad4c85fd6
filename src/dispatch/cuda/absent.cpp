#include "device/cuda/backend.h"
#include "dispatch/tuning_run.h"

namespace ridge::dispatch {

Result<std::unique_ptr<TuningRun>> make_cuda_course(const ops::Problem&, const Stream&, Prober&) {
  return device::cuda::list_gpus().error();
}

Runner cuda_runner(const Stream&) {
  return [](const ops::Implementation&, const ops::Problem&, const std::vector<TensorView>&) -> Status {
    return device::cuda::list_gpus().error();
  };
}

bool is_recording(const Stream&) { return false; }

Status run_together(const std::function<Status()>& calls, const Stream&) { return calls(); }

CallersContext::CallersContext(const Stream&) {}
CallersContext::~CallersContext() = default;

}  // namespace ridge::dispatch
