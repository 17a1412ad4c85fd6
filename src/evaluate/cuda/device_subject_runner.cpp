#include "evaluate/cuda/device_subject_runner.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "evaluate/cuda/floor.h"
#include "stats/summary.h"

namespace ridge::evaluate::cuda {
namespace {

using record::Defence;
using record::Outcome;

constexpr double kShort = 10e-6, kChainSpan = 100e-6;  // kernels below are timed in chains of this length
constexpr int kAttempts = 3;                           // launches whose clocks contradict are repeated
constexpr double kMaxHitFraction = 0.10;
constexpr std::int64_t kEnoughProbes = 32;
constexpr std::uint64_t kSpacerPages = 64;  // of 2 MiB
constexpr double kFloorSlack = 0.98;        // clocks are read to about a per cent
// A kernel can reach the memory in which the device's clocks are kept, but not the host's: the median over a session's
// launches must not be later by more than polling and the bus explain.
constexpr double kLate = 2.5e-6, kLateShare = 0.01;
constexpr std::size_t kEnoughTimings = 8;

Failure harness_fault(const Error& error) { return {Outcome::kHarnessFault, error.text(), Defence::kNone}; }

}  // namespace

Attempt<std::unique_ptr<DeviceSubjectRunner>> DeviceSubjectRunner::open(SubjectRunnerSpec spec) {
  std::unique_ptr<DeviceSubjectRunner> runner(new DeviceSubjectRunner(std::move(spec)));
  RIDGE_CHECK_OK(runner->set_up());
  return runner;
}

Verdict DeviceSubjectRunner::set_up() {
  const auto opened = device::cuda::Device::open(spec_.device);
  if (!opened) return harness_fault(opened.error());
  device_ = *opened;
  if (Status current = device_->make_current(); !current) return harness_fault(current.error());
  auto stream = device::cuda::Stream::create(*device_);
  if (!stream) return harness_fault(stream.error());
  stream_ = std::move(*stream);
  for (auto [image, module] : {std::pair{&spec_.images->harness, &harness_}, {&spec_.images->checks, &checks_}}) {
    auto loaded = CheckModule::load(*device_, *image);
    if (!loaded) return harness_fault(loaded.error());
    *module = std::move(*loaded);
  }
  if (spec_.timed) {
    auto timer = Timer::create(*device_, *harness_, *stream_);
    if (!timer) return harness_fault(timer.error());
    timer_ = std::move(*timer);
  }
  if (spec_.timed && spec_.protocol.mode == "cold") {
    auto cold = ColdCache::create(*device_, *harness_, stream_->handle(), spec_.defences);
    if (!cold) return harness_fault(cold.error());
    cold_ = std::move(*cold);
  }
  auto verifier = OutputVerifier::create(*device_, *harness_, *checks_, *spec_.op->device_check, spec_.problems,
                                         spec_.defences, stream_->handle());
  if (!verifier) return harness_fault(verifier.error());
  verifier_ = std::move(*verifier);
  return load_subject();
}

Verdict DeviceSubjectRunner::renew() {
  if (const auto problem = wait_until_idle(*stream_, spec_.protocol.call_timeout)) return trouble(*problem);
  ready_.clear();
  first_span_.clear();
  last_output_.clear();
  compared_.clear();
  subject_.reset();
  pool_.reset();
  suspect_ = launches_ = 0;
  lateness_.clear();
  own_.clear();
  if (cold_ != nullptr) cold_->forget();
  return load_subject();
}

// The subject comes last: seeds are drawn after it was loaded, and no memory of ours lies where it was before.
Verdict DeviceSubjectRunner::load_subject() {
  draw_from(Secrets());
  verifications_.assign(spec_.problems.size(), {});
  auto spacer = device::cuda::Buffer::allocate(*device_, (coin_.below(kSpacerPages) + 1) << 21);
  if (spacer) spacer_ = std::move(*spacer);
  RIDGE_TRY(subject, DeviceSubject::load(*device_, spec_.subject));
  subject_ = std::move(subject);
  std::size_t largest = 0;
  for (std::size_t i = 0; i < spec_.problems.size(); ++i) {
    for (const RowPadding padding : {RowPadding::kNone, RowPadding::kPadded}) {
      RIDGE_TRY(made, ready(i, padding));
      largest = std::max(largest, place_bytes(made->views, made->prepared.workspace_bytes));
    }
  }
  auto pool = Pool::create(*device_, largest);
  if (!pool) {
    Failure failure = harness_fault(pool.error());
    failure.outcome = Outcome::kOom;
    failure.gate = Defence::kMemory;
    return failure;
  }
  pool_ = std::move(*pool);
  return passed();
}

void DeviceSubjectRunner::draw_from(Secrets secrets) {
  secrets_ = std::move(secrets);
  coin_ = measure::Coin(secrets_.next());
  verifier_->draw_from(secrets_.branch("verifier"));
}

Attempt<const DeviceSubjectRunner::Ready*> DeviceSubjectRunner::ready(std::size_t index, RowPadding padding) {
  const auto key = std::pair{index, padding};
  if (const auto found = ready_.find(key); found != ready_.end()) return &found->second;
  Ready made;
  made.views = operand_views(spec_.problems[index], padding);
  RIDGE_TRY(prepared, subject_->prepare(spec_.problems[index], made.views));
  made.prepared = std::move(prepared);
  return &ready_.emplace(key, std::move(made)).first->second;
}

std::int64_t DeviceSubjectRunner::chain_length(std::size_t index, const Ready& one) const {
  const auto known = first_span_.find(index);
  if (known == first_span_.end() || known->second >= kShort) return 1;
  const auto wanted = static_cast<std::int64_t>(std::ceil(kChainSpan / std::max(known->second, 1e-7)));
  return std::min(
      {wanted, static_cast<std::int64_t>(kMaxChain), pool_->capacity(one.views, one.prepared.workspace_bytes)});
}

Failure DeviceSubjectRunner::trouble(const LaunchTrouble& trouble) const {
  switch (trouble.kind) {
    case LaunchTrouble::Kind::kHang: return {Outcome::kHang, trouble.detail, Defence::kHang};
    case LaunchTrouble::Kind::kFault: return failure_of_fault(trouble.detail);
    case LaunchTrouble::Kind::kHarness: break;
  }
  return {Outcome::kHarnessFault, trouble.detail, Defence::kNone};
}

Attempt<std::vector<Call>> DeviceSubjectRunner::new_calls(std::size_t index, const Ready& one, std::int64_t count,
                                                          numerics::Family family) {
  std::vector<Call> calls(static_cast<std::size_t>(count));
  const bool fresh = spec_.defences.on(Defence::kFreshInputs);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Call& call = calls[i];
    call.problem = &spec_.problems[index];
    call.family = family;
    // Without the defence every call finds its operands where the one before had them.
    if (!spec_.defences.on(Defence::kNewAddress) && i == 0) pool_->rewind();
    call.place = pool_->place(one.views, one.prepared.workspace_bytes, coin_);
    if (i == 0) call.previous = previous_output(index, call.place);
    verifier_->draw(call, coin_, fresh ? std::nullopt : std::optional<std::uint64_t>(index + 1));
    if (const Status prepared = verifier_->prepare(call, i); !prepared) return harness_fault(prepared.error());
  }
  return calls;
}

