// Maps the driver's error codes to FaultKind, and remembers the worst that a device had.
#include <mutex>

#include "base/error.h"
#include "device/cuda/driver.h"

namespace ridge::device::cuda {
namespace {

struct Meaning {
  FaultKind kind;
  bool sticky;
  ErrorCode code;
  const char* hint;
};

constexpr const char* kStickyHint = "this process can no longer use the GPU; a new one can";

Meaning meaning_of(CUresult code) {
  switch (code) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return {FaultKind::kOutOfMemory, false, ErrorCode::kUnsupported,
              "free memory on the GPU (nvidia-smi lists who holds it) or use a smaller case"};
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE: return {FaultKind::kBadLaunch, false, ErrorCode::kInvalidArgument, ""};
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      return {FaultKind::kIllegalAddress, true, ErrorCode::kToolFailed,
              "a kernel read or wrote memory that is not its own; compute-sanitizer names the place"};
    case CUDA_ERROR_LAUNCH_TIMEOUT: return {FaultKind::kLaunchTimeout, true, ErrorCode::kTimeout, kStickyHint};
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR: return {FaultKind::kKernelFailed, true, ErrorCode::kToolFailed, kStickyHint};
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return {FaultKind::kDeviceLost, true, ErrorCode::kToolFailed,
              "the GPU does not work for the moment; nvidia-smi and the kernel's log (Xid) say more"};
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: return {FaultKind::kNoDevice, false, ErrorCode::kUnsupported, ""};
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_SOURCE:
      return {FaultKind::kBadImage, false, ErrorCode::kUnsupported,
              "compile for this GPU's architecture, with a toolkit not newer than the driver"};
    case CUDA_ERROR_NOT_FOUND: return {FaultKind::kOther, false, ErrorCode::kNotFound, ""};
    default: return {FaultKind::kOther, false, ErrorCode::kToolFailed, ""};
  }
}

thread_local Fault thread_fault;

struct Sticky {
  std::mutex mutex;
  Fault fault;
};
Sticky& sticky() {
  static Sticky* const instance = new Sticky;
  return *instance;
}

void remember(const Fault& fault) {
  thread_fault = fault;
  if (!fault.sticky) return;
  const std::scoped_lock lock(sticky().mutex);
  if (sticky().fault.kind == FaultKind::kNone) sticky().fault = fault;
}

}  // namespace

Error driver_error(CUresult code, std::string_view call) {
  const char *name = nullptr, *words = nullptr;
  if (const auto loaded = load_driver()) {
    (*loaded)->cuGetErrorName(code, &name);
    (*loaded)->cuGetErrorString(code, &words);
  }
  const Meaning meaning = meaning_of(code);
  remember(Fault{meaning.kind, static_cast<int>(code), name == nullptr ? "unknown" : name, std::string(call),
                 meaning.sticky});
  return with_hint(make_error(meaning.code, "{}: {} ({}): {}", call, name == nullptr ? "unknown error" : name,
                              static_cast<int>(code), words == nullptr ? "no description" : words),
                   meaning.hint);
}

const Fault& last_fault() { return thread_fault; }

Fault sticky_fault() {
  const std::scoped_lock lock(sticky().mutex);
  return sticky().fault;
}

}  // namespace ridge::device::cuda
