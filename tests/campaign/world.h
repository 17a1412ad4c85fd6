// A whole campaign without a compiler, a device or a clock: a worker whose kernels are as fast as their define SPEED
// says, and a proposer that reads its answers from a list. Everything is a pure function of the request, so a campaign
// that was interrupted anywhere must end like one that was not.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "base/clock.h"
#include "base/files.h"
#include "campaign/campaign.h"
#include "campaign/gates.h"
#include "campaign/state.h"
#include "execute/scripted.h"
#include "places.h"
#include "record/json.h"
#include "stats/decide.h"

namespace ridge::campaign::test {

inline const std::vector<std::string> kShapes = {"m=64 n=64 k=64", "m=256 n=256 k=256", "m=512 n=512 k=512"};

inline record::CampaignSpec make_spec() {
  record::CampaignSpec spec;
  spec.id = "gemm_cpu_test_20260101";
  spec.op = "gemm";
  spec.gpu = "testcpu";
  spec.kernel_source = "builtin:plain";
  spec.proposer = "scripted";
  for (const std::string& shape : kShapes) spec.target_cases.push_back(*record::parse_case("gemm " + shape));
  spec.max_iterations = 20;
  return spec;
}

// SPEED is in percent of the baseline; other values make the special kernels below.
inline record::Candidate make_candidate(std::int64_t speed,
                                        const std::string& text = "#define SPEED 100\nint kernel;\n") {
  record::Candidate candidate;
  candidate.op = "gemm";
  candidate.name = "speed " + std::to_string(speed);
  candidate.sources = {{"kernel.cpp", text}};
  candidate.defines = {{"SPEED", speed}};
  return candidate;
}
inline constexpr std::int64_t kDoesNotCompile = -1, kIsWrong = -2, kCrashes = -3;

inline record::Proposal make_proposal(std::vector<record::Candidate> candidates,
                                      const std::string& mechanism = "SPEED") {
  record::Proposal proposal;
  proposal.hypothesis.title = "make it " + candidates.front().name;
  proposal.hypothesis.bottleneck = "compute";
  proposal.hypothesis.reasoning = "because it is possible";
  proposal.hypothesis.expected_gain = 0.5;
  proposal.hypothesis.category = "tile";
  proposal.hypothesis.mechanism = mechanism;
  proposal.hypothesis.risks = {"it may not be"};
  proposal.hypothesis.planned_files = {"kernel.cpp"};
  proposal.hypothesis.verification_signal = "a suite ratio above 1.2";
  proposal.candidates = std::move(candidates);
  return proposal;
}
inline record::Proposal nothing_left() {
  record::Proposal proposal;
  proposal.exhausted = true;
  proposal.reason = "every speed was tried";
  return proposal;
}

class ScriptedProposer final : public propose::Proposer {
 public:
  using Answer = std::function<Result<record::Proposal>(const record::ProposalRequest&)>;
  explicit ScriptedProposer(Answer answer) : answer_(std::move(answer)) {}
  [[nodiscard]] std::string name() const override { return "scripted"; }
  Result<record::Proposal> propose(const record::ProposalRequest& request) override {
    requests.push_back(request);
    Result<record::Proposal> answer = answer_(request);
    // What every attentive proposer does: say which rollback it learned from.
    if (answer && attentive && !answer->hypothesis.informed_by) {
      for (const record::RoundSummary& round : request.history) {
        if (!round.accepted) answer->hypothesis.informed_by = round.round;
      }
    }
    return answer;
  }
  bool attentive = true;
  std::vector<record::ProposalRequest> requests;