// The output of the call before, unless this call will write over it.
std::optional<TensorView> DeviceSubjectRunner::previous_output(std::size_t index, const Place& place) const {
  const auto last = last_output_.find(index);
  if (last == last_output_.end() || !spec_.defences.on(Defence::kFreshInputs)) return std::nullopt;
  const auto overlaps = [&](const TensorView& view) { return view.data == last->second.data; };
  if (std::any_of(place.operands.begin(), place.operands.end(), overlaps)) return std::nullopt;
  return last->second;
}

Verdict DeviceSubjectRunner::run_ungated(const Ready& one, const Call& call) {
  RIDGE_TRY(bound,
            subject_->bind(*call.problem, one.prepared, {call.place.operands, call.scalars}, call.place.workspaces));
  const Status launched = bound(stream_->handle());
  if (!launched) return failure_of_fault(launched.error().text());
  if (const auto problem = wait_until_idle(*stream_, spec_.protocol.call_timeout)) return trouble(*problem);
  return passed();
}

// The timed call gets content of its own, written where that of the untimed one was: an answer that the untimed call
// left behind is of no use, and what was just written is in L2.
Verdict DeviceSubjectRunner::warm_up(std::size_t index, const Ready& one, std::vector<Call>& calls) {
  const bool fresh = spec_.defences.on(Defence::kFreshInputs);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    RIDGE_CHECK_OK(run_ungated(one, calls[i]));
    verifier_->draw(calls[i], coin_, fresh ? std::nullopt : std::optional<std::uint64_t>(index + 1));
    if (const Status again = verifier_->prepare(calls[i], i); !again) return harness_fault(again.error());
  }
  return passed();
}

