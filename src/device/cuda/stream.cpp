#include "device/cuda/stream.h"

#include <utility>

#include "device/cuda/driver.h"

namespace ridge::device::cuda {

Result<Stream> Stream::create(const Device& device) {
  RIDGE_CHECK_OK(device.make_current());
  CUstream handle{};
  RIDGE_CHECK_OK(check(driver().cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return Stream(handle, device.info().index);
}

Stream::Stream(Stream&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), device_(std::exchange(other.device_, 0)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(device_, other.device_);
  return *this;
}

Stream::~Stream() {
  if (handle_ != nullptr) driver().cuStreamDestroy(handle_);
}

ridge::Stream Stream::view() const { return ridge::Stream{Backend::kCuda, device_, 1, handle_}; }

Status Stream::synchronize() const { return cuda::synchronize(handle_); }

Result<bool> Stream::idle() const {
  const CUresult code = driver().cuStreamQuery(handle_);
  if (code == CUDA_ERROR_NOT_READY) return false;
  RIDGE_CHECK_OK(check(code, "cuStreamQuery"));
  return true;
}

Status synchronize(StreamHandle stream) { return check(driver().cuStreamSynchronize(stream), "cuStreamSynchronize"); }

Result<bool> is_capturing(StreamHandle stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  RIDGE_CHECK_OK(check(driver().cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing"));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Result<Event> Event::create(Kind kind) {
  CUevent handle{};
  const unsigned flags = kind == Kind::kTiming ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  RIDGE_CHECK_OK(check(driver().cuEventCreate(&handle, flags), "cuEventCreate"));
  return Event(handle);
}

Event::Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ != nullptr) driver().cuEventDestroy(handle_);
}

Status Event::record(StreamHandle stream) const {
  return check(driver().cuEventRecord(handle_, stream), "cuEventRecord");
}

Status Event::hold(StreamHandle stream) const {
  return check(driver().cuStreamWaitEvent(stream, handle_, 0), "cuStreamWaitEvent");
}

Status Event::synchronize() const { return check(driver().cuEventSynchronize(handle_), "cuEventSynchronize"); }

Result<bool> Event::reached() const {
  const CUresult code = driver().cuEventQuery(handle_);
  if (code == CUDA_ERROR_NOT_READY) return false;
  RIDGE_CHECK_OK(check(code, "cuEventQuery"));
  return true;
}

Result<double> Event::since(const Event& earlier) const {
  float milliseconds = 0;
  RIDGE_CHECK_OK(check(driver().cuEventElapsedTime(&milliseconds, earlier.handle_, handle_), "cuEventElapsedTime"));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace ridge::device::cuda
