// evaluate: everything there is to find out about one candidate against the incumbent. No verdict.
//
//   build -> check every case -> one screening session (its data decide nothing but whether to go on) -> confirmation
//   sessions, as many as the sequential test asks for.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "evaluate/memory_need.h"
#include "evaluate/tasks.h"
#include "journal/protocol.h"
#include "ops/described_kernel.h"
#include "record/launch_plan.h"
#include "record/tunables.h"
#include "stats/bounds.h"
#include "stats/confirm.h"
#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

using measure::Arm;
using record::Outcome;

// What the launch plan of a candidate for a GPU asks of its tunables on these cases, so that no configuration is
// proposed and built that would be refused on one of them.
std::vector<record::Constraint> needs_on(const record::Candidate& candidate,
                                         const std::vector<ops::Problem>& problems) {
  std::vector<record::Constraint> needs;
  if (candidate.backend != "cuda") return needs;
  const auto plan = record::launch_plan(candidate);
  const auto space = record::tune_space(candidate);
  const auto defines = record::define_values(candidate);
  if (!plan || !space || !defines) return needs;  // the build names what is wrong
  for (const ops::Problem& problem : problems) {
    record::PlanFacts facts = ops::plan_facts(problem);
    facts.values.insert(defines->begin(), defines->end());
    for (record::Constraint& one : record::needs_of_tunables(*plan, facts, *space)) {
      if (std::ranges::find(needs, one.expression, &record::Constraint::expression) == needs.end()) {
        needs.push_back(std::move(one));
      }
    }
  }
  return needs;
}

class Evaluator {
 public:
  Evaluator(const Job& job, MeasurementBackend& measurement, const BoundCases& bound, record::Evaluation& evaluation)
      : job_(job),
        measurement_(measurement),
        bound_(bound),
        evaluation_(evaluation),
        rule_(journal::sequential_rule(job.request.protocol)),
        guards_(journal::guard_rule(job.request.protocol, job.request.calibration.value_or(record::Calibration()))) {}

  Status run(const record::Candidate& incumbent, const record::Candidate& candidate) {
    RIDGE_TRY(built, build(incumbent, candidate));
    if (!built || !checked()) return ok_status();
    const double start = job_.elapsed();
    measure();
    evaluation_.seconds["measure"] = job_.elapsed() - start;
    fill_roofline();
    return ok_status();
  }

 private:
  void stop(Outcome outcome, std::string detail, record::Defence gate = record::Defence::kNone) {
    evaluation_.outcome = outcome;
    evaluation_.detail = std::move(detail);
    evaluation_.gate = gate;
  }

  Result<bool> build(const record::Candidate& incumbent, const record::Candidate& candidate) {
    job_.progress("building", candidate.name, 0.0);
    const double start = job_.elapsed();
    RIDGE_TRY(incumbents, build_candidates(job_, {&incumbent, 1}));
    RIDGE_TRY(candidates, build_candidates(job_, {&candidate, 1}));
    evaluation_.seconds["build"] = job_.elapsed() - start;
    evaluation_.build = candidates[0].evidence;
    evaluation_.build.needs = needs_on(candidate, bound_.problems);
    evaluation_.incumbent_artifact = incumbents[0].evidence.artifact;
    incumbent_ = std::move(incumbents[0].subject);
    candidate_ = std::move(candidates[0].subject);
    if (const auto& failure = candidates[0].failure) {
      stop(failure->outcome, failure->detail, failure->gate);
      return false;
    }
    if (const auto& failure = incumbents[0].failure) {
      stop(Outcome::kHarnessFault, "the incumbent does not build: " + failure->detail);
      return false;
    }
    return true;
  }

  bool checked() {
    const double start = job_.elapsed();
    evaluation_.checks = check_subject(job_, candidate_, *bound_.op, bound_.problems, [&](std::size_t i) {
      job_.progress("checking", fmt::format("case {} of {}", i + 1, bound_.problems.size()), 0.05);
    });
    evaluation_.seconds["check"] = job_.elapsed() - start;
    for (const record::CheckRow& row : evaluation_.checks) {
      if (row.outcome == Outcome::kPass && row.informative) continue;
      if (row.outcome == Outcome::kPass) {
        stop(Outcome::kAmbiguous,
             fmt::format("{} shows nothing and is not used: {}", row.label, row.lanes.at("informative")),
             record::Defence::kInformative);
      } else {
        stop(row.outcome, fmt::format("{}: {}", row.label, row.detail), row.gate);
      }
      return false;
    }
    return true;
  }

