// Gathers calls of kernels that run lists of them (record/launch_plan.h, `list`), for many small calls in few launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/cuda/module.h"

namespace ridge::device::cuda {

// How many calls with parameters of so many bytes one launch takes: those of kernel/call_list.cuh.
constexpr std::size_t calls_of_list(std::size_t parameter_bytes) { return (4096 - 8) / (parameter_bytes + 4); }
// Bytes of the one parameter of a kernel for lists.
constexpr std::size_t bytes_of_list(std::size_t parameter_bytes) {
  const std::size_t used = calls_of_list(parameter_bytes) * (parameter_bytes + 4) + 4;
  return (used + 7) / 8 * 8;
}

// Calls on one stream whose order does not matter. What was added is enqueued when a list is full, and by launch().
class CallList {
 public:
  explicit CallList(StreamHandle stream) : stream_(stream) {}

  // A call that `single` launches by itself, and `list` as one of many.
  struct Call {
    const Kernel& single;
    const Kernel& list;
    const LaunchShape& shape;
    const void* parameter = nullptr;
    std::size_t bytes = 0;  // of it
  };
  [[nodiscard]] Status add(const Call& call);
  // Enqueues what waits.
  [[nodiscard]] Status launch();

 private:
  struct Open {
    Kernel single, list;
    LaunchShape shape;  // its grid: blocks of all calls
    std::size_t bytes = 0, count = 0;
    std::unique_ptr<std::byte[]> parameter;
  };
  Open& open(const Call& call);
  Status launch(Open& open) const;

  StreamHandle stream_;
  std::vector<Open> open_;  // one for each kernel
};

}  // namespace ridge::device::cuda