 private:
  Answer answer_;
};
// Answers of rounds 2, 3, ...; then nothing is left.
inline ScriptedProposer::Answer one_per_round(std::vector<record::Proposal> proposals) {
  return [=](const record::ProposalRequest& request) -> Result<record::Proposal> {
    const auto index = static_cast<std::size_t>(request.round - 2);
    return index < proposals.size() ? proposals[index] : nothing_left();
  };
}

inline double latency_of(const record::Candidate& candidate, std::size_t shape) {
  const double base[] = {1e-4, 2e-3, 1e-2, 3e-2, 5e-2, 9e-2, 1.2e-1, 2e-1};
  return base[shape % 8] * 100.0 / static_cast<double>(candidate.defines.at("SPEED"));
}

// A shape is as much work in whatever company it is measured.
inline std::size_t index_of(const std::string& label) {
  const char* const order[] = {"m=64 ", "m=256 ", "m=512 ", "m=128 ", "m=768 ", "m=1024 ", "m=1536 ", "m=2048 "};
  for (std::size_t i = 0; i < 8; ++i) {
    if (label.starts_with(order[i])) return i;
  }
  return 0;
}

// What no two launches share: the last digits of a time, a pure function of what was measured where.
class Jitter {
 public:
  explicit Jitter(const std::string& measured) {
    for (const char c : measured) next(static_cast<unsigned char>(c));
  }
  double operator()() { return 1 + 1e-7 * static_cast<double>(next(1) % 1000); }

 private:
  std::uint64_t next(std::uint64_t more) { return state_ = (state_ ^ more) * 6364136223846793005u + (state_ >> 29); }
  std::uint64_t state_ = 88172645463325252u;
};

// One session; the noise is a fixed small function of its index.
inline record::Session make_session(const record::Candidate& a, const record::Candidate& b, std::int64_t index,
                                    const std::string& role, const std::vector<std::string>& shapes = kShapes,
                                    const std::string& occasion = {}) {
  record::Session session;
  session.index = index;
  session.role = role;
  session.guards["began"] = 10.0 * static_cast<double>(index);
  Jitter jitter(fmt::format("{} {} {} {} {} {}", a.id(), b.id(), index, role, shapes.size(), occasion));
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const double noise = 0.002 * std::sin(static_cast<double>(index) * 1.7 + static_cast<double>(s));
    record::ShapeSamples samples{shapes[s], {}};
    for (int quads = 0; quads < 2; ++quads) {
      record::Quad quad;
      quad.order = index % 2 == 0 ? "ABBA" : "BAAB";
      for (const char arm : quad.order) {
        const std::size_t work = index_of(shapes[s]);
        const double t = arm == 'A' ? latency_of(a, work) : latency_of(b, work) * std::exp(noise);
        quad.blocks.push_back({t * jitter(), t * 1.01 * jitter(), t * 0.99 * jitter()});
      }
      samples.quads.push_back(std::move(quad));
    }
    session.shapes.push_back(std::move(samples));
  }
  return session;
}

inline record::BuildEvidence make_build(const record::Candidate& candidate) {
  record::BuildEvidence build;
  build.candidate = candidate.id();
  build.artifact = "object-of-" + candidate.id();
  build.command = "c++ kernel.cpp";
  build.compiler = "test";
  return build;
}

inline std::vector<record::CheckRow> make_checks(record::Outcome outcome = record::Outcome::kPass,
                                                 const std::vector<std::string>& shapes = kShapes) {
  std::vector<record::CheckRow> rows;
  for (const std::string& shape : shapes) {
    record::CheckRow row;
    row.label = shape;
    row.outcome = outcome;
    row.max_error_ratio = 0.3;
    row.snr_db = 120;
    row.verified_calls = 10000;
    row.elements = 4096;
    rows.push_back(row);
  }
  return rows;
}

inline std::vector<record::RooflinePoint> make_roofline(const record::Candidate& candidate,
                                                        const std::vector<std::string>& shapes = kShapes) {
  std::vector<record::RooflinePoint> points;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    record::RooflinePoint point;
    point.label = shapes[s];
    point.latency = latency_of(candidate, index_of(shapes[s]));
    point.bound_time = latency_of(make_candidate(1000), index_of(shapes[s]));  // ten times the baseline is the limit
    point.fraction = point.bound_time / point.latency;
    point.cost = {point.bound_time * 1e11, point.bound_time * 1e9};
    point.bound = "compute";
    points.push_back(point);
  }
  return points;
}

