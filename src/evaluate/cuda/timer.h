// Time of one or several launches, by three clocks.
//
//   idle clock | gate | stamp | event | the launches | event | stamp | signal
//
// The gate is a kernel that waits for a word of host memory: everything behind it is queued before the first launch
// starts, so that the speed of the host is not measured. Stamps read the device-wide timer and the cycle counter on
// every multiprocessor; a launch of one kernel after another in stream order means that nothing of the measured ones is
// left. The host's clock runs from opening the gate to seeing the signal.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "device/cuda/buffer.h"
#include "device/cuda/stream.h"
#include "evaluate/cuda/check_module.h"
#include "evaluate/defences.h"

namespace ridge::evaluate::cuda {

struct Timing {
  double span = 0;   // seconds on the device: what counts
  double stamp = 0;  // the same by the device-wide timer, less its own empty launch
  double host = 0;   // seconds from opening the gate to seeing the end, less its own empty launch
  // Of the multiprocessors over the span, Hz: a kernel that draws more power runs at a lower one.
  double clock = 0;
  // Just before, while one of them waited: what the machine gave, whatever the kernel does.
  double idle_clock = 0;
};

// What the instrument itself costs: medians of launches of an empty kernel.
struct Instrument {
  double empty = 0;        // span of an empty kernel: part of every span, and not subtracted
  double empty_stamp = 0;  // difference of the stamps around it
  double empty_host = 0;
  double timer_step = 0;  // of the device-wide timer
};

// In words, when the clocks of one timing disagree by more than 1 us (and a step of the timer) or 1 %; nothing when
// they agree.
std::optional<std::string> contradiction(const Timing& timing, const Instrument& instrument);

// Why a launch has no time: it did not end, the device failed, or we did.
struct LaunchTrouble {
  enum class Kind { kHang, kFault, kHarness } kind = Kind::kHarness;
  std::string detail;
};

// Waits until all work of the stream is done: a fault of the device, a hang when `limit` seconds have passed, or
// nothing.
std::optional<LaunchTrouble> wait_until_idle(const device::cuda::Stream& stream, double limit);

class Timer {
 public:
  static Result<std::unique_ptr<Timer>> create(const device::cuda::Device& device, CheckModule& harness,
                                               const device::cuda::Stream& stream);

  // Enqueues nothing but what `launches` does between the events. `limit` is in seconds, for the launches.
  using Launches = std::function<Status(device::cuda::StreamHandle)>;
  std::variant<Timing, LaunchTrouble> time(const Launches& launches, double limit);

  [[nodiscard]] const Instrument& instrument() const { return instrument_; }

 private:
  Timer(const device::cuda::Device& device, CheckModule& harness, const device::cuda::Stream& stream)
      : device_(device), harness_(harness), stream_(stream) {}
  Status calibrate();
  Status stamp(std::size_t slot);
  Status read_idle_clock();
  Status enqueue(const Launches& launches, std::uint64_t ticket);
  // Until the device has written `ticket` there.
  std::optional<LaunchTrouble> wait_for(const volatile std::uint64_t& word, std::uint64_t ticket, double limit);
  Result<Timing> read(double host) const;

  // In pinned memory: written by the device, or by us.
  struct Words {
    volatile std::uint64_t holds, gate, gave_up, signal, step;
  };
  struct Stamp {
    std::uint64_t clock, nanoseconds;
  };
  static double clock_between(const Stamp& begin, const Stamp& end);

  const device::cuda::Device& device_;
  CheckModule& harness_;
  const device::cuda::Stream& stream_;
  device::cuda::PinnedBuffer words_, stamps_;
  device::cuda::Buffer device_stamps_;
  std::optional<device::cuda::Event> begin_, end_;
  std::uint64_t ticket_ = 0;
  Instrument instrument_;
};

}  // namespace ridge::evaluate::cuda
