// Where an operator runs. A CPU stream runs the call before returning; a CUDA or HIP stream enqueues it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ridge/result.h"

namespace ridge {

enum class Backend : std::uint8_t { kCpu, kCuda, kHip };

std::string_view to_string(Backend backend);
Result<Backend> parse_backend(std::string_view name);

struct Stream {
  Backend backend = Backend::kCpu;
  int device = 0;
  int threads = 1;         // CPU only: how many threads one call may use
  void* native = nullptr;  // CUstream or hipStream_t; null is the default stream

  static Stream cpu(int threads = 1) { return Stream{Backend::kCpu, 0, threads, nullptr}; }
  // A stream of the device's primary context (the CUDA runtime's, PyTorch's): cudaStream_t is CUstream.
  static Stream cuda(void* native, int device = 0) { return Stream{Backend::kCuda, device, 1, native}; }
};

}  // namespace ridge