Attempt<Timing> DeviceSubjectRunner::time_calls(const Ready& one, std::vector<Call>& calls) {
  std::vector<DeviceSubject::Launches> launches;
  for (const Call& call : calls) {
    RIDGE_TRY(bound,
              subject_->bind(*call.problem, one.prepared, {call.place.operands, call.scalars}, call.place.workspaces));
    launches.push_back(std::move(bound));
  }
  if (cold_ != nullptr) {
    const Status reset = device_->reset_persisting_l2();
    if (!reset) return harness_fault(reset.error());
    std::vector<TensorView> inputs;
    const Call& probed = calls[coin_.below(calls.size())];
    for (std::size_t i = 0; i < probed.place.operands.size(); ++i) {
      if (!probed.problem->operands[i].output) inputs.push_back(probed.place.operands[i]);
    }
    if (!inputs.empty()) {
      const Status swept = cold_->before_call(inputs[coin_.below(inputs.size())], coin_.next());
      if (!swept) return harness_fault(swept.error());
    }
  }
  auto timed = timer_->time(
      [&launches](device::cuda::StreamHandle stream) -> Status {
        for (const DeviceSubject::Launches& launch : launches) RIDGE_CHECK_OK(launch(stream));
        return ok_status();
      },
      spec_.protocol.call_timeout* static_cast<double>(calls.size()));
  if (const LaunchTrouble* problem = std::get_if<LaunchTrouble>(&timed)) return trouble(*problem);
  if (cold_ != nullptr) cold_->collect();
  auto timing = std::get<Timing>(timed);
  timing.span *= spec_.defences.event_scale * spec_.defences.device_clock_scale;
  timing.stamp *= spec_.defences.device_clock_scale;
  return timing;
}

Verdict DeviceSubjectRunner::judge(std::size_t index, std::vector<Call>& calls, Depth depth) {
  if (!spec_.defences.on(Defence::kEveryCall) && compared_.contains(index)) return passed();
  Verdict verdict = verifier_->judge(calls, depth, coin_, verifications_[index]);
  if (!verdict) {
    // A fault of the device shows in the first call into the driver after it.
    const bool ours = verdict.error().outcome == Outcome::kHarnessFault;
    return ours ? failure_of_fault(verdict.error().detail) : std::move(verdict.error());
  }
  compared_.insert(index);
  for (std::size_t i = 0; i < calls.back().problem->operands.size(); ++i) {
    if (!calls.back().problem->operands[i].output) continue;
    last_output_[index] = calls.back().place.operands[i];
    break;
  }
  return passed();
}

Verdict DeviceSubjectRunner::audit(std::size_t index, const Timing& timing, std::int64_t chain) {
  if (!spec_.defences.on(Defence::kFloor)) return passed();
  const ops::Problem& problem = spec_.problems[index];
  const double floor = floor_seconds(problem, spec_.op->cost(problem), device_->info(), timing.clock, cold_ != nullptr);
  const double latency = timing.span / static_cast<double>(chain);
  if (latency >= kFloorSlack * floor) return passed();
  return Failure{
      Outcome::kHarnessFault,
      fmt::format("audit: {:.3f} us is below the {:.3f} us that {} needs at {:.0f} MHz; the measurement is wrong",
                  1e6 * latency, 1e6 * floor, device_->info().name, 1e-6 * timing.clock),
      Defence::kFloor};
}

