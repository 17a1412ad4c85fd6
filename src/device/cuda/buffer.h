// Memory on the device, pinned memory of the host, and copies between them.
#pragma once

#include <cstddef>

#include "device/cuda/backend.h"
#include "device/cuda/device.h"

namespace ridge::device::cuda {

// Device memory, aligned to 256 bytes; of zero bytes it still has an address.
class Buffer {
 public:
  Buffer() = default;
  // An error of a full device says what was asked for and what is free.
  static Result<Buffer> allocate(const Device& device, std::size_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();  // waits for work that uses it

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  Buffer(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Memory of the graph that is being captured on the stream, for what is recorded until record_release(). No other graph
// has it while this one runs.
Result<void*> record_allocation(std::size_t bytes, StreamHandle stream);
void record_release(void* data, StreamHandle stream);

// Page-locked host memory that the device can also reach by the same address: what asynchronous copies need.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  static Result<PinnedBuffer> allocate(const Device& device, std::size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer();

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  PinnedBuffer(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Whether kernels of that GPU can read and write at an address: its own memory, or page-locked host memory. Plain host
// memory would end the context with an illegal address, so callers of a library are asked before the first launch.
Status check_reachable(const void* pointer, const Device& device);

// Enqueued on the stream; with pageable host memory the driver may wait. Zero bytes do nothing.
Status copy_to_device(void* device_target, const void* host_source, std::size_t bytes, StreamHandle stream);
Status copy_to_host(void* host_target, const void* device_source, std::size_t bytes, StreamHandle stream);
Status copy_on_device(void* target, const void* source, std::size_t bytes, StreamHandle stream);
// `rows` rows of `row_bytes`, each that many bytes after the one before.
struct Rows {
  void* data = nullptr;
  std::size_t pitch_bytes = 0;
};
Status copy_rows_to_device(Rows device_target, Rows host_source, std::size_t row_bytes, std::size_t rows,
                           StreamHandle stream);
Status copy_rows_to_host(Rows host_target, Rows device_source, std::size_t row_bytes, std::size_t rows,
                         StreamHandle stream);
Status fill_bytes(void* device_target, std::uint8_t byte, std::size_t bytes, StreamHandle stream);
Status fill_rows(Rows device_target, std::uint8_t byte, std::size_t row_bytes, std::size_t rows, StreamHandle stream);

}  // namespace ridge::device::cuda
