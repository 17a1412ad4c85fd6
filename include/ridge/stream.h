// Where an operator runs. A CPU stream runs the call before returning; a CUDA or HIP stream enqueues it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ridge/result.h"

namespace ridge {

enum class Backend : std::uint8_t { kCpu, kCuda, kHip };

std::string_view to_string(Backend backend);
Result<Backend> parse_backend(std::string_view name);

struct Stream;

// Where calls take scratch memory from, for a program with an allocator of its own (a framework's). Memory is of the
// stream's device, aligned to 256 bytes, and belongs to a call from allocate() to release(), which comes before the
// call returns: what it enqueued then still uses the memory, in the order of the stream.
struct WorkspaceAllocator {
  void* (*allocate)(void* context, std::size_t bytes, const Stream& stream) = nullptr;  // null: there is no more
  void (*release)(void* context, void* data, std::size_t bytes, const Stream& stream) = nullptr;
  void* context = nullptr;
};

struct Stream {
  Backend backend = Backend::kCpu;
  int device = 0;
  int threads = 1;         // CPU only: how many threads one call may use
  void* native = nullptr;  // CUstream or hipStream_t; null is the default stream
  // Of scratch memory; must outlive the calls. Null: a pool of the stream's, or of the graph that is being recorded.
  const WorkspaceAllocator* allocator = nullptr;
  // GPU only: kernels that stay on their multiprocessors, and those of vendor libraries that can be told, take at most
  // so many; negative: leave so many to others; 0: all. For work beside communication, whose kernels hold some: one
  // that counts on all would wait for them. Sums that are split by block may be rounded otherwise.
  int multiprocessors = 0;

  static Stream cpu(int threads = 1) { return Stream{Backend::kCpu, 0, threads, nullptr, nullptr, 0}; }
  // A stream of the device's primary context (the CUDA runtime's, PyTorch's): cudaStream_t is CUstream.
  static Stream cuda(void* native, int device = 0) { return Stream{Backend::kCuda, device, 1, native, nullptr, 0}; }
};

}  // namespace ridge