Attempt<DeviceLaunch> DeviceSubjectRunner::launch(std::size_t index, Depth depth, numerics::Family family) {
  RIDGE_TRY(made, ready(index, RowPadding::kNone));
  const Ready& one = *made;
  if (!one.prepared.refused.empty()) {
    return Failure{Outcome::kWrong, "the launch plan excludes the case: " + one.prepared.refused, Defence::kStatus};
  }
  std::string disagreement;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const bool first = !first_span_.contains(index);
    const std::int64_t chain = chain_length(index, one);
    RIDGE_TRY(calls, new_calls(index, one, chain, family));
    if (spec_.protocol.mode == "warm" || (first && subject_->is_library())) {
      RIDGE_CHECK_OK(warm_up(index, one, calls));
    }
    RIDGE_TRY(timing, time_calls(one, calls));
    ++launches_;
    RIDGE_CHECK_OK(judge(index, calls, first ? Depth::kFull : depth));
    if (spec_.defences.on(Defence::kInformative) && !verifications_[index].uninformative.empty()) {
      return Failure{Outcome::kHarnessFault,
                     "the case shows nothing and must not be timed: " + verifications_[index].uninformative,
                     Defence::kInformative};
    }
    first_span_.emplace(index, timing.span / static_cast<double>(chain));
    if (spec_.defences.on(Defence::kClock)) {
      if (const auto found = cuda::contradiction(timing, timer_->instrument())) {
        disagreement = *found;
        ++suspect_;
        continue;
      }
    }
    RIDGE_CHECK_OK(audit(index, timing, chain));
    own_.push_back(timing.span - timer_->instrument().empty);
    lateness_.push_back(timing.host - own_.back());
    const auto count = static_cast<double>(chain);
    return DeviceLaunch{timing.span / count, timing.host / count, timing.clock, timing.idle_clock, chain};
  }
  return Failure{
      Outcome::kHarnessFault,
      fmt::format("suspect: {} launches in a row whose clocks disagree; the last: {}", kAttempts, disagreement),
      Defence::kClock};
}

Verdict DeviceSubjectRunner::finish() {
  if (const auto problem = wait_until_idle(*stream_, spec_.protocol.call_timeout)) return trouble(*problem);
  if (cold_ != nullptr && spec_.defences.on(Defence::kCold) && cold_->probed() >= kEnoughProbes &&
      cold_->hit_fraction() > kMaxHitFraction) {
    return Failure{Outcome::kHarnessFault,
                   fmt::format("the caches were not cold: {:.0f} % of {} probed lines of the inputs were in L2",
                               100 * cold_->hit_fraction(), cold_->probed()),
                   Defence::kCold};
  }
  if (spec_.defences.on(Defence::kClock) && own_.size() >= kEnoughTimings) {
    const double own = stats::median(own_), late = median_lateness();
    if (late > std::max(kLate, kLateShare * own)) {
      return Failure{
          Outcome::kHarnessFault,
          fmt::format("suspect: the clocks of the device say {:.3f} us for a launch, and the host saw its end "
                      "{:.3f} us later than that (medians of {} launches)",
                      1e6 * own, 1e6 * late, own_.size()),
          Defence::kClock};
    }
  }
  return passed();
}

double DeviceSubjectRunner::median_lateness() const { return lateness_.empty() ? 0 : stats::median(lateness_); }

std::map<std::string, double> DeviceSubjectRunner::facts() const {
  const Instrument& instrument = timer_->instrument();
  std::map<std::string, double> facts = {{"empty_kernel", instrument.empty},
                                         {"empty_stamp", instrument.empty_stamp},
                                         {"empty_host", instrument.empty_host},
                                         {"timer_step", instrument.timer_step},
                                         {"suspect_launches", static_cast<double>(suspect_)},
                                         {"host_lateness", median_lateness()},
                                         {"pool_bytes", static_cast<double>(pool_->bytes())}};
  if (cold_ != nullptr) {
    facts["l2_hit_fraction"] = cold_->hit_fraction();
    facts["l2_hit_cycles"] = cold_->hit_cycles();
    facts["l2_miss_cycles"] = cold_->miss_cycles();
  }
  return facts;
}

}  // namespace ridge::evaluate::cuda
