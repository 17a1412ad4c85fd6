#include "device/cuda/buffer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "device/cuda/driver.h"

namespace ridge::device::cuda {
namespace {

constexpr std::size_t kLeast = 16;  // so that an empty buffer has an address too

Error allocation_error(const Device& device, CUresult code, std::string_view call, std::size_t bytes) {
  Error error = driver_error(code, call);
  if (code != CUDA_ERROR_OUT_OF_MEMORY) return error;
  const auto memory = device.memory();
  error.message += fmt::format("; {:.3f} GiB asked for on {}", static_cast<double>(bytes) / 0x1p30, device.info().name);
  if (memory) {
    error.message += fmt::format(", {:.3f} of {:.3f} GiB free", static_cast<double>(memory->free_bytes) / 0x1p30,
                                 static_cast<double>(memory->total_bytes) / 0x1p30);
  }
  return error;
}

Status copy_rows(CUDA_MEMCPY2D copy, std::size_t row_bytes, std::size_t rows, StreamHandle stream) {
  if (row_bytes == 0 || rows == 0) return ok_status();
  copy.WidthInBytes = row_bytes;
  copy.Height = rows;
  return check(driver().cuMemcpy2DAsync(&copy, stream), "cuMemcpy2DAsync");
}

}  // namespace

Result<Buffer> Buffer::allocate(const Device& device, std::size_t bytes) {
  RIDGE_CHECK_OK(device.make_current());
  CUdeviceptr pointer = 0;
  const CUresult code = driver().cuMemAlloc(&pointer, std::max(bytes, kLeast));
  if (code != CUDA_SUCCESS) return allocation_error(device, code, "cuMemAlloc", bytes);
  return Buffer(reinterpret_cast<void*>(pointer), bytes);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) driver().cuMemFree(address(data_));
}

Result<void*> record_allocation(std::size_t bytes, StreamHandle stream) {
  CUdeviceptr pointer = 0;
  const CUresult code = driver().cuMemAllocAsync(&pointer, std::max(bytes, kLeast), stream);
  if (code != CUDA_SUCCESS) return driver_error(code, "cuMemAllocAsync");
  return reinterpret_cast<void*>(pointer);
}

// An error here ends the capture, which then says so.
void record_release(void* data, StreamHandle stream) { driver().cuMemFreeAsync(address(data), stream); }

Result<PinnedBuffer> PinnedBuffer::allocate(const Device& device, std::size_t bytes) {
  RIDGE_CHECK_OK(device.make_current());
  void* data = nullptr;
  const CUresult code = driver().cuMemHostAlloc(&data, std::max(bytes, kLeast), CU_MEMHOSTALLOC_PORTABLE);
  if (code != CUDA_SUCCESS) return driver_error(code, "cuMemHostAlloc");
  return PinnedBuffer(data, bytes);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) driver().cuMemFreeHost(data_);
}

Status check_reachable(const void* pointer, const Device& device) {
  int kind = 0, owner = -1;
  const CUresult known = driver().cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(pointer));
  if (known != CUDA_SUCCESS) {
    return with_hint(invalid("the address {} is no memory of {}", pointer, device.info().name),
                     "copy the operand to the GPU, or call on Stream::cpu()");
  }
  if (kind != CU_MEMORYTYPE_DEVICE) return ok_status();
  const CUresult asked = driver().cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address(pointer));
  if (asked == CUDA_SUCCESS && owner != device.info().index) {
    return with_hint(
        invalid("the address {} belongs to GPU {}, the stream to GPU {}", pointer, owner, device.info().index),
        "give operands and stream the same GPU");
  }
  return ok_status();
}

Status copy_to_device(void* device_target, const void* host_source, std::size_t bytes, StreamHandle stream) {
  if (bytes == 0) return ok_status();
  return check(driver().cuMemcpyHtoDAsync(address(device_target), host_source, bytes, stream), "cuMemcpyHtoDAsync");
}

Status copy_to_host(void* host_target, const void* device_source, std::size_t bytes, StreamHandle stream) {
  if (bytes == 0) return ok_status();
  return check(driver().cuMemcpyDtoHAsync(host_target, address(device_source), bytes, stream), "cuMemcpyDtoHAsync");
}

Status copy_on_device(void* target, const void* source, std::size_t bytes, StreamHandle stream) {
  if (bytes == 0) return ok_status();
  return check(driver().cuMemcpyDtoDAsync(address(target), address(source), bytes, stream), "cuMemcpyDtoDAsync");
}

Status copy_rows_to_device(Rows device_target, Rows host_source, std::size_t row_bytes, std::size_t rows,
                           StreamHandle stream) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host_source.data;
  copy.srcPitch = host_source.pitch_bytes;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = address(device_target.data);
  copy.dstPitch = device_target.pitch_bytes;
  return copy_rows(copy, row_bytes, rows, stream);
}

Status copy_rows_to_host(Rows host_target, Rows device_source, std::size_t row_bytes, std::size_t rows,
                         StreamHandle stream) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address(device_source.data);
  copy.srcPitch = device_source.pitch_bytes;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = host_target.data;
  copy.dstPitch = host_target.pitch_bytes;
  return copy_rows(copy, row_bytes, rows, stream);
}

Status fill_bytes(void* device_target, std::uint8_t byte, std::size_t bytes, StreamHandle stream) {
  if (bytes == 0) return ok_status();
  return check(driver().cuMemsetD8Async(address(device_target), byte, bytes, stream), "cuMemsetD8Async");
}

Status fill_rows(Rows device_target, std::uint8_t byte, std::size_t row_bytes, std::size_t rows, StreamHandle stream) {
  if (row_bytes == 0 || rows == 0) return ok_status();
  return check(
      driver().cuMemsetD2D8Async(address(device_target.data), device_target.pitch_bytes, byte, row_bytes, rows, stream),
      "cuMemsetD2D8Async");
}

}  // namespace ridge::device::cuda
