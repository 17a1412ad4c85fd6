#include "evaluate/session.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "journal/protocol.h"
#include "measure/machine.h"
#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

using measure::Arm;

// Samples are rounded to steps of this many seconds, finer than any clock here (events of a GPU come as fp32
// milliseconds): a recorded time between two steps was not measured.
constexpr double kClockStep = 1e-10;

struct Arms {
  std::unique_ptr<Launcher> incumbent, candidate;
  [[nodiscard]] Launcher& of(Arm arm) const { return arm == Arm::kIncumbent ? *incumbent : *candidate; }
};

// Clock readings of each arm's launches.
struct Clocks {
  std::vector<double> incumbent, candidate;
  [[nodiscard]] std::vector<double>& of(Arm arm) { return arm == Arm::kIncumbent ? incumbent : candidate; }
};

class SessionRun {
 public:
  SessionRun(MeasurementBackend& measurement, const ops::Operator& op, const std::vector<ops::Problem>& problems,
             const SessionOptions& options)
      : measurement_(measurement), op_(op), problems_(problems), options_(options) {}

  SessionResult run(const Subject& incumbent, const Subject& candidate, const SessionProgress& progress) {
    result_.session.index = options_.index;
    result_.session.role = options_.role;
    against_itself_ = incumbent.artifact == candidate.artifact &&
                      incumbent.implementation == candidate.implementation &&
                      incumbent.configuration == candidate.configuration;
    const std::uint64_t start_ns = measure::now_ns();
    const std::unique_ptr<Watch> watch = measurement_.watch();
    // Swapped slots: who starts first is a coin as well.
    for (const Arm arm : in_random_order()) {
      if (!open(arm, arm == Arm::kIncumbent ? incumbent : candidate)) return std::move(result_);
    }
    for (std::size_t i = 0; i < problems_.size() && !result_.failure; ++i) {
      if (progress) progress(i, problems_.size());
      result_.session.shapes.push_back(measure_problem(i));
    }
    for (const Arm arm : {Arm::kIncumbent, Arm::kCandidate}) {
      if (result_.failure) break;
      const Verdict late = arms_.of(arm).finish();
      if (!late) result_.failure = ArmFailure{arm, "after the last call", late.error()};
    }
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      result_.verification.push_back(arms_.candidate->verification(i));
    }
    finish_guards(*watch, start_ns);
    return std::move(result_);
  }

 private:
  std::array<Arm, 2> in_random_order() {
    if (coin_.flip()) return {Arm::kCandidate, Arm::kIncumbent};
    return {Arm::kIncumbent, Arm::kCandidate};
  }

  bool open(Arm arm, const Subject& subject) {
    OpenResult opened = measurement_.open(subject, op_, problems_);
    if (!opened) {
      result_.failure = ArmFailure{arm, "starting", std::move(opened.error())};
      return false;
    }
    (arm == Arm::kIncumbent ? arms_.incumbent : arms_.candidate) = std::move(*opened);
    return true;
  }

  Result<double> launch(Arm arm, std::size_t index, Depth depth) {
    LaunchResult launched = arms_.of(arm).launch(index, depth);
    if (!launched) {
      result_.failure = ArmFailure{arm, problems_[index].problem_case.label(), launched.error()};
      return make_error(ErrorCode::kToolFailed, "{}", launched.error().detail);
    }
    if (launched->clock) clocks_.of(arm).push_back(*launched->clock);
    if (launched->own_clock) own_clocks_.of(arm).push_back(*launched->own_clock);
    const double hidden = arm == Arm::kCandidate && !against_itself_ ? arms_.candidate->hidden() : 0;
    return std::round((launched->latency + hidden) / kClockStep) * kClockStep;
  }

  // Stops at a failing launch, which result_ then names.
  record::ShapeSamples measure_problem(std::size_t index) {
    record::ShapeSamples samples;
    samples.label = problems_[index].problem_case.label();
    // One call each that is verified but not timed: a kernel may allocate its workspace in its first call.
    for (const Arm arm : in_random_order()) {
      const Depth depth = arm == Arm::kCandidate && options_.full_first_check ? Depth::kFull : Depth::kQuick;
      if (!launch(arm, index, depth)) return samples;
    }
    Result<std::vector<record::Quad>> quads = measure::run_quads(
        [&](Arm arm) { return launch(arm, index, Depth::kQuick); }, options_.quads, options_.launches, coin_);
    if (quads) samples.quads = std::move(*quads);
    return samples;
  }

  void finish_guards(Watch& watch, std::uint64_t start_ns) {
    auto& guards = result_.session.guards;
    const std::array<const Launcher*, 2> launchers = {arms_.incumbent.get(), arms_.candidate.get()};
    guards = watch.guards(launchers);
    for (const Launcher* launcher : launchers) {
      for (const auto& [name, value] : launcher->facts()) guards[name] = std::max(guards[name], value);
    }
    guards["sandbox"] = arms_.candidate->sandbox();
    guards["hidden"] = against_itself_ ? 0 : arms_.candidate->hidden();
    if (!clocks_.incumbent.empty() && !clocks_.candidate.empty()) {
      const double a = stats::median(clocks_.incumbent), b = stats::median(clocks_.candidate);
      guards["clock_incumbent"] = a;
      guards["clock_candidate"] = b;
      guards["clock_gap"] = std::fabs(a / b - 1);
    }
    if (!own_clocks_.incumbent.empty() && !own_clocks_.candidate.empty()) {
      guards["own_clock_incumbent"] = stats::median(own_clocks_.incumbent);
      guards["own_clock_candidate"] = stats::median(own_clocks_.candidate);
    }
    guards["clock_step"] = kClockStep;
    guards["coin"] = static_cast<double>(seed_);
    guards["began"] = 1e-9 * static_cast<double>(start_ns);
    guards["wall"] = 1e-9 * static_cast<double>(measure::now_ns() - start_ns);
  }

  MeasurementBackend& measurement_;
  const ops::Operator& op_;
  const std::vector<ops::Problem>& problems_;
  const SessionOptions& options_;
  bool against_itself_ = false;
  const std::uint64_t seed_ = secret_seed() >> 11;  // 53 bits, which a guard holds
  // Flipped for who starts first, and of every problem for who is called first and for each quad: campaign/plausible.h
  // flips it again.
  measure::Coin coin_{seed_};
  Arms arms_;
  Clocks clocks_, own_clocks_;
  SessionResult result_;
};

}  // namespace

