#include "device/cuda/backend.h"

namespace ridge::device::cuda {

std::string_view to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::kNone: return "none";
    case FaultKind::kOutOfMemory: return "out of device memory";
    case FaultKind::kBadLaunch: return "launch refused";
    case FaultKind::kIllegalAddress: return "illegal address";
    case FaultKind::kLaunchTimeout: return "launch timeout";
    case FaultKind::kKernelFailed: return "kernel failed";
    case FaultKind::kDeviceLost: return "device lost";
    case FaultKind::kNoDevice: return "no device";
    case FaultKind::kBadImage: return "module refused";
    case FaultKind::kOther: return "other";
  }
  return "other";
}

}  // namespace ridge::device::cuda
