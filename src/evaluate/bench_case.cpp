#include "evaluate/bench_case.h"

#include <algorithm>
#include <cmath>

#include "evaluate/session.h"
#include "measure/machine.h"
#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

// Six sessions are the fewest whose range covers the median with 95 %.
constexpr std::int64_t kSessions = 6;
constexpr std::int64_t kMostSessions = 200;
constexpr std::size_t kMostDisturbed = 2 * kSessions;
constexpr std::int64_t kLongestSession = 64;  // rounds

}  // namespace

// In one session; the time of a call is known after the first.
std::int64_t BenchCase::rounds_wanted(const BenchGoal& goal) const {
  double rounds = static_cast<double>(goal.samples) / (2.0 * kSessions);
  for (const BenchSamples& one : collected_) {
    if (goal.min_time <= 0 || one.samples.empty()) continue;
    const double call = one.timed / static_cast<double>(one.samples.size());
    rounds = std::max(rounds, goal.min_time / call / (2.0 * kSessions));
  }
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(rounds)), 1, kLongestSession);
}

bool BenchCase::reached(const BenchGoal& goal) const {
  return std::all_of(collected_.begin(), collected_.end(), [&](const BenchSamples& one) {
    return one.failure.has_value() ||
           (static_cast<std::int64_t>(one.samples.size()) >= goal.samples && one.timed >= goal.min_time);
  });
}

void BenchCase::run(const BenchGoal& goal) {
  const std::uint64_t start = measure::now_ns();
  const auto elapsed = [&] { return 1e-9 * static_cast<double>(measure::now_ns() - start); };
  const std::vector<stats::GuardLimit> limits = guard_limits(protocol_);
  double longest = 0;
  std::int64_t sessions = 0;
  std::vector<std::pair<std::vector<measure::Round>, Guards>> disturbed;
  while (sessions < kMostSessions && disturbed.size() < kMostDisturbed && !reached(goal)) {
    const bool first = sessions++ == 0;
    const double before = elapsed();
    if (!first && before + longest > goal.seconds) break;
    // The first session is short: it shows what a call costs.
    const std::int64_t rounds = first ? std::min<std::int64_t>(rounds_wanted(goal), 2) : rounds_wanted(goal);
    Guards guards;
    std::vector<measure::Round> measured = session(rounds, goal.full_check && first, guards);
    if (stats::void_reason(guards, limits)) {
      disturbed.emplace_back(std::move(measured), std::move(guards));
    } else {
      keep(measured, guards);
    }
    longest = std::max(longest, elapsed() - before);
  }
  if (reached(goal)) {
    guards_["dropped_sessions"] = static_cast<double>(disturbed.size());
  } else {
    for (const auto& [rounds, guards] : disturbed) keep(rounds, guards);
  }
}

std::vector<measure::Round> BenchCase::session(std::int64_t rounds, bool full_check, Guards& guards) {
  const std::unique_ptr<Watch> watch = measurement_.watch();
  std::vector<std::unique_ptr<Launcher>> launchers(subjects_.size());
  const auto fails = [&](std::size_t i, Failure failure) {
    collected_[i].failure = std::move(failure);
    launchers[i].reset();
  };
  for (std::size_t i = 0; i < subjects_.size(); ++i) {
    if (collected_[i].failure) continue;
    OpenResult opened = measurement_.open(*subjects_[i], op_, problems_);
    if (opened) {
      launchers[i] = std::move(*opened);
    } else {
      fails(i, std::move(opened.error()));
    }
  }
  const auto launch = [&](std::size_t i, Depth depth) -> std::optional<double> {
    if (!launchers[i]) return std::nullopt;
    LaunchResult launched = launchers[i]->launch(0, depth);
    if (launched) return launched->latency;
    fails(i, std::move(launched.error()));
    return std::nullopt;
  };
  // One call each that is verified but not timed: a kernel may allocate its workspace in its first call.
  for (std::size_t i = 0; i < subjects_.size(); ++i) (void)launch(i, full_check ? Depth::kFull : Depth::kQuick);
  const std::vector<measure::Round> done =
      measure::run_rounds([&](std::size_t i) { return launch(i, Depth::kQuick); }, subjects_.size(), rounds, coin_);

  std::vector<const Launcher*> alive;
  for (std::size_t i = 0; i < launchers.size(); ++i) {
    if (!launchers[i]) continue;
    alive.push_back(launchers[i].get());
    if (Verdict late = launchers[i]->finish(); !late) collected_[i].failure = std::move(late.error());
  }
  guards = watch->guards(alive);
  return done;
}

void BenchCase::keep(const std::vector<measure::Round>& rounds, const Guards& guards) {
  for (const auto& [name, value] : guards) guards_[name] = std::max(guards_[name], value);
  for (std::size_t i = 0; i < subjects_.size(); ++i) {
    std::vector<double> samples, ratios;
    for (const measure::Round& round : rounds) {
      if (!round[i]) continue;
      samples.insert(samples.end(), round[i]->begin(), round[i]->end());
      if (!round[0]) continue;
      const auto log_product = [](const std::array<double, 2>& pair) { return std::log(pair[0] * pair[1]); };
      ratios.push_back((log_product(*round[0]) - log_product(*round[i])) / 2);
    }
    if (samples.empty()) continue;
    BenchSamples& into = collected_[i];
    into.samples.insert(into.samples.end(), samples.begin(), samples.end());
    for (const double sample : samples) into.timed += sample;
    into.session_log_medians.push_back(std::log(stats::median(samples)));
    if (!ratios.empty()) into.session_log_ratios.push_back(stats::hodges_lehmann(ratios));
  }
}

}  // namespace ridge::evaluate
