// Order on the device: streams, and events that mark places in them.
#pragma once

#include "device/cuda/backend.h"
#include "device/cuda/device.h"
#include "ridge/stream.h"

namespace ridge::device::cuda {

// A non-blocking stream: it does not wait for the legacy default stream, nor does that wait for it.
class Stream {
 public:
  static Result<Stream> create(const Device& device);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();  // the driver finishes what is queued

  [[nodiscard]] StreamHandle handle() const { return handle_; }
  // The stream as the public API takes it.
  [[nodiscard]] ridge::Stream view() const;
  [[nodiscard]] Status synchronize() const;
  // Whether all work is done; an error may come from any earlier launch.
  [[nodiscard]] Result<bool> idle() const;

 private:
  Stream(StreamHandle handle, int device) : handle_(handle), device_(device) {}
  StreamHandle handle_ = nullptr;
  int device_ = 0;
};

// For streams that the caller owns.
inline StreamHandle handle_of(const ridge::Stream& stream) { return static_cast<StreamHandle>(stream.native); }
Status synchronize(StreamHandle stream);
// Whether launches on it are being recorded into a graph. Then nothing may allocate, synchronise or query.
Result<bool> is_capturing(StreamHandle stream);

class Event {
 public:
  enum class Kind { kTiming, kOrderOnly };
  static Result<Event> create(Kind kind = Kind::kTiming);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  [[nodiscard]] Status record(StreamHandle stream) const;
  // Later work of `stream` waits for the event.
  [[nodiscard]] Status hold(StreamHandle stream) const;
  [[nodiscard]] Status synchronize() const;
  [[nodiscard]] Result<bool> reached() const;
  // Seconds from `earlier` to this; both must be reached. The driver counts in steps of about half a microsecond.
  [[nodiscard]] Result<double> since(const Event& earlier) const;

 private:
  explicit Event(CUevent_st* handle) : handle_(handle) {}
  CUevent_st* handle_ = nullptr;
};

}  // namespace ridge::device::cuda
