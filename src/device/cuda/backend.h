// The CUDA backend as the rest of the program meets it first: which GPUs there are, or why there are none.
//
// No header of this folder includes a vendor's, so code that uses a GPU through it compiles without the CUDA toolkit.
// A build configured without the CUDA headers (RIDGE_CUDA_BACKEND=OFF) has this file, library.h and nvml.h only;
// list_gpus() then says so. libcuda is loaded when the first GPU is asked for: every binary starts without a driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/result.h"

// The driver's handles, by their own names: pointers to types that only the driver knows.
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraphExec_st;

namespace ridge::device::cuda {

using StreamHandle = CUstream_st*;

struct GpuInfo {
  int index = 0;        // as the driver counts, after CUDA_VISIBLE_DEVICES
  std::string name;     // "NVIDIA H200"
  std::string arch;     // what kernels are compiled for: "sm_90a"
  std::string uuid;     // "GPU-8a56a4bc-...", the same in NVML
  std::string pci_bus;  // "0000:1b:00.0"
  int compute_major = 0, compute_minor = 0;
  int driver_version = 0;  // 13000 is CUDA 13.0: the newest the driver supports
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0, l2_bytes = 0;
  std::int64_t max_shared_bytes = 0;  // of one block, after opting in
  int max_threads_per_block = 0, max_threads_per_multiprocessor = 0;
  int core_clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;  // peaks; 0 where the driver does not say
};

// Whether this build has the backend; without it list_gpus() says why.
bool is_built_in();
// Every GPU the driver shows. An error (kUnsupported) names what is missing: the build's headers, the driver library,
// a GPU. Asked once; the answer stays.
Result<std::vector<GpuInfo>> list_gpus();
// One of them; the error of an index out of range lists the GPUs.
Result<GpuInfo> gpu_info(int index);

// Kinds of faults of the device, for code that decides what an error means.
enum class FaultKind {
  kNone,
  kOutOfMemory,
  kBadLaunch,       // grid, block, cluster, shared memory or registers do not fit: nothing ran
  kIllegalAddress,  // a kernel touched memory it may not
  kLaunchTimeout,   // the watchdog ended a kernel
  kKernelFailed,    // illegal instruction, misaligned address, trap, assert, cluster out of bounds
  kDeviceLost,      // off the bus, ECC, reset: unusable until an administrator looks at it
  kNoDevice,        // no driver, no GPU, or none that fits
  kBadImage,        // a module the driver cannot load: other architecture, newer than the driver
  kOther
};
std::string_view to_string(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kNone;
  int code = 0;         // the driver's number
  std::string name;     // "CUDA_ERROR_ILLEGAL_ADDRESS"
  std::string call;     // "cuStreamSynchronize"
  bool sticky = false;  // the context is gone: every later call of this process fails the same way
};
// Of this thread's last failed call into the driver; kNone before the first.
const Fault& last_fault();
// The first sticky fault of this process. After one only a fresh process can use the GPU again.
Fault sticky_fault();

}  // namespace ridge::device::cuda
