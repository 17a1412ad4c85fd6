#include "device/cuda/driver.h"

#include "base/check.h"
#include "base/error.h"
#include "device/cpu/shared_library.h"

namespace ridge::device::cuda {
namespace {

// Binds one function after the other and remembers the first that is missing.
class Binder {
 public:
  explicit Binder(const cpu::SharedLibrary& library) : library_(library) {}

  template <class F>
  void operator()(F*& function, const char* symbol) {
    function = library_.function<F>(symbol);
    if (function == nullptr && missing_.empty()) missing_ = symbol;
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  const cpu::SharedLibrary& library_;
  std::string missing_;
};

void bind_context(Driver& d, Binder& bind) {
  bind(d.cuInit, "cuInit");
  bind(d.cuGetErrorName, "cuGetErrorName");
  bind(d.cuGetErrorString, "cuGetErrorString");
  bind(d.cuDriverGetVersion, "cuDriverGetVersion");
  bind(d.cuDeviceGet, "cuDeviceGet");
  bind(d.cuDeviceGetCount, "cuDeviceGetCount");
  bind(d.cuDeviceGetName, "cuDeviceGetName");
  bind(d.cuDeviceGetUuid, "cuDeviceGetUuid_v2");
  bind(d.cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId");
  bind(d.cuDeviceGetAttribute, "cuDeviceGetAttribute");
  bind(d.cuDeviceTotalMem, "cuDeviceTotalMem_v2");
  bind(d.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  bind(d.cuCtxGetCurrent, "cuCtxGetCurrent");
  bind(d.cuCtxSetCurrent, "cuCtxSetCurrent");
  bind(d.cuCtxSynchronize, "cuCtxSynchronize");
  bind(d.cuCtxResetPersistingL2Cache, "cuCtxResetPersistingL2Cache");
}

void bind_memory(Driver& d, Binder& bind) {
  bind(d.cuMemGetInfo, "cuMemGetInfo_v2");
  bind(d.cuMemAlloc, "cuMemAlloc_v2");
  bind(d.cuMemFree, "cuMemFree_v2");
  bind(d.cuMemAllocAsync, "cuMemAllocAsync");
  bind(d.cuMemFreeAsync, "cuMemFreeAsync");
  bind(d.cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity");
  bind(d.cuMemAddressReserve, "cuMemAddressReserve");
  bind(d.cuMemAddressFree, "cuMemAddressFree");
  bind(d.cuMemCreate, "cuMemCreate");
  bind(d.cuMemRelease, "cuMemRelease");
  bind(d.cuMemMap, "cuMemMap");
  bind(d.cuMemUnmap, "cuMemUnmap");
  bind(d.cuMemSetAccess, "cuMemSetAccess");
  bind(d.cuMemHostAlloc, "cuMemHostAlloc");
  bind(d.cuMemFreeHost, "cuMemFreeHost");
  bind(d.cuPointerGetAttribute, "cuPointerGetAttribute");
  bind(d.cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  bind(d.cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  bind(d.cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
  bind(d.cuMemcpy2DAsync, "cuMemcpy2DAsync_v2");
  bind(d.cuMemsetD8Async, "cuMemsetD8Async");
  bind(d.cuMemsetD2D8Async, "cuMemsetD2D8Async");
}

void bind_order(Driver& d, Binder& bind) {
  bind(d.cuStreamCreate, "cuStreamCreate");
  bind(d.cuStreamDestroy, "cuStreamDestroy_v2");
  bind(d.cuStreamSynchronize, "cuStreamSynchronize");
  bind(d.cuStreamQuery, "cuStreamQuery");
  bind(d.cuStreamWaitEvent, "cuStreamWaitEvent");
  bind(d.cuStreamIsCapturing, "cuStreamIsCapturing");
  bind(d.cuStreamBeginCapture, "cuStreamBeginCapture_v2");
  bind(d.cuStreamEndCapture, "cuStreamEndCapture");
  bind(d.cuEventCreate, "cuEventCreate");
  bind(d.cuEventDestroy, "cuEventDestroy_v2");
  bind(d.cuEventRecord, "cuEventRecord");
  bind(d.cuEventSynchronize, "cuEventSynchronize");
  bind(d.cuEventQuery, "cuEventQuery");
  bind(d.cuEventElapsedTime, "cuEventElapsedTime");
  bind(d.cuGraphGetNodes, "cuGraphGetNodes");
  bind(d.cuGraphDestroy, "cuGraphDestroy");
  bind(d.cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags");
  bind(d.cuGraphExecDestroy, "cuGraphExecDestroy");
  bind(d.cuGraphLaunch, "cuGraphLaunch");
}

void bind_code(Driver& d, Binder& bind) {
  bind(d.cuModuleLoadData, "cuModuleLoadData");
  bind(d.cuModuleUnload, "cuModuleUnload");
  bind(d.cuModuleGetFunction, "cuModuleGetFunction");
  bind(d.cuModuleGetGlobal, "cuModuleGetGlobal_v2");
  bind(d.cuFuncGetAttribute, "cuFuncGetAttribute");
  bind(d.cuFuncSetAttribute, "cuFuncSetAttribute");
  bind(d.cuLaunchKernelEx, "cuLaunchKernelEx");
  bind(d.cuOccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters");
  bind(d.cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled");
}

constexpr const char* kNoDriverHint =
    "CUDA needs a machine with an NVIDIA GPU and its driver (in a container: started with the GPU passed through); "
    "everything else works without";

Result<Driver> open_driver() {
  static const cpu::SharedLibrary library{"libcuda.so.1", "libcuda.so"};
  if (!library.loaded()) {
    return with_hint(make_error(ErrorCode::kUnsupported, "no CUDA driver on this machine: {}", library.error()),
                     kNoDriverHint);
  }
  Driver d;
  Binder bind(library);
  bind_context(d, bind);
  bind_memory(d, bind);
  bind_order(d, bind);
  bind_code(d, bind);
  if (!bind.missing().empty()) {
    return with_hint(
        make_error(ErrorCode::kUnsupported, "the CUDA driver {} has no {}", library.path(), bind.missing()),
        "install a driver for CUDA 12.0 or newer");
  }
  d.cuFuncGetParamInfo = library.function<std::remove_pointer_t<decltype(d.cuFuncGetParamInfo)>>("cuFuncGetParamInfo");
  if (const CUresult code = d.cuInit(0); code != CUDA_SUCCESS) {
    const char *name = nullptr, *words = nullptr;
    d.cuGetErrorName(code, &name);
    d.cuGetErrorString(code, &words);
    return with_hint(make_error(ErrorCode::kUnsupported, "the CUDA driver {} does not start: {} ({}): {}",
                                library.path(), name == nullptr ? "unknown error" : name, static_cast<int>(code),
                                words == nullptr ? "no description" : words),
                     kNoDriverHint);
  }
  return d;
}

const Result<Driver>& the_driver() {
  static const Result<Driver>* const instance = new Result<Driver>(open_driver());  // outlives every handle
  return *instance;
}

}  // namespace

Result<const Driver*> load_driver() {
  const Result<Driver>& loaded = the_driver();
  if (!loaded) return loaded.error();
  return &*loaded;
}

const Driver& driver() {
  const Result<Driver>& loaded = the_driver();
  ridge::check(loaded.ok(), "something of the CUDA driver is used that never opened it");
  return *loaded;
}

}  // namespace ridge::device::cuda
