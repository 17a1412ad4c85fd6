// Whole campaigns on a busy machine: sessions are simulated launch by launch under load and steal, and time is virtual.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "campaign/calibration.h"
#include "campaign/standing.h"
#include "campaign/verify.h"
#include "execute/quiet.h"
#include "places.h"
#include "stats/confirm.h"
#include "stats/launch_model.h"
#include "stats/summary.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;
using ::testing::HasSubstr;

struct Disturbance {
  std::string name;
  double load = 0;          // of the measured processor, by a neighbour that comes and goes
  bool both_cores = false;  // the harness's processor as well
  double steal = 0;         // of the time, by the hypervisor
};

// A machine of two processors that others use, too. Launches take as long as their kernel, longer by whole time slices
// that others get in between; neighbours stay for many launches, so blocks are disturbed as a whole.
class BusyMachine {
 public:
  BusyMachine(World& world, Disturbance disturbance, std::uint64_t seed = 1)
      : world_(world), disturbance_(std::move(disturbance)), random_(seed) {
    world.executor.on(WorkerTask::kCalibrate, [this](const WorkerRequest& request) { return calibrate(request); });
    world.executor.on(WorkerTask::kEvaluate, [this](const WorkerRequest& request) { return evaluate(request); });
  }

 private:
  static constexpr double kSlice = 0.004, kStay = 0.05;  // seconds of a time slice; that a neighbour stays

  // How often something that comes at `rate` per second comes within `seconds`.
  int events(double rate, double seconds) {
    int count = 0;
    for (double at = -std::log(random_.uniform()) / rate; at < seconds; at -= std::log(random_.uniform()) / rate)
      ++count;
    return count;
  }

  double launch(double seconds) {
    double taken = seconds * std::exp(0.01 * random_.normal());
    if (random_.uniform() < taken / kStay) neighbour_ = random_.uniform() < disturbance_.load;
    if (neighbour_) taken += kSlice * events(1 / kSlice, taken);
    const double steal = disturbance_.steal;
    if (steal > 0) taken += kSlice * events(steal / (1 - steal) / kSlice, taken);
    if (disturbance_.both_cores) taken += -2e-5 * std::log(random_.uniform());  // the harness wakes up late
    world_.clock.advance(1.6 * taken);
    return taken;
  }

  record::Session session(const WorkerRequest& request, const record::Candidate& b, std::int64_t index,
                          const std::string& role, std::int64_t quads, std::int64_t launches) {
    const record::Candidate& a = *request.incumbent;
    record::Session session;
    session.index = index;
    session.role = role;
    world_.clock.advance(0.2);
    for (const std::string& label : labels_of(request.cases)) {
      record::ShapeSamples shape{label, {}};
      for (std::int64_t q = 0; q < quads; ++q) {
        record::Quad quad;
        quad.order = random_.coin() ? "ABBA" : "BAAB";
        for (const char arm : quad.order) {
          const double seconds = latency_of(arm == 'A' ? a : b, index_of(label));
          quad.blocks.emplace_back();
          for (std::int64_t i = 0; i < launches; ++i) quad.blocks.back().push_back(launch(seconds));
        }
        shape.quads.push_back(std::move(quad));
      }
      session.shapes.push_back(std::move(shape));
    }
    const double noise = 0.002 + 0.01 * disturbance_.load + 0.02 * disturbance_.steal;
    session.guards = {{"clock_gap", std::abs(noise * random_.normal())},
                      {"foreign_load", disturbance_.load * (disturbance_.both_cores ? 0.6 : 0.3)},
                      {"steal_fraction", disturbance_.steal}};
    const auto reason = stats::void_reason(session.guards, guards_of(request).void_limits());
    session.voided = reason.has_value();
    session.void_reason = reason.value_or("");
    return session;
  }

  static stats::GuardRule guards_of(const WorkerRequest& request) {
    return guard_rule(request.protocol, request.calibration.value_or(record::Calibration()));
  }

  WorkerResponse calibrate(const WorkerRequest& request) {
    WorkerResponse response;
    for (std::int64_t i = 0; i < request.sessions; ++i) {
      response.sessions.push_back(session(request, *request.incumbent, i, "calibrate", request.protocol.max_quads,
                                          request.protocol.max_launches));
    }
    return response;
  }