inline record::Evaluation make_evaluation(const record::Candidate& incumbent, const record::Candidate& candidate,
                                          const record::Protocol& protocol = {},
                                          const std::vector<std::string>& shapes = kShapes,
                                          const std::string& occasion = {}) {
  record::Evaluation evaluation;
  evaluation.incumbent = incumbent.id();
  evaluation.candidate = candidate.id();
  const std::int64_t speed = candidate.defines.at("SPEED");
  if (speed == kDoesNotCompile) {
    evaluation.outcome = record::Outcome::kCompile;
    evaluation.detail = "kernel.cpp:1: error";
    return evaluation;
  }
  evaluation.build = make_build(candidate);
  evaluation.incumbent_artifact = make_build(incumbent).artifact;
  if (speed == kIsWrong || speed == kCrashes) {
    evaluation.outcome = speed == kIsWrong ? record::Outcome::kWrong : record::Outcome::kCrash;
    evaluation.detail = "element 7 is 1.5, expected 2";
    evaluation.checks = make_checks(evaluation.outcome, shapes);
    return evaluation;
  }
  evaluation.checks = make_checks(record::Outcome::kPass, shapes);
  evaluation.roofline = make_roofline(candidate, shapes);
  evaluation.sessions.push_back(make_session(incumbent, candidate, 0, "screen", shapes, occasion));
  const Result<SessionRatios> screen = session_ratios(evaluation.sessions[0], shapes);
  if (stats::screened_out(screen->suite, protocol.min_effect)) {
    evaluation.outcome = record::Outcome::kSlower;
    return evaluation;
  }
  stats::SequentialTest test(sequential_rule(protocol));
  for (std::int64_t index = 1; test.result().verdict == stats::Verdict::kUndecided; ++index) {
    evaluation.sessions.push_back(make_session(incumbent, candidate, index, "confirm", shapes, occasion));
    (void)test.add(session_ratios(evaluation.sessions.back(), shapes)->suite);
  }
  return evaluation;
}

inline record::WorkerResponse calibrate(const record::WorkerRequest& request) {
  record::WorkerResponse response;
  for (std::int64_t i = 0; i < request.sessions; ++i) {
    response.sessions.push_back(
        make_session(*request.incumbent, *request.incumbent, i, "calibrate", labels_of(request.cases)));
  }
  return response;
}

// `occasion`: a second measurement of the same candidates has other times.
inline record::WorkerResponse evaluate_on(const record::WorkerRequest& request, const std::string& occasion) {
  record::WorkerResponse response;
  const record::Candidate &a = *request.incumbent, &b = request.candidates.front();
  const std::vector<std::string> shapes = labels_of(request.cases);
  if (!request.quick_look) {
    response.evaluation = make_evaluation(a, b, request.protocol, shapes, occasion);
    return response;
  }
  record::Evaluation evaluation = make_evaluation(a, b, request.protocol, shapes, occasion);
  evaluation.outcome = record::Outcome::kPass;
  evaluation.sessions.clear();
  for (std::int64_t i = 0; i < request.sessions; ++i) {
    evaluation.sessions.push_back(make_session(a, b, i, "confirm", shapes, "quick look" + occasion));
  }
  response.evaluation = evaluation;
  return response;
}

inline record::WorkerResponse evaluate(const record::WorkerRequest& request) { return evaluate_on(request, {}); }

// Candidates, and the incumbent last.
inline std::vector<record::Candidate> looked_at(const record::WorkerRequest& request) {
  std::vector<record::Candidate> all = request.candidates;
  if (request.incumbent) all.push_back(*request.incumbent);
  return all;
}

inline record::WorkerResponse screen(const record::WorkerRequest& request) {
  record::WorkerResponse response;
  for (const record::Candidate& candidate : looked_at(request)) {
    record::ScreenRow row;
    row.candidate = candidate.id();
    row.defines = candidate.defines;
    const std::int64_t speed = candidate.defines.at("SPEED");
    if (speed < 0)
      row.outcome = record::Outcome::kCompile;
    else
      row.score = static_cast<double>(speed) / 1000;
    response.screen.push_back(row);
  }
  return response;
}

inline record::WorkerResponse build(const record::WorkerRequest& request) {
  record::WorkerResponse response;
  for (const record::Candidate& candidate : request.candidates) {
    response.builds.push_back(make_build(candidate));
    response.builds.back().counts = {{"fma_vector", 12}, {"stack_spill", 0}};
  }
  return response;
}

