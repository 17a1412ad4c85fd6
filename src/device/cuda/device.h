// One GPU with its primary context, which all of a process shares (PyTorch's tensors live in it too).
#pragma once

#include <cstddef>
#include <optional>

#include "device/cuda/backend.h"

namespace ridge::device::cuda {

class Device {
 public:
  // The GPU of that index, opened once per process and never closed: kernels in flight may outlive any scope.
  static Result<const Device*> open(int index = 0);

  [[nodiscard]] const GpuInfo& info() const { return info_; }

  // Makes its context current in the calling thread; every class of this folder wants that done first. Cheap.
  [[nodiscard]] Status make_current() const;
  // Waits for all work of the context. An error here may come from any earlier launch.
  [[nodiscard]] Status synchronize() const;

  struct Memory {
    std::size_t free_bytes = 0, total_bytes = 0;
  };
  [[nodiscard]] Result<Memory> memory() const;
  // Gives the lines of L2 that were set aside as persisting back; for measurements that must start cold.
  [[nodiscard]] Status reset_persisting_l2() const;

 private:
  GpuInfo info_;
  void* context_ = nullptr;
};

// The context that is current in the calling thread, which may be none (null); nothing where there is no driver.
std::optional<void*> current_context();
// Makes it current again, if another one is.
void set_current_context(void* context);

}  // namespace ridge::device::cuda