  // As the worker does it: a look, a plan, and sessions until the test has its verdict.
  WorkerResponse evaluate(const WorkerRequest& request) {
    const record::Candidate& b = request.candidates.front();
    const std::vector<std::string> labels = labels_of(request.cases);
    WorkerResponse response;
    record::Evaluation& e = response.evaluation.emplace(make_evaluation(*request.incumbent, b, {}, labels));
    e.outcome = record::Outcome::kPass;
    e.sessions.clear();
    world_.clock.advance(1.0);  // build and check
    int voided = 0;
    const auto valid = [&](const std::string& role, std::int64_t quads,
                           std::int64_t launches) -> const record::Session* {
      while (true) {
        e.sessions.push_back(session(request, b, static_cast<std::int64_t>(e.sessions.size()), role, quads, launches));
        if (!e.sessions.back().voided) return &e.sessions.back();
        if (request.quick_look || stats::too_many_voids(++voided, 32, 0.2)) return nullptr;
      }
    };
    if (request.quick_look) {
      for (std::int64_t i = 0; i < request.sessions; ++i) {
        (void)valid("confirm", request.protocol.max_quads, request.protocol.max_launches);
      }
      if (all_void(e.sessions)) e.roofline.clear();
      return response;
    }
    const auto ambiguous = [&] {
      e.outcome = record::Outcome::kAmbiguous;
      return response;
    };
    const record::Session* look = valid("screen", stats::kFirstScreen.quads, stats::kFirstScreen.launches);
    if (look != nullptr && stats::screened_out(session_ratios(*look, labels)->suite, 0.01)) {
      look = valid("screen", stats::kCloserLook.quads, stats::kCloserLook.launches);
    }
    if (look == nullptr) return ambiguous();
    const SessionRatios seen = *session_ratios(*look, labels);
    if (stats::screened_out(seen.suite, 0.01)) {
      e.outcome = record::Outcome::kSlower;
      return response;
    }
    stats::PlanInput input;
    input.screened_effect = seen.suite;
    input.screened_shape = std::ranges::min(seen.per_shape);
    input.sigma_session = request.calibration->noise;
    input.calibration_work = static_cast<int>(request.calibration->quads * request.calibration->launches);
    for (const double noise : request.calibration->noise_by_shape)
      input.sigma_shape = std::max(input.sigma_shape, noise);
    input.shape_margin = std::log1p(request.protocol.noninferiority);
    input.launch_cost = 0.01;
    const stats::Plan plan = stats::plan_sessions(input, sequential_rule(request.protocol));
    stats::Confirmation test({sequential_rule(request.protocol), 0.05, 0.05}, labels);
    while (!test.stopped()) {
      const record::Session* one = valid("confirm", plan.quads, plan.launches);
      if (one == nullptr) return ambiguous();
      const SessionRatios ratios = *session_ratios(*one, labels);
      test.add({ratios.suite, ratios.per_shape, guards_of(request).slack(one->guards)});
    }
    return response;
  }

  World& world_;
  Disturbance disturbance_;
  stats::RandomStream random_;
  bool neighbour_ = false;
};

std::vector<Disturbance> disturbances() {
  std::vector<Disturbance> all = {{"quiet", 0, false, 0}};
  for (const double load : {0.5, 1.0}) {
    for (const bool both : {false, true}) {
      all.push_back({fmt::format("load {} on {}", load, both ? "both" : "one"), load, both, 0});
    }
  }
  for (const double steal : {0.01, 0.05, 0.1, 0.2}) {
    all.push_back({fmt::format("steal {}", steal), 0, false, steal});
    all.push_back({fmt::format("steal {} and load 1 on both", steal), 1, true, steal});
  }
  return all;
}

// Like a demo: large gains, an equal kernel under another name, and a loss.
std::vector<record::Proposal> demo() {
  return {make_proposal({make_candidate(300)}, "VECTOR"),
          make_proposal({make_candidate(300, "int the_same; // in other words\n")}, "RENAME"),
          make_proposal({make_candidate(240)}, "SLOWER"), make_proposal({make_candidate(800)}, "TILE")};
}

struct Outcome {
  RunResult result;
  std::int64_t accepted = 0, decisions = 0;
  bool false_accept = false;
  double minutes = 0;
};

Outcome run_demo(const Disturbance& disturbance, std::uint64_t seed, const char* rule = record::Protocol::kCharging) {
  record::CampaignSpec spec = make_spec();
  spec.protocol.decision_rule = rule;
  World world(one_per_round(demo()), spec);
  const BusyMachine machine(world, disturbance, seed);
  const double start = world.clock.monotonic();
  Outcome outcome;
  const Result<RunResult> result = world.run();
  EXPECT_TRUE(result) << disturbance.name << ": " << result.error().text();
  if (!result) return outcome;
  outcome.result = *result;
  outcome.minutes = (world.clock.monotonic() - start) / 60;
  const State state = world.state();
  for (const Round& round : state.rounds) {
    outcome.decisions += round.decision ? 1 : 0;
    outcome.accepted += round.committed ? 1 : 0;
    const bool no_gain = round.number == 3 || round.number == 4;
    outcome.false_accept = outcome.false_accept || (no_gain && round.committed);
  }
  EXPECT_TRUE(replay_campaign(world.path())->ok()) << disturbance.name;
  EXPECT_TRUE(verify_campaign(world.path())->ok()) << disturbance.name;
  EXPECT_EQ(standing(state).empty(), !state.baseline.has_value()) << disturbance.name;
  return outcome;
}

