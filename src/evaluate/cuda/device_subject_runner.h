// One subject on one GPU, in the process that owns the context: every launch on its own secret inputs, timed by three
// clocks behind a gate, cold, and judged before its time counts.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "device/cuda/stream.h"
#include "evaluate/check_policy.h"
#include "evaluate/cuda/check_module.h"
#include "evaluate/cuda/cold_cache.h"
#include "evaluate/cuda/device_subject.h"
#include "evaluate/cuda/memory.h"
#include "evaluate/cuda/output_verifier.h"
#include "evaluate/cuda/timer.h"

namespace ridge::evaluate::cuda {

struct SubjectRunnerSpec {
  Subject subject;
  const ops::Operator* op = nullptr;
  std::vector<ops::Problem> problems;
  record::Protocol protocol;
  Defences defences;
  int device = 0;
  std::optional<std::uint64_t> seed;  // of everything secret in check(); empty: the operating system's
  bool timed = true;  // false: for check() and plain_call() only, which also run where kernels are run one by one
  std::shared_ptr<const CheckImages> images;
};

// One launch, or the mean over a chain of short ones.
struct DeviceLaunch {
  double latency = 0, host = 0;      // seconds
  double clock = 0, idle_clock = 0;  // Hz, during the launch and just before it (Timing)
  std::int64_t chain = 1;
};

// How much a check of one problem looks at.
enum class CheckExtent {
  kAll,     // families, padded rows, guard pages, new addresses, the same call twice, NaN and infinity
  kOneCall  // one call, compared in full
};
// A check of one problem: what check_subject reports.
struct CheckNote {
  Verification seen;
  bool repeatable = true;
  std::int64_t families = 0;  // of inputs
  std::string refused;        // the plan excludes the case
};

class DeviceSubjectRunner {
 public:
  static Attempt<std::unique_ptr<DeviceSubjectRunner>> open(SubjectRunnerSpec spec);

  Attempt<DeviceLaunch> launch(std::size_t index, Depth depth, numerics::Family family = numerics::Family::kMixture);
  // Every call is compared in full.
  Verdict check(std::size_t index, CheckExtent extent, CheckNote& note);
  // One call that is compared in full, without timing: what a sanitizer watches.
  Verdict plain_call(std::size_t index);
  // The subject loaded anew, other memory, nothing remembered: what a fresh process would have.
  Verdict renew();
  // After the last launch: whether anything still runs, whether the caches were cold, and whether the host's clock
  // bears out what those of the device said.
  Verdict finish();

  [[nodiscard]] const Verification& verification(std::size_t index) const { return verifications_[index]; }
  // "cold_hits", "empty_kernel", "timer_step", "suspect_launches", ...
  [[nodiscard]] std::map<std::string, double> facts() const;

 private:
  // A problem with one kind of rows.
  struct Ready {
    std::vector<TensorView> views;
    DeviceSubject::Prepared prepared;
  };

  explicit DeviceSubjectRunner(SubjectRunnerSpec spec) : spec_(std::move(spec)) {}
  Verdict set_up();
  Verdict load_subject();
  void draw_from(Secrets secrets);
  Attempt<const Ready*> ready(std::size_t index, RowPadding padding);
  [[nodiscard]] std::int64_t chain_length(std::size_t index, const Ready& ready) const;
  Attempt<std::vector<Call>> new_calls(std::size_t index, const Ready& ready, std::int64_t count,
                                       numerics::Family family);
  [[nodiscard]] std::optional<TensorView> previous_output(std::size_t index, const Place& place) const;
  Verdict warm_up(std::size_t index, const Ready& ready, std::vector<Call>& calls);
  [[nodiscard]] double median_lateness() const;
  Verdict run_ungated(const Ready& ready, const Call& call);
  Attempt<Timing> time_calls(const Ready& ready, std::vector<Call>& calls);
  Verdict judge(std::size_t index, std::vector<Call>& calls, Depth depth);
  Verdict audit(std::size_t index, const Timing& timing, std::int64_t chain);
  Verdict judged_call(std::size_t index, const Ready& ready, Call& call);
  Verdict check_place(std::size_t index, const Ready& ready, Place place, numerics::Family family, bool specials,
                      std::optional<std::uint64_t> seed = std::nullopt);
  Verdict check_all(std::size_t index, const Ready& one, const Ready& wide, CheckNote& note);
  Verdict check_guarded(std::size_t index, const Ready& ready);
  Verdict check_repeats(std::size_t index, const Ready& ready, CheckNote& note);
  [[nodiscard]] Failure trouble(const LaunchTrouble& trouble) const;
  [[nodiscard]] CheckLimits limits() const { return limits_of_gpu(static_cast<double>(device_->info().memory_bytes)); }

  SubjectRunnerSpec spec_;
  const device::cuda::Device* device_ = nullptr;
  std::optional<device::cuda::Stream> stream_;
  std::unique_ptr<CheckModule> harness_, checks_;
  std::unique_ptr<DeviceSubject> subject_;
  device::cuda::Buffer spacer_;  // moves the pool to other pages
  std::optional<Pool> pool_;
  std::unique_ptr<OutputVerifier> verifier_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<ColdCache> cold_;
  Secrets secrets_;
  measure::Coin coin_;
  std::map<std::pair<std::size_t, RowPadding>, Ready> ready_;
  std::vector<Verification> verifications_;
  std::map<std::size_t, double> first_span_;       // of problems that were launched before
  std::map<std::size_t, TensorView> last_output_;  // the first output of the call before, and where it lies
  std::set<std::size_t> compared_;                 // problems whose first call was compared in full
  std::int64_t suspect_ = 0, launches_ = 0;
  std::vector<double> lateness_, own_;  // of every timing: how much later the host saw its end, and its own span
};

}  // namespace ridge::evaluate::cuda