  // Runs a session and keeps it. Nothing when an arm failed; the outcome then says which.
  std::optional<record::Session> session(const std::string& role, std::int64_t quads, std::int64_t launches) {
    SessionOptions options;
    options.index = static_cast<std::int64_t>(evaluation_.sessions.size());
    options.role = role;
    options.quads = quads;
    options.launches = launches;
    const double start = job_.elapsed();
    const std::string name =
        role == "confirm" ? fmt::format("session {} of at most {}", confirmed_ + 1, rule_.max_sessions) : role;
    SessionResult result = run_session(
        measurement_, job_.request.protocol, incumbent_, candidate_, *bound_.op, bound_.problems, options,
        [&](std::size_t shape, std::size_t shapes) {
          job_.progress("measuring", fmt::format("{}, shape {} of {}", name, shape + 1, shapes),
                        0.1 + 0.9 * std::min(1.0, confirmed_ / static_cast<double>(rule_.shortest_accept())));
        });
    longest_session_ = std::max(longest_session_, job_.elapsed() - start);
    evaluation_.sessions.push_back(result.session);
    for (std::size_t i = 0; i < evaluation_.checks.size() && i < result.verification.size(); ++i) {
      evaluation_.checks[i].verified_calls += result.verification[i].calls;
    }
    if (!result.failure) return std::move(result.session);
    const ArmFailure& failed = *result.failure;
    if (failed.arm == Arm::kCandidate) {
      stop(failed.failure.outcome, fmt::format("{}: {}", failed.label, failed.failure.detail), failed.failure.gate);
    } else {
      stop(Outcome::kHarnessFault, fmt::format("the incumbent failed on {}: {} {}", failed.label,
                                               record::name_of(failed.failure.outcome), failed.failure.detail));
    }
    return std::nullopt;
  }

  void measure() {
    if (job_.request.quick_look) return quick_look();
    const std::optional<stats::Plan> plan = screen();
    if (plan) confirm(*plan);
  }

  void quick_look() {
    const std::int64_t wanted = job_.request.sessions > 0 ? job_.request.sessions : 3;
    for (std::int64_t i = 0; i < wanted; ++i) {
      if (i > 0 && no_time_left()) return stop(Outcome::kAmbiguous, "the time limit was reached");
      if (!session("confirm", std::min<std::int64_t>(2, job_.request.protocol.max_quads),
                   std::min<std::int64_t>(3, job_.request.protocol.max_launches))) {
        return;
      }
      ++confirmed_;
    }
  }

  // Not enough for another session as long as those so far.
  [[nodiscard]] bool no_time_left() const { return job_.remaining() < longest_session_; }