TEST(BusyCampaign, EndsWithAnAcceptedRoundUnderAnyLoadAndSteal) {
  for (const Disturbance& disturbance : disturbances()) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const Outcome outcome = run_demo(disturbance, seed);
      EXPECT_EQ(outcome.result.end, RunEnd::kDone) << disturbance.name << ": " << outcome.result.reason;
      EXPECT_GE(outcome.accepted, 1) << disturbance.name << ", seed " << seed;
      EXPECT_FALSE(outcome.false_accept) << disturbance.name << ", seed " << seed;
    }
  }
}

TEST(BusyCampaign, AnOldCampaignKeepsItsOwnRule) {
  const Outcome busy = run_demo({"load 0.5 on both", 0.5, true, 0}, 1, record::Protocol::kVoiding);
  EXPECT_EQ(busy.accepted, 0);
  EXPECT_EQ(run_demo({"quiet", 0, false, 0}, 1, record::Protocol::kVoiding).accepted, 2);
}

TEST(BusyCampaign, DecidesAtLeastHalfAsOftenAtHalfLoad) {
  double quiet = 0, loaded = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const Outcome one = run_demo({"quiet", 0, false, 0}, seed), two = run_demo({"half", 0.5, true, 0}, seed);
    quiet += static_cast<double>(one.decisions) / one.minutes;
    loaded += static_cast<double>(two.decisions) / two.minutes;
  }
  EXPECT_GE(loaded, 0.5 * quiet) << loaded / 5 << " and " << quiet / 5 << " decisions per minute";
}

// Forwards to another executor, which the caller owns.
class Forward final : public execute::Executor {
 public:
  explicit Forward(execute::Executor& inner) : inner_(inner) {}
  Result<WorkerResponse> run(const WorkerRequest& request, const execute::OnProgress& on_progress,
                             const execute::ShouldStop& should_stop) override {
    return inner_.run(request, on_progress, should_stop);
  }

 private:
  execute::Executor& inner_;
};

TEST(BusyCampaign, WaitingForQuietIsNotChargedToTheBudget) {
  record::CampaignSpec spec = make_spec();
  spec.wall_budget = 120;
  World world(one_per_round(demo()), spec);
  const BusyMachine machine(world, {"quiet", 0, false, 0});
  ASSERT_TRUE(world.create());
  execute::QuietOptions options;
  options.limit = 1000;
  int looks = 0;
  options.look = [&] {
    world.clock.advance(10);
    return execute::Neighbourhood{looks++ % 4 == 3 ? 0.0 : 0.5, 0, {{"cc1plus", 0.4}}};
  };
  const auto executor = execute::make_quiet_executor(std::make_unique<Forward>(world.executor), world.clock, options);
  std::string shown;
  double most_active = 0;
  EngineOptions engine_options;
  engine_options.data = source_dir() / "data";
  engine_options.directory = world.path();
  engine_options.on_progress = [&](const EngineProgress& progress) {
    if (progress.detail.find("cc1plus") != std::string::npos) shown = progress.detail;
    most_active = std::max(most_active, progress.active);
    EXPECT_NEAR(progress.active + progress.seconds_left, 120, 1e-6);  // the share shown is of the whole budget
  };
  const auto engine = Engine::open(std::move(engine_options),
                                   Services{*executor, world.proposer, world.clock, world.git.get(), nullptr});
  ASSERT_TRUE(engine) << engine.error().text();
  const Result<RunResult> result = (*engine)->run();
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->end, RunEnd::kDone);
  EXPECT_GT(executor->waited(), 120);
  EXPECT_LT(world.state().active, 120);
  EXPECT_LT(most_active, 120);  // nor while it waits
  EXPECT_THAT(shown, HasSubstr("waiting for quiet, not charged to the budget: others use 50 % of the processors"));
  EXPECT_THAT(shown, HasSubstr("cc1plus 40 %"));
}

TEST(BusyCampaign, WhatWasSeenAndNotDecidedIsNamedAsUnverified) {
  World world(one_per_round({make_proposal({make_candidate(180)}), make_proposal({make_candidate(150)}, "OTHER")}));
  world.executor.on(WorkerTask::kEvaluate, [](const WorkerRequest& request) {
    WorkerResponse response = evaluate(request);
    if (request.quick_look) return response;
    response.evaluation->outcome = record::Outcome::kAmbiguous;
    response.evaluation->detail = "the time limit was reached";
    response.evaluation->sessions.resize(3);
    return response;
  });
  ASSERT_EQ(world.run()->end, RunEnd::kDone);
  const State state = world.state();
  const std::optional<Provisional> best = provisional_best(state);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->round, 2);
  EXPECT_NEAR(best->ratio, 1.8, 0.02);
  EXPECT_EQ(best->sessions, 3);
  EXPECT_THAT(standing(state).back(), HasSubstr("unverified"));
  // Nothing was refuted, so nothing is ineffective and no evidence is gathered for it.
  EXPECT_TRUE(read_file(world.path() / "verified_ineffective.jsonl")->empty());
  EXPECT_TRUE(state.escalations.empty());
}

}  // namespace
}  // namespace ridge::campaign::test
