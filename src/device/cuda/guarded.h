// Device memory between unmapped pages: any access outside it, a read too, ends the kernel with an illegal address. For
// checks; each buffer takes at least one page of 2 MiB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/device.h"

namespace ridge::device::cuda {

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  // `bytes` is rounded up to whole pages; a page on each side stays reserved and unmapped.
  static Result<GuardedBuffer> allocate(const Device& device, std::size_t bytes);
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer();  // the caller has waited for work that uses it

  [[nodiscard]] void* data() const { return reinterpret_cast<void*>(reserved_ + page_bytes_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void release();
  std::uint64_t reserved_ = 0, memory_ = 0;
  std::size_t bytes_ = 0, page_bytes_ = 0;
  bool mapped_ = false;
};

}  // namespace ridge::device::cuda