  // A session that counts. A void one is repeated, after a wait that doubles (a busy moment often lasts seconds); too
  // many of them, a failed arm or the end of the time leave the outcome behind and nothing else.
  std::optional<record::Session> valid_session(const std::string& role, std::int64_t quads, std::int64_t launches,
                                               const std::string& so_far) {
    double wait = 0.125;  // seconds
    while (true) {
      if (!evaluation_.sessions.empty() && no_time_left()) {
        stop(Outcome::kAmbiguous, fmt::format("the time limit was reached after {} sessions; {}", confirmed_, so_far));
        return std::nullopt;
      }
      auto measured = session(role, quads, launches);
      if (!measured || !measured->voided) return measured;
      if (stats::too_many_voids(++voided_, rule_.max_sessions, job_.request.protocol.max_void_fraction)) {
        stop(Outcome::kAmbiguous,
             fmt::format("{} sessions were void, the last because {}", voided_, measured->void_reason));
        return std::nullopt;
      }
      wait = std::min(2 * wait, 4.0);
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(wait, std::max(job_.remaining(), 0.0))));
    }
  }

  // A candidate that is not even half way to the wanted effect is not confirmed: stats::screened_out.
  std::optional<stats::Plan> screen() {
    constexpr double kLongestLook = 3.0;  // seconds
    stats::ScreeningLook look = stats::kFirstScreen;
    double seconds = 0;
    auto seen = screened(look, seconds);
    if (!seen) return std::nullopt;
    const int factor = stats::kCloserLook.quads * stats::kCloserLook.launches / (look.quads * look.launches);
    if (stats::screened_out(seen->suite, rule_.min_effect) && seen->suite > stats::kHopeless &&
        factor * seconds < kLongestLook) {
      look = stats::kCloserLook;
      seen = screened(look, seconds);
      if (!seen) return std::nullopt;
    }
    if (stats::screened_out(seen->suite, rule_.min_effect)) {
      stop(Outcome::kSlower,
           fmt::format("screening: {:.4f}x the incumbent's speed; more than {:.4f}x would be confirmed",
                       std::exp(seen->suite), std::exp(rule_.threshold() / 2)));
      return std::nullopt;
    }
    return plan_from(evaluation_.sessions.back(), *seen, seconds, look);
  }

  std::optional<stats::SessionStatistic> screened(const stats::ScreeningLook& look, double& seconds) {
    const double start = job_.elapsed();
    const auto measured = valid_session("screen", look.quads, look.launches, "the candidate was being screened");
    if (!measured) return std::nullopt;
    seconds = job_.elapsed() - start;
    Result<stats::SessionStatistic> seen = statistic(*measured);
    if (seen) return std::move(*seen);
    stop(Outcome::kHarnessFault, seen.error().text());
    return std::nullopt;
  }

  stats::Plan plan_from(const record::Session& screened, const stats::SessionStatistic& seen, double wall,
                        const stats::ScreeningLook& look) {
    stats::PlanInput input;
    input.screened_effect = seen.suite;
    input.screened_shape = std::ranges::min(seen.per_shape);
    double shortest = HUGE_VAL, launches = 0;
    for (const record::ShapeSamples& shape : screened.shapes) {
      const std::vector<double> a = latencies(shape, Arm::kIncumbent), b = latencies(shape, Arm::kCandidate);
      shortest = std::min(shortest, std::max(stats::median(a), stats::median(b)));
      launches = std::max(launches, static_cast<double>(a.size() + b.size()) + 2);
    }
    input.call_latency = shortest;
    input.launch_cost = wall / std::max(launches, 1.0);
    input.session_overhead = 0.1;
    input.screening_work = look.quads * look.launches;
    input.max_quads = stats::bounded_count(job_.request.protocol.max_quads);
    input.max_launches = stats::bounded_count(job_.request.protocol.max_launches);
    if (job_.request.time_limit > 0) input.budget = std::max(1.0, job_.remaining());
    if (const auto& known = job_.request.calibration; known && known->sessions > 0) {
      input.sigma_session = known->noise;
      input.calibration_work = static_cast<int>(std::max<std::int64_t>(1, known->quads * known->launches));
      input.sigma_shape = 0;
      for (const double noise : known->noise_by_shape) input.sigma_shape = std::max(input.sigma_shape, noise);
      input.shape_margin = std::log1p(job_.request.protocol.noninferiority);
    }
    return stats::plan_sessions(input, rule_);
  }

  void confirm(const stats::Plan& plan) {
    const record::Protocol& protocol = job_.request.protocol;
    std::vector<std::string> labels;
    for (const ops::Problem& problem : bound_.problems) labels.push_back(problem.problem_case.label());
    stats::Confirmation test({rule_, protocol.noninferiority, protocol.alpha}, labels);
    while (!test.stopped()) {
      const auto measured = valid_session("confirm", plan.quads, plan.launches, test.reason());
      if (!measured) return;
      ++confirmed_;
      Result<stats::SessionStatistic> effect = statistic(*measured);
      if (!effect) return stop(Outcome::kHarnessFault, effect.error().text());
      effect->slack = guards_.slack(measured->guards);
      test.add(*effect);
    }
    stop(Outcome::kPass, test.reason());
  }

  void fill_roofline() {
    for (std::size_t i = 0; i < bound_.problems.size(); ++i) {
      std::vector<double> samples;
      for (const record::Session& one : evaluation_.sessions) {
        if (one.voided || i >= one.shapes.size()) continue;
        const std::vector<double> more = latencies(one.shapes[i], Arm::kCandidate);
        samples.insert(samples.end(), more.begin(), more.end());
      }
      const auto limits = limits_of(job_, bound_.problems[i]);
      if (samples.empty() || !limits) continue;
      evaluation_.roofline.push_back(roofline::place(bound_.problems[i].problem_case.label(),
                                                     bound_.op->cost(bound_.problems[i]), *limits,
                                                     stats::median(samples)));
    }
  }

  const Job& job_;
  MeasurementBackend& measurement_;
  const BoundCases& bound_;
  record::Evaluation& evaluation_;
  stats::SequentialRule rule_;
  Subject incumbent_, candidate_;
  stats::GuardRule guards_;
  int confirmed_ = 0, voided_ = 0;
  double longest_session_ = 0;  // seconds
};

}  // namespace

Status evaluate(const Job& job, record::WorkerResponse& response) {
  if (job.request.candidates.size() != 1) {
    return invalid("evaluate takes one candidate, the request has {}", job.request.candidates.size());
  }
  RIDGE_CHECK_OK(stats::validate(journal::sequential_rule(job.request.protocol)));
  RIDGE_TRY(bound, bind_cases(job, ops::CaseSet::kTarget));
  RIDGE_CHECK_OK(check_host_memory(job, bound));
  const record::Candidate& candidate = job.request.candidates[0];
  const record::Candidate& incumbent = job.request.incumbent ? *job.request.incumbent : candidate;
  record::Evaluation evaluation;
  evaluation.candidate = candidate.id();
  evaluation.incumbent = incumbent.id();
  RIDGE_TRY(measurement, make_measurement_backend(job, *bound.op));
  Evaluator evaluator(job, *measurement, bound, evaluation);
  RIDGE_CHECK_OK(evaluator.run(incumbent, candidate));
  response.evaluation = std::move(evaluation);
  response.environment = environment(job);
  return ok_status();
}

}  // namespace ridge::evaluate