// One implementation that is eight times as fast as the baseline.
inline record::WorkerResponse bench(const record::WorkerRequest& request) {
  record::WorkerResponse response;
  const std::vector<std::string> labels = labels_of(request.cases);
  for (std::size_t s = 0; s < labels.size(); ++s) {
    record::BenchRow row;
    row.subject = "library";
    row.label = labels[s];
    row.median = latency_of(make_candidate(800), index_of(labels[s]));
    if (request.versus) {
      row.ratio = latency_of(request.candidates.at(0), index_of(labels[s])) / row.median;
      row.ratio_low = 0.99 * *row.ratio;
      row.ratio_high = 1.01 * *row.ratio;
    }
    response.bench.push_back(row);
  }
  return response;
}

inline void script(execute::ScriptedExecutor& executor) {
  using record::WorkerTask;
  record::WorkerResponse described;
  described.environment = record::Environment{{{"cpu.model", "testcpu"}}};
  executor.on(WorkerTask::kDescribe, described);
  record::WorkerResponse ceilings;
  ceilings.ceilings = {{"fma_f32", "FLOP/s", 1, 1e11, {1e11}, "test"}};
  executor.on(WorkerTask::kCeilings, ceilings);
  executor.on(WorkerTask::kCalibrate, calibrate);
  executor.on(WorkerTask::kEvaluate, evaluate);
  executor.on(WorkerTask::kScreen, screen);
  executor.on(WorkerTask::kBuild, build);
  executor.on(WorkerTask::kBench, bench);
}

// A campaign in its own temporary folder.
class World {
 public:
  explicit World(ScriptedProposer::Answer answer, record::CampaignSpec spec = make_spec())
      : proposer(std::move(answer)), directory_(fast_directory()), spec_(std::move(spec)) {
    script(executor);
    git = execute::make_fake_git(path() / "src");
  }

  Status create() {
    RIDGE_CHECK_OK(create_campaign(path(), spec_, baseline, clock, engine_options.sign_key));
    RIDGE_CHECK_OK(confirm_campaign(path(), "test", clock));
    return ok_status();
  }
  Result<std::unique_ptr<Engine>> open(std::unique_ptr<JournalSink> sink = nullptr) {
    EngineOptions options = engine_options;
    options.directory = path();
    options.data = source_dir() / "data";
    return Engine::open(std::move(options),
                        Services{executor, proposer, clock, git.get(), std::move(sink), replica, check_devices});
  }
  // Opens and runs; from creation if need be.
  Result<RunResult> run() {
    if (!std::filesystem::exists(path() / "journal.jsonl")) RIDGE_CHECK_OK(create());
    RIDGE_TRY(engine, open());
    return engine->run();
  }
  State state() { return *load_campaign(path()); }
  [[nodiscard]] std::filesystem::path path() const { return directory_.path() / "c"; }
  [[nodiscard]] std::filesystem::path base() const { return directory_.path(); }

  VirtualClock clock{1'767'225'600, 0.001};
  execute::ScriptedExecutor executor;
  execute::Executor* replica = nullptr;  // of replicate_on
  std::function<Status(const record::Environment&)> check_devices;
  ScriptedProposer proposer;
  std::unique_ptr<execute::Git> git;
  EngineOptions engine_options;
  record::Candidate baseline = make_candidate(100);

 private:
  // In memory where that exists: these tests write thousands of files durably and measure nothing.
  static TempDir fast_directory() {
    if (std::filesystem::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 0);
    return TempDir::create("ridge-campaign").value();
  }

  TempDir directory_;
  record::CampaignSpec spec_;
};

// Everything that counts of how a campaign came out; no times, no process numbers.
inline std::string outcome_of(const State& state) {
  std::string text;
  for (const record::RoundSummary& round : history(state)) text += record::to_line(round) + "\n";
  for (const Round& round : state.rounds) {
    if (round.decision) text += record::to_line(*round.decision) + "\n";
    text += round.committed ? round.committed->snapshot + "\n" : std::string("rolled back\n");
  }
  if (state.termination) text += state.termination->condition + "\n";
  if (state.final_measurement) text += record::to_line(state.final_measurement->effects);
  return text + state.incumbent.candidate.id();
}

}  // namespace ridge::campaign::test
