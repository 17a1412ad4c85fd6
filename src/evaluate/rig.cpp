#include "evaluate/rig.h"

#include <algorithm>

#include "base/error.h"
#include "evaluate/gpu.h"

namespace ridge::evaluate {
namespace {

constexpr Rig kRigs[] = {
    {Backend::kCpu, cpu_device_info, build_for_cpu, make_cpu_measurement_backend, check_cpu_subject, cpu_ceilings},
    {Backend::kCuda, gpu_device_info, build_for_gpu, make_gpu_measurement_backend, check_gpu_subject, gpu_ceilings},
};

}  // namespace

Result<const Rig*> rig_of(Backend backend) {
  const Rig* const found = std::ranges::find(kRigs, backend, &Rig::backend);
  if (found != std::end(kRigs)) return found;
  std::string known;
  for (const Rig& rig : kRigs) known += fmt::format("{}{}", known.empty() ? "" : " and ", to_string(rig.backend));
  return make_error(ErrorCode::kUnsupported, "kernels are built, checked and measured on {}, not on {}", known,
                    to_string(backend));
}

}  // namespace ridge::evaluate
