#include "evaluate/session.h"

#include <algorithm>

#include "base/error.h"
#include "stats/session.h"

namespace ridge::evaluate {
namespace {

using measure::Arm;

struct Arms {
  std::unique_ptr<Station> incumbent, candidate;
  [[nodiscard]] Station& of(Arm arm) const { return arm == Arm::kIncumbent ? *incumbent : *candidate; }
};

std::optional<ArmFailure> open_arm(Arm arm, const Subject& subject, const ops::Operator& op,
                                   const std::vector<ops::Problem>& problems, const Harness& harness, Arms& arms) {
  auto opened = Station::open(subject, op, problems, harness);
  if (Failure* failure = std::get_if<Failure>(&opened)) return ArmFailure{arm, "starting", std::move(*failure)};
  (arm == Arm::kIncumbent ? arms.incumbent : arms.candidate) = std::move(std::get<0>(opened));
  return std::nullopt;
}

// The measured part of one problem. `failure` is set when a launch failed.
record::ShapeSamples measure_problem(const Arms& arms, std::size_t index, const std::string& label,
                                     const SessionOptions& options, measure::Coin& coin,
                                     std::optional<ArmFailure>& failure) {
  record::ShapeSamples samples;
  samples.label = label;
  const auto launch = [&](Arm arm, Depth depth) -> Result<double> {
    CallResult result = arms.of(arm).launch(index, depth);
    if (Failure* failed = std::get_if<Failure>(&result)) {
      failure = ArmFailure{arm, label, *failed};
      return make_error(ErrorCode::kToolFailed, "{}", failed->detail);
    }
    return std::get<CallTiming>(result).latency;
  };
  // One call each that is verified but not timed: a kernel may allocate its workspace in its first call.
  const bool candidate_first = coin.flip();
  for (const Arm arm :
       {candidate_first ? Arm::kCandidate : Arm::kIncumbent, candidate_first ? Arm::kIncumbent : Arm::kCandidate}) {
    const Depth depth = arm == Arm::kCandidate && options.full_first_check ? Depth::kFull : Depth::kQuick;
    if (!launch(arm, depth)) return samples;
  }
  Result<std::vector<record::Quad>> quads =
      measure::run_quads([&](Arm arm) { return launch(arm, Depth::kQuick); }, options.quads, options.launches, coin);
  if (quads) samples.quads = std::move(*quads);
  return samples;
}

void finish_guards(record::Session& session, const Arms& arms, const measure::CpuAccount& before,
                   std::uint64_t start_ns, double probe_before) {
  double host_seconds = 0, gap = 0, empty = 0;
  for (const Station* station : {arms.incumbent.get(), arms.candidate.get()}) {
    if (station == nullptr) continue;
    host_seconds += station->host().cpu_seconds();
    gap = std::max(gap, station->host().witness_gap());
    empty = std::max(empty, station->host().empty_wall());
  }
  const measure::StretchGuards stretch = measure::guards_between(before, measure::read_cpu_account(), host_seconds);
  session.guards["steal_fraction"] = stretch.steal_fraction;
  session.guards["foreign_load"] = stretch.foreign_load;
  session.guards["witness_gap_max"] = gap;
  session.guards["empty_call"] = empty;
  session.guards["frequency_probe_ratio"] = measure::frequency_probe() / probe_before;
  session.guards["wall"] = 1e-9 * static_cast<double>(measure::now_ns() - start_ns);
}

}  // namespace

SessionResult run_session(const Subject& incumbent, const Subject& candidate, const ops::Operator& op,
                          const std::vector<ops::Problem>& problems, const Harness& harness,
                          const SessionOptions& options, const SessionProgress& progress) {
  SessionResult result;
  result.session.index = options.index;
  result.session.role = options.role;
  measure::Coin coin;
  const std::uint64_t start_ns = measure::now_ns();
  const measure::CpuAccount before = measure::read_cpu_account();
  const double probe_before = measure::frequency_probe();
  const HarnessPin pinned(harness);
  Arms arms;
  // Swapped slots: who starts first is a coin as well.
  const bool swapped = coin.flip();
  for (const bool first : {true, false}) {
    const Arm arm = first == swapped ? Arm::kCandidate : Arm::kIncumbent;
    result.failure = open_arm(arm, arm == Arm::kIncumbent ? incumbent : candidate, op, problems, harness, arms);
    if (result.failure) return result;
  }
  result.sandbox = arms.candidate->host().sandbox();
  for (std::size_t i = 0; i < problems.size() && !result.failure; ++i) {
    if (progress) progress(i, problems.size());
    result.session.shapes.push_back(
        measure_problem(arms, i, problems[i].problem_case.label(), options, coin, result.failure));
  }
  for (const Arm arm : {Arm::kIncumbent, Arm::kCandidate}) {
    if (result.failure) break;
    if (auto late = arms.of(arm).finish()) result.failure = ArmFailure{arm, "after the last call", *late};
  }
  for (std::size_t i = 0; i < problems.size(); ++i) result.verification.push_back(arms.candidate->verification(i));
  finish_guards(result.session, arms, before, start_ns, probe_before);
  const auto limits = stats::guard_limits(harness.protocol.max_foreign_load);
  if (const auto reason = stats::void_reason(result.session.guards, limits)) {
    result.session.voided = true;
    result.session.void_reason = *reason;
  }
  return result;
}

Result<double> log_ratio(const record::Session& session) {
  std::vector<stats::ShapeRatios> shapes;
  for (const record::ShapeSamples& shape : session.shapes) {
    stats::ShapeRatios ratios{shape.label, 1.0, {}};
    for (const record::Quad& quad : shape.quads) {
      RIDGE_TRY(ratio, stats::quad_log_ratio(quad.order, quad.blocks));
      ratios.log_ratios.push_back(ratio);
    }
    shapes.push_back(std::move(ratios));
  }
  RIDGE_TRY(statistic, stats::session_statistic(shapes));
  return statistic.suite;
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