std::vector<stats::GuardLimit> guard_limits(const record::Protocol& protocol) {
  return stats::guard_limits(protocol.max_clock_gap, protocol.max_steal, protocol.max_foreign_load);
}

SessionResult run_session(MeasurementBackend& measurement, const record::Protocol& protocol, const Subject& incumbent,
                          const Subject& candidate, const ops::Operator& op, const std::vector<ops::Problem>& problems,
                          const SessionOptions& options, const SessionProgress& progress) {
  SessionResult result = SessionRun(measurement, op, problems, options).run(incumbent, candidate, progress);
  if (const auto reason = stats::void_reason(result.session.guards, journal::guard_rule(protocol).void_limits())) {
    result.session.voided = true;
    result.session.void_reason = *reason;
  }
  return result;
}

Result<stats::SessionStatistic> statistic(const record::Session& session) {
  std::vector<stats::ShapeRatios> shapes;
  for (const record::ShapeSamples& shape : session.shapes) {
    stats::ShapeRatios ratios{shape.label, 1.0, {}};
    for (const record::Quad& quad : shape.quads) {
      RIDGE_TRY(ratio, stats::quad_log_ratio(quad.order, quad.blocks));
      ratios.log_ratios.push_back(ratio);
    }
    shapes.push_back(std::move(ratios));
  }
  return stats::session_statistic(shapes);
}

std::vector<double> latencies(const record::ShapeSamples& shape, Arm arm) {
  std::vector<double> all;
  for (const record::Quad& quad : shape.quads) {
    for (std::size_t i = 0; i < quad.blocks.size() && i < quad.order.size(); ++i) {
      if ((quad.order[i] == 'A') != (arm == Arm::kIncumbent)) continue;
      all.insert(all.end(), quad.blocks[i].begin(), quad.blocks[i].end());
    }
  }
  return all;
}

}  // namespace ridge::evaluate
