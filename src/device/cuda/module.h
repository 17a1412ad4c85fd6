// Machine code on the device: a loaded cubin, its kernels, and one launch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/backend.h"
#include "device/cuda/device.h"

namespace ridge::device::cuda {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  [[nodiscard]] std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  friend bool operator==(const Dim3&, const Dim3&) = default;
};

struct LaunchShape {
  Dim3 grid, block;
  Dim3 cluster;                    // blocks; 1 1 1 is no cluster
  std::uint32_t shared_bytes = 0;  // dynamic
  // Programmatic dependent launch: may start before the previous kernel of the stream has ended. Only for a kernel
  // that waits (griddepcontrol.wait) before it touches what the previous one wrote.
  bool overlap_previous = false;
};

// Why a shape cannot be launched on that GPU (a zero, too many threads, a grid that its cluster does not divide, too
// much shared memory), or ok. A zero-size grid is an error here: the caller must not launch it.
Status check_shape(const LaunchShape& shape, const GpuInfo& gpu);

struct KernelAttributes {
  int registers = 0;    // of one thread
  int local_bytes = 0;  // of one thread: spills and stack
  int static_shared_bytes = 0, constant_bytes = 0;
  int max_threads_per_block = 0;  // with these registers, or by __launch_bounds__
};

// A function of a loaded module; valid as long as the module.
class Kernel {
 public:
  Kernel() = default;

  friend bool operator==(const Kernel& a, const Kernel& b) { return a.handle_ == b.handle_; }
  [[nodiscard]] const std::string& symbol() const { return symbol_; }
  [[nodiscard]] const KernelAttributes& attributes() const { return attributes_; }
  // Sizes in bytes of its parameters in order; empty where the driver is too old to say (before CUDA 12.4).
  [[nodiscard]] const std::vector<std::size_t>& parameter_bytes() const { return parameter_bytes_; }

  // Once, before a launch with that much dynamic shared memory (beyond 48 KiB) or with clusters above 8 blocks.
  [[nodiscard]] Status allow(std::uint32_t dynamic_shared_bytes, bool large_clusters = false) const;

  // How many clusters of such a launch an idle GPU holds at once. Clusters do not cross groups of multiprocessors,
  // whose sizes differ from one GPU to the next of the same name.
  [[nodiscard]] Result<int> most_clusters(const LaunchShape& shape) const;

  // Enqueues. `arguments` points at each parameter's value in order. No allocation, no synchronisation: safe on the
  // hot path and while a graph is captured. An empty grid (a zero anywhere) launches nothing and is ok.
  [[nodiscard]] Status launch(const LaunchShape& shape, std::span<void* const> arguments, StreamHandle stream) const;

 private:
  friend class Module;
  CUfunc_st* handle_ = nullptr;
  std::string symbol_;
  KernelAttributes attributes_;
  std::vector<std::size_t> parameter_bytes_;
};

class Module {
 public:
  // From a cubin (or PTX) in memory, into the current context.
  static Result<Module> load(const Device& device, std::string_view image);
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  // The error of an unknown symbol says that names of kernels must be extern "C".
  [[nodiscard]] Result<Kernel> kernel(const std::string& symbol) const;
  // Address and size of a __device__ variable.
  struct Global {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Result<Global> global(const std::string& symbol) const;

 private:
  explicit Module(CUmod_st* handle) : handle_(handle) {}
  CUmod_st* handle_ = nullptr;
};

}  // namespace ridge::device::cuda
