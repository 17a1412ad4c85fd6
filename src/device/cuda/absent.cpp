// The backend of a build without the CUDA headers: it answers, and says what it is.
#include "base/error.h"
#include "device/cuda/backend.h"

namespace ridge::device::cuda {

bool is_built_in() { return false; }

Result<std::vector<GpuInfo>> list_gpus() {
  return with_hint(make_error(ErrorCode::kUnsupported, "this build has no CUDA backend"),
                   "install the CUDA headers (12.0 or newer), or set CUDA_HOME, and configure again; "
                   "RIDGE_CUDA_BACKEND must not be OFF");
}

Result<GpuInfo> gpu_info(int) { return list_gpus().error(); }

const Fault& last_fault() {
  static const Fault none;
  return none;
}

Fault sticky_fault() { return {}; }

}  // namespace ridge::device::cuda
