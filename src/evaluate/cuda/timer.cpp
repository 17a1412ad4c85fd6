#include "evaluate/cuda/timer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "measure/machine.h"
#include "stats/summary.h"

namespace ridge::evaluate::cuda {
namespace {

using ops::CheckLaunch;

constexpr std::size_t kMaxMultiprocessors = 1024;
constexpr std::size_t kStamps = 2 * kMaxMultiprocessors + 2;  // before, after, and two around the idle clock
constexpr std::int64_t kIdleCycles = 100'000;  // about 50 us: a step of the device-wide timer is a thousandth of it
constexpr double kGateLimit = 20.0;            // seconds: nothing legal takes as long to enqueue
constexpr int kEmptyLaunches = 25;
// A kernel that splits shared memory otherwise than an empty one costs up to 1.2 us more between stamps than between
// events.
constexpr double kAbsoluteSlack = 2.5e-6, kRelativeSlack = 0.01;
// The host's clock sees interrupts and bus latencies: it is a bound from above, and a rough one.
constexpr double kHostSlack = 5e-6;

double seconds_since(std::uint64_t start_ns) { return 1e-9 * static_cast<double>(measure::now_ns() - start_ns); }

LaunchTrouble fault(std::string detail) { return {LaunchTrouble::Kind::kFault, std::move(detail)}; }
LaunchTrouble harness_trouble(const Error& error) { return {LaunchTrouble::Kind::kHarness, error.text()}; }

}  // namespace

Result<std::unique_ptr<Timer>> Timer::create(const device::cuda::Device& device, CheckModule& harness,
                                             const device::cuda::Stream& stream) {
  std::unique_ptr<Timer> timer(new Timer(device, harness, stream));
  if (device.info().multiprocessors > static_cast<int>(kMaxMultiprocessors)) {
    return make_error(ErrorCode::kUnsupported, "{} has {} multiprocessors; the timer stamps at most {}",
                      device.info().name, device.info().multiprocessors, kMaxMultiprocessors);
  }
  RIDGE_TRY(words, device::cuda::PinnedBuffer::allocate(device, sizeof(Words)));
  RIDGE_TRY(stamps, device::cuda::PinnedBuffer::allocate(device, kStamps * sizeof(Stamp)));
  RIDGE_TRY(on_device, device::cuda::Buffer::allocate(device, kStamps * sizeof(Stamp)));
  RIDGE_TRY(begin, device::cuda::Event::create());
  RIDGE_TRY(end, device::cuda::Event::create());
  timer->words_ = std::move(words);
  timer->stamps_ = std::move(stamps);
  timer->device_stamps_ = std::move(on_device);
  timer->begin_ = std::move(begin);
  timer->end_ = std::move(end);
  auto* const control = timer->words_.as<Words>();
  for (volatile std::uint64_t* word :
       {&control->holds, &control->gate, &control->gave_up, &control->signal, &control->step})
    *word = 0;
  RIDGE_CHECK_OK(timer->calibrate());
  return timer;
}

Status Timer::stamp(std::size_t slot) {
  const auto blocks = static_cast<std::uint32_t>(device_.info().multiprocessors);
  return harness_.run(
      {"ridge_stamp",
       blocks,
       1,
       32,
       {CheckLaunch::pointer(static_cast<const Stamp*>(device_stamps_.data()) + slot * kMaxMultiprocessors)}},
      stream_.handle());
}

Status Timer::read_idle_clock() {
  return harness_.run(
      {"ridge_idle_clock",
       1,
       1,
       1,
       {CheckLaunch::pointer(static_cast<const Stamp*>(device_stamps_.data()) + 2 * kMaxMultiprocessors),
        CheckLaunch::number(kIdleCycles)}},
      stream_.handle());
}

Status Timer::enqueue(const Launches& launches, std::uint64_t ticket) {
  const auto* const words = words_.as<Words>();
  const auto pointer = [](const volatile std::uint64_t* word) {
    return CheckLaunch::pointer(const_cast<const std::uint64_t*>(word));
  };
  RIDGE_CHECK_OK(device::cuda::fill_bytes(device_stamps_.data(), 0, device_stamps_.bytes(), stream_.handle()));
  RIDGE_CHECK_OK(read_idle_clock());
  RIDGE_CHECK_OK(
      harness_.run({"ridge_gate",
                    1,
                    1,
                    1,
                    {pointer(&words->holds), pointer(&words->gate), CheckLaunch::Argument{ticket},
                     CheckLaunch::number(static_cast<std::int64_t>(kGateLimit * 1e9)), pointer(&words->gave_up)}},
                   stream_.handle()));
  RIDGE_CHECK_OK(stamp(0));
  RIDGE_CHECK_OK(begin_->record(stream_.handle()));
  RIDGE_CHECK_OK(launches(stream_.handle()));
  RIDGE_CHECK_OK(end_->record(stream_.handle()));
  RIDGE_CHECK_OK(stamp(1));
  return harness_.run({"ridge_signal", 1, 1, 1, {pointer(&words->signal), CheckLaunch::Argument{ticket}}},
                      stream_.handle());
}

std::variant<Timing, LaunchTrouble> Timer::time(const Launches& launches, double limit) {
  const std::uint64_t ticket = ++ticket_;
  auto* const words = words_.as<Words>();
  const std::uint64_t enqueued_from = measure::now_ns();
  const Status queued = enqueue(launches, ticket);
  // What lies before the gate is no part of the time: the host's clock starts when the gate holds the stream.
  std::optional<LaunchTrouble> late;
  if (queued) late = wait_for(words->holds, ticket, kGateLimit);
  const std::uint64_t opened = measure::now_ns();
  words->gate = ticket;  // even after an error: a gate that stays shut holds the device
  if (!queued) return fault(queued.error().text());
  if (late && late->kind == LaunchTrouble::Kind::kHang) {
    return LaunchTrouble{LaunchTrouble::Kind::kHarness, "what the harness queued before the launch did not end"};
  }
  if (late) return std::move(*late);
  if (auto trouble = wait_for(words->signal, ticket, limit)) return std::move(*trouble);
  const double host = seconds_since(opened);
  if (words->gave_up == ticket) {
    return LaunchTrouble{LaunchTrouble::Kind::kHarness,
                         fmt::format("enqueuing took {:.1f} s: the gate gave up, or the launch waits for the device",
                                     seconds_since(enqueued_from))};
  }
  if (auto trouble = wait_until_idle(stream_, limit)) return std::move(*trouble);
  Result<Timing> timing = read(host);
  if (!timing) return harness_trouble(timing.error());
  return *timing;
}

std::optional<LaunchTrouble> Timer::wait_for(const volatile std::uint64_t& word, std::uint64_t ticket, double limit) {
  const std::uint64_t start = measure::now_ns();
  for (std::uint64_t polls = 0; word != ticket; ++polls) {
    if (polls % 4096 != 4095) continue;  // looking at memory is cheap, asking the driver is not
    const Result<bool> state = stream_.idle();
    if (!state) return fault(state.error().text());
    if (seconds_since(start) > limit) {
      return LaunchTrouble{LaunchTrouble::Kind::kHang, fmt::format("the kernel did not end within {} s", limit)};
    }
  }
  return std::nullopt;
}

std::optional<LaunchTrouble> wait_until_idle(const device::cuda::Stream& stream, double limit) {
  const std::uint64_t start = measure::now_ns();
  while (true) {
    const Result<bool> idle = stream.idle();
    if (!idle) return fault(idle.error().text());
    if (*idle) return std::nullopt;
    if (seconds_since(start) > limit) {
      return LaunchTrouble{LaunchTrouble::Kind::kHang, fmt::format("the kernel did not end within {} s", limit)};
    }
  }
}

// Cycles over time between two stamps of one multiprocessor, Hz.
double Timer::clock_between(const Stamp& begin, const Stamp& end) {
  return 1e9 * static_cast<double>(end.clock - begin.clock) / static_cast<double>(end.nanoseconds - begin.nanoseconds);
}

Result<Timing> Timer::read(double host) const {
  RIDGE_CHECK_OK(device::cuda::copy_to_host(stamps_.data(), device_stamps_.data(), stamps_.bytes(), stream_.handle()));
  RIDGE_CHECK_OK(device::cuda::synchronize(stream_.handle()));
  const auto* const first = stamps_.as<Stamp>();
  const Stamp* const second = first + kMaxMultiprocessors;
  std::uint64_t begin_ns = 0, end_ns = ~std::uint64_t{0};
  std::vector<double> clocks;
  for (std::size_t sm = 0; sm < kMaxMultiprocessors; ++sm) {
    if (first[sm].nanoseconds != 0) begin_ns = std::max(begin_ns, first[sm].nanoseconds);
    if (second[sm].nanoseconds != 0) end_ns = std::min(end_ns, second[sm].nanoseconds);
    if (first[sm].nanoseconds == 0 || second[sm].nanoseconds <= first[sm].nanoseconds) continue;
    clocks.push_back(clock_between(first[sm], second[sm]));
  }
  const Stamp* const idle = first + 2 * kMaxMultiprocessors;
  if (clocks.empty() || end_ns < begin_ns || idle[1].nanoseconds <= idle[0].nanoseconds) {
    return make_error(ErrorCode::kInternal, "the stamps of a launch are missing or out of order");
  }
  Timing timing;
  RIDGE_TRY(span, end_->since(*begin_));
  timing.span = span;
  timing.stamp = 1e-9 * static_cast<double>(end_ns - begin_ns) - instrument_.empty_stamp;
  timing.host = host - instrument_.empty_host;
  timing.clock = stats::median(clocks);
  timing.idle_clock = clock_between(idle[0], idle[1]);
  return timing;
}

Status Timer::calibrate() {
  auto* const words = words_.as<Words>();
  RIDGE_CHECK_OK(harness_.run(
      {"ridge_timer_step", 1, 1, 1, {CheckLaunch::pointer(const_cast<const std::uint64_t*>(&words->step))}},
      stream_.handle()));
  RIDGE_CHECK_OK(device::cuda::synchronize(stream_.handle()));
  instrument_.timer_step = 1e-9 * static_cast<double>(words->step);
  std::vector<double> spans, stamps, hosts;
  const auto nothing = [this](device::cuda::StreamHandle stream) {
    return harness_.run({"ridge_nothing", 1, 1, 32, {}}, stream);
  };
  for (int i = 0; i < kEmptyLaunches; ++i) {
    auto timed = time(nothing, 5.0);
    if (const LaunchTrouble* trouble = std::get_if<LaunchTrouble>(&timed)) {
      return make_error(ErrorCode::kToolFailed, "an empty kernel cannot be timed: {}", trouble->detail);
    }
    const Timing& one = std::get<Timing>(timed);
    spans.push_back(one.span);
    stamps.push_back(one.stamp);
    hosts.push_back(one.host);
  }
  instrument_.empty = stats::median(spans);
  instrument_.empty_stamp = stats::median(stamps);
  instrument_.empty_host = stats::median(hosts);
  return ok_status();
}

std::optional<std::string> contradiction(const Timing& timing, const Instrument& instrument) {
  const double own = timing.span - instrument.empty;
  const double slack = std::max(kAbsoluteSlack + instrument.timer_step, kRelativeSlack * timing.span);
  if (std::fabs(own - timing.stamp) > slack) {
    return fmt::format("events say {:.3f} us, stamps on the multiprocessors {:.3f} us (both less an empty launch)",
                       1e6 * own, 1e6 * timing.stamp);
  }
  if (own > timing.host + std::max(kHostSlack, kRelativeSlack * timing.span)) {
    return fmt::format("events say {:.3f} us, but the host saw the end {:.3f} us after opening the gate", 1e6 * own,
                       1e6 * timing.host);
  }
  return std::nullopt;
}

}  // namespace ridge::evaluate::cuda
