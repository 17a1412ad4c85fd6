// One function per effect of a campaign: intent, effect, record. Doing any of them again after a crash is harmless.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "campaign/baseline.h"
#include "campaign/campaign.h"
#include "campaign/decide.h"
#include "campaign/files.h"
#include "campaign/proposal_rules.h"
#include "campaign/render.h"
#include "campaign/tips.h"
#include "knowledge/tips.h"
#include "record/archive.h"
#include "record/tunables.h"

namespace ridge::campaign {
namespace {

using record::EventKind;
using record::Outcome;
using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

constexpr std::int64_t kCalibrationSessions = 8;
constexpr std::int64_t kFewestFinalSessions = 3, kMostFinalSessions = 8;
constexpr double kReportSeconds = 2.0;
// Of the wall budget: what the baseline, and the final measurement, may take.
constexpr double kBaselineShare = 0.2, kFinalShare = 0.15;
constexpr double kShortestRequest = 10.0;

// Seconds that one session over all target shapes took at BASELINE.
double session_seconds(const State& state) {
  if (!state.baseline) return 0.0;
  const record::Evaluation& evaluation = state.baseline->evaluation;
  const auto measured = evaluation.seconds.find("measure");
  if (measured == evaluation.seconds.end() || evaluation.sessions.empty()) return 0.0;
  return measured->second / static_cast<double>(evaluation.sessions.size());
}

std::int64_t final_sessions(const State& state) {
  const double each = session_seconds(state);
  if (state.wall_budget <= 0 || each <= 0) return kMostFinalSessions;
  const double fits = kFinalShare * state.wall_budget / each;
  return std::clamp(static_cast<std::int64_t>(fits), kFewestFinalSessions, kMostFinalSessions);
}

std::string shorten(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + " ...";
}

std::string failure_text(const record::Evaluation& evaluation) {
  std::string text =
      fmt::format("the candidate failed: {}: {}", record::name_of(evaluation.outcome), evaluation.detail);
  if (evaluation.outcome == Outcome::kCompile && !evaluation.build.log.empty()) {
    text += "\n" + shorten(evaluation.build.log, 4000);
  }
  return text;
}

record::Evaluation harness_fault(const std::string& candidate, const std::string& incumbent, std::string detail) {
  record::Evaluation evaluation;
  evaluation.candidate = candidate;
  evaluation.incumbent = incumbent;
  evaluation.outcome = Outcome::kHarnessFault;
  evaluation.detail = std::move(detail);
  return evaluation;
}

std::string digest_of_cases(const record::CampaignSpec& spec) {
  std::string text;
  for (const record::Case& one : spec.target_cases) text += one.text() + "\n";
  return sha256(text);
}

// Best score among the usable rows; the incumbent's own row cannot win.
std::string best_row(const std::vector<record::ScreenRow>& rows, const record::Proposal& proposal,
                     const std::string& incumbent) {
  const record::ScreenRow* best = nullptr;
  for (const record::ScreenRow& row : rows) {
    const auto offered = [&](const record::Candidate& candidate) { return candidate.id() == row.candidate; };
    const bool known = std::any_of(proposal.candidates.begin(), proposal.candidates.end(), offered);
    if (!known || row.candidate == incumbent || row.outcome != Outcome::kPass) continue;
    if (!std::isfinite(row.score) || row.score <= 0) continue;
    if (best == nullptr || row.score > best->score) best = &row;
  }
  return best == nullptr ? std::string() : best->candidate;
}

}  // namespace

TerminationInput Engine::termination_input() const {
  TerminationInput input;
  input.stop_requested = stop_file_exists();
  input.active = journal_.active();
  const double measure = static_cast<double>(final_sessions(state_)) * session_seconds(state_);
  input.reserve = std::min(measure * 1.2 + kReportSeconds, 0.3 * state_.wall_budget);
  return input;
}

WorkerRequest Engine::request(WorkerTask task) const {
  WorkerRequest request;
  request.task = task;
  request.cases = state_.spec().target_cases;
  request.protocol = state_.spec().protocol;
  if (state_.prepared) request.ceilings = state_.prepared->ceilings;
  request.cache_directory = options_.cache_directory.string();
  const double left = seconds_left(state_, termination_input());
  if (std::isfinite(left)) request.time_limit = std::max(left, kShortestRequest);
  return request;
}

// Runs a request; a worker that died is tried once more, because that is the harness's fault and not the campaign's.
Result<WorkerResponse> Engine::work(const WorkerRequest& request) {
  const auto on_progress = [this](const record::Progress& progress) {
    show(progress.stage + (progress.detail.empty() ? "" : ": " + progress.detail), progress.fraction);
  };
  const auto should_stop = [this] {
    const StopLevel level = stop_level();
    if (level == StopLevel::kNone) return false;
    const double now = services_.clock.monotonic();
    if (stop_seen_ < 0) stop_seen_ = now;
    return level == StopLevel::kNow || now - stop_seen_ > options_.unit_grace;
  };
  for (int attempt = 0;; ++attempt) {
    Result<WorkerResponse> response = services_.executor.run(request, on_progress, should_stop);
    if (response && response->error.empty()) return response;
    if (!response && should_stop()) {
      interrupted_ = true;
      return response;
    }
    if (response && !response->error.empty()) {
      return with_hint(make_error(ErrorCode::kToolFailed, "{}: {}", record::name_of(request.task), response->error),
                       response->error_hint);
    }
    if (attempt == 1 || response.error().code == ErrorCode::kTimeout) return response;
  }
}

Status Engine::prepare() {
  RIDGE_CHECK_OK(intend("prepare", "fingerprint the environment, measure the ceilings, make the private worktree"));
  RIDGE_TRY(described, work(request(WorkerTask::kDescribe)));
  RIDGE_TRY(measured, work(request(WorkerTask::kCeilings)));
  record::Prepared prepared;
  if (described.environment) prepared.environment = *described.environment;
  prepared.ceilings = measured.ceilings;
  prepared.frozen = {{"target_shapes", digest_of_cases(state_.spec())},
                     {"protocol", sha256(record::to_line(state_.spec().protocol))},
                     {"benchmark_header", sha256(kBenchmarkHeader)},
                     {"baseline", state_.created->baseline.id()}};
  RIDGE_CHECK_OK(make_directories(worktree()));
  if (state_.spec().git_commit) {
    RIDGE_CHECK_OK(services_.git->init());
    RIDGE_TRY(branch, services_.git->branch());
    prepared.branch = branch;
  }
  prepared.worktree = "src";
  return record(EventKind::kPrepared, record::to_json(prepared));
}

Status Engine::read_tips() {
  record::TipsRead read;
  read.digest = "absent";
  if (!options_.experience.empty()) {
    const record::CampaignSpec& spec = state_.spec();
    RIDGE_TRY(path, knowledge::tips_path(options_.experience, spec.gpu, spec.op, spec.backend));
    RIDGE_TRY(tips, knowledge::read_tips(path));
    read.digest = tips.digest;
    read.tips = std::move(tips.entries);
  }
  return record(EventKind::kTipsRead, record::to_json(read));
}

Status Engine::measure_baseline() {
  RIDGE_CHECK_OK(intend("round-1/baseline", "check the baseline and measure it against itself"));
  const record::Candidate& candidate = state_.created->baseline;
  record::Baseline baseline;
  baseline.candidate = candidate;
  RIDGE_TRY(space, record::tune_space(candidate));
  baseline.space = std::move(space);

  WorkerRequest calibrate = request(WorkerTask::kCalibrate);
  calibrate.incumbent = candidate;
  calibrate.candidates = {candidate};
  calibrate.sessions = kCalibrationSessions;
  if (state_.wall_budget > 0) calibrate.time_limit = std::max(kBaselineShare * state_.wall_budget, kShortestRequest);
  RIDGE_TRY(calibrated, work(calibrate));
  if (calibrated.evaluation) baseline.evaluation = std::move(*calibrated.evaluation);
  if (baseline.evaluation.sessions.empty()) baseline.evaluation.sessions = std::move(calibrated.sessions);
  RIDGE_CHECK_OK(complete_baseline(baseline.evaluation));

  const std::string problem = baseline_problem(state_.spec(), baseline.evaluation);
  if (!problem.empty()) {
    return with_hint(make_error(ErrorCode::kUnsupported, "{}", problem), "give a baseline that passes `ridge check`");
  }
  const std::vector<std::string> labels = labels_of(state_.spec().target_cases);
  RIDGE_TRY(table, ratio_table(valid_sessions(baseline.evaluation.sessions, "calibrate"), labels));
  const NoiseFloor floor = noise_floor(table, state_.spec().protocol.min_effect);
  baseline.noise = floor.noise;
  baseline.detectable = floor.detectable;
  baseline.noise_by_shape = floor.by_shape;
  baseline.representative_labels = representative_shapes(baseline.evaluation.roofline, floor.by_shape);
  return record(EventKind::kBaseline, record::to_json(baseline));
}

// Whatever the calibration did not bring along is asked for by itself.
Status Engine::complete_baseline(record::Evaluation& evaluation) {
  const record::Candidate& candidate = state_.created->baseline;
  evaluation.candidate = evaluation.incumbent = candidate.id();
  if (evaluation.build.artifact.empty()) {
    WorkerRequest build = request(WorkerTask::kBuild);
    build.candidates = {candidate};
    RIDGE_TRY(built, work(build));
    if (!built.builds.empty()) evaluation.build = std::move(built.builds.front());
  }
  if (evaluation.checks.empty()) {
    WorkerRequest check = request(WorkerTask::kCheck);
    check.candidates = {candidate};
    RIDGE_TRY(checked, work(check));
    if (!checked.checks.empty()) evaluation.checks = std::move(checked.checks.front().rows);
  }
  if (evaluation.roofline.empty()) {
    WorkerRequest bench = request(WorkerTask::kBench);
    bench.candidates = {candidate};
    RIDGE_TRY(measured, work(bench));
    evaluation.roofline = roofline_from_bench(measured.bench, state_.prepared->ceilings);
  }
  return ok_status();
}

record::ProposalRequest Engine::proposal_request() const {
  record::ProposalRequest request;
  const Round* round = state_.open_round();
  request.round = round != nullptr ? round->number : state_.next_round();
  request.spec = manifest_of(state_);
  request.incumbent = state_.incumbent.candidate;
  if (Result<record::TuneSpace> space = record::tune_space(state_.incumbent.candidate)) request.space = *space;
  request.build = state_.incumbent.build;
  request.roofline = state_.incumbent.roofline;
  request.ceilings = state_.prepared->ceilings;
  request.history = history(state_);
  request.environment = state_.prepared->environment;
  request.tips = state_.tips->tips;
  const double left = seconds_left(state_, termination_input());
  if (std::isfinite(left)) request.seconds_left = std::max(left, 0.0);
  if (state_.max_iterations) request.rounds_left = *state_.max_iterations - state_.rounds_closed();
  if (round != nullptr)
    request.last_error = failure_text(round->last().evaluated->evaluation);
  else if (!state_.refused.empty())
    request.last_error = state_.refused.back().refused;
  return request;
}

Status Engine::propose() {
  const record::ProposalRequest request = proposal_request();
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/propose", request.round), "ask the proposer for one hypothesis"));
  const double started = services_.clock.monotonic();
  Result<record::Proposal> answer = services_.proposer.propose(request);
  record::Proposed proposed;
  proposed.round = request.round;
  proposed.seconds = services_.clock.monotonic() - started;
  if (answer) {
    proposed.refused = refuse(*answer, state_);
    proposed.proposal = std::move(*answer);
  } else {
    proposed.refused = "the proposer failed: " + answer.error().text();
  }
  // A parent is a fact, not a claim.
  for (record::Candidate& candidate : proposed.proposal.candidates) candidate.parent = state_.incumbent.candidate.id();
  return record(EventKind::kProposed, record::to_json(proposed));
}

Status Engine::screen() {
  const Round& round = *state_.open_round();
  const record::Proposal& proposal = round.last().proposal;
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/screen", round.number), "look at every configuration of the sweep"));
  WorkerRequest request = this->request(WorkerTask::kScreen);
  request.candidates = proposal.candidates;
  request.incumbent = round.incumbent;
  if (request.time_limit > 0) request.time_limit = std::max(request.time_limit / 2, kShortestRequest);
  const double started = services_.clock.monotonic();
  Result<WorkerResponse> response = work(request);
  if (!response && interrupted_) return response.error();
  record::Screened screened;
  screened.round = round.number;
  screened.seconds = services_.clock.monotonic() - started;
  if (response) screened.rows = std::move(response->screen);
  screened.chosen = best_row(screened.rows, proposal, round.incumbent.id());
  if (!response) {
    record::ScreenRow fault;
    fault.outcome = Outcome::kHarnessFault;
    fault.detail = response.error().text();
    screened.rows = {fault};
  }
  return record(EventKind::kScreened, record::to_json(screened));
}

Status Engine::evaluate() {
  const Round& round = *state_.open_round();
  const record::Candidate candidate = *round.last().candidate();
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/evaluate-{}", round.number, round.attempts.size()),
                        "build, check and measure the candidate against the incumbent"));
  RIDGE_CHECK_OK(write_tree(worktree(), tree_of(candidate), tree_of(round.incumbent)));
  WorkerRequest request = this->request(WorkerTask::kEvaluate);
  request.incumbent = round.incumbent;
  request.candidates = {candidate};
  const double started = services_.clock.monotonic();
  Result<WorkerResponse> response = work(request);
  if (!response && interrupted_) return response.error();
  record::Evaluated evaluated;
  evaluated.round = round.number;
  evaluated.candidate = candidate;
  evaluated.seconds = services_.clock.monotonic() - started;
  if (response && response->evaluation) {
    evaluated.evaluation = std::move(*response->evaluation);
  } else {
    evaluated.evaluation = harness_fault(candidate.id(), round.incumbent.id(),
                                         response ? "the worker sent no evaluation" : response.error().text());
  }
  return record(EventKind::kEvaluated, record::to_json(evaluated));
}

// Ends a round that cannot be measured any more; it is decided (and rolled back) like any other.
Status Engine::abandon(const std::string& why) {
  const Round& round = *state_.open_round();
  if (round.last().evaluated) return decide_round();  // only a repair was due
  const record::Candidate* chosen = round.last().candidate();
  record::Evaluated evaluated;
  evaluated.round = round.number;
  evaluated.candidate = chosen != nullptr ? *chosen : round.last().proposal.candidates.front();
  evaluated.evaluation = harness_fault(evaluated.candidate.id(), round.incumbent.id(), why);
  return record(EventKind::kEvaluated, record::to_json(evaluated));
}

Status Engine::decide_round() { return record(EventKind::kDecided, record::to_json(decide(state_))); }

Status Engine::commit() {
  const Round* round = state_.open_round();
  const bool first = !state_.baseline_committed;
  const record::Candidate& candidate = first ? state_.baseline->candidate : round->last().evaluated->candidate;
  record::Committed committed;
  committed.round = first ? 1 : round->number;
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/commit", committed.round), "store the snapshot and commit it"));
  const Tree tree = tree_of(candidate);
  const Tree before = first ? Tree{} : tree_of(round->incumbent);
  RIDGE_TRY(snapshot, snapshots().put(tree));
  committed.snapshot = snapshot;
  RIDGE_CHECK_OK(write_tree(worktree(), tree, before));
  if (state_.spec().git_commit) {
    CommitText text;
    text.op = state_.spec().op;
    text.backend = state_.spec().backend;
    text.round = committed.round;
    text.summary = first ? std::string("baseline") : round->last().proposal.hypothesis.title;
    text.hypothesis =
        first ? std::string("none, this is the kernel to beat") : round->last().proposal.hypothesis.reasoning;
    text.result = first ? std::string("BASELINE") : round->decision->reason;
    text.details = "logs/optimize.md, round-" + std::to_string(committed.round);
    RIDGE_TRY(commit, commit_tree(*services_.git, tree, before, commit_message(text)));
    committed.commit = commit;
  }
  RIDGE_CHECK_OK(record(EventKind::kCommitted, record::to_json(committed)));
  return render_files();
}

Status Engine::roll_back() {
  const Round& round = *state_.open_round();
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/rollback", round.number), "restore the last accepted snapshot"));
  Tree present;
  for (const Attempt& attempt : round.attempts) {
    if (attempt.candidate() != nullptr) present.merge(tree_of(*attempt.candidate()));
  }
  // What was tried is kept, for people; what is restored is verified against its digest.
  if (const record::Candidate* candidate = round.last().candidate()) {
    RIDGE_CHECK_OK(snapshots().put(tree_of(*candidate)));
  }
  RIDGE_TRY(accepted, snapshots().get(state_.incumbent.snapshot));
  RIDGE_CHECK_OK(write_tree(worktree(), accepted, present));
  const record::RolledBack rolled_back{round.number, state_.incumbent.snapshot};
  RIDGE_CHECK_OK(record(EventKind::kRolledBack, record::to_json(rolled_back)));
  return render_files();
}

Status Engine::conclude() {
  const record::Termination termination = check_termination(state_, termination_input());
  RIDGE_CHECK_OK(record(EventKind::kTermination, record::to_json(termination)));
  if (state_.terminated()) {
    std::error_code ignored;
    std::filesystem::remove(options_.directory / kStopFile, ignored);
  }
  return ok_status();
}

Status Engine::measure_final() {
  record::Final final_measurement;
  const record::Candidate& initial = state_.baseline->candidate;
  const record::Candidate& best = state_.incumbent.candidate;
  final_measurement.initial = initial.id();
  final_measurement.best = best.id();
  final_measurement.product_of_accepted = state_.product_of_accepted;
  if (initial.id() != best.id()) {
    RIDGE_CHECK_OK(intend("final", "measure the best against the baseline once more"));
    WorkerRequest request = this->request(WorkerTask::kEvaluate);
    request.incumbent = initial;
    request.candidates = {best};
    request.quick_look = true;
    request.sessions = final_sessions(state_);
    request.time_limit = 0;
    if (state_.wall_budget > 0) {
      request.time_limit = std::max(state_.wall_budget - journal_.active() - kReportSeconds, 3 * kShortestRequest);
    }
    Result<WorkerResponse> response = work(request);
    if (!response && interrupted_) return response.error();
    if (response && response->evaluation) {
      final_measurement.evaluation = std::move(*response->evaluation);
    } else {
      final_measurement.evaluation =
          harness_fault(best.id(), initial.id(), response ? "the worker sent no evaluation" : response.error().text());
    }
    final_measurement.effects = final_effects(final_measurement.evaluation, labels_of(state_.spec().target_cases));
  }
  return record(EventKind::kFinal, record::to_json(final_measurement));
}

Status Engine::report() {
  RIDGE_CHECK_OK(intend("report", "append the tips and write the files"));
  if (!options_.experience.empty()) {
    const record::CampaignSpec& spec = state_.spec();
    RIDGE_TRY(path, knowledge::tips_path(options_.experience, spec.gpu, spec.op, spec.backend));
    RIDGE_CHECK_OK(knowledge::append_tips(path, tips_of(state_)));
  }
  const FileMap files = render_campaign(state_);
  RIDGE_CHECK_OK(write_campaign_files(options_.directory, files));
  record::Reported reported;
  for (const auto& [path, content] : files) reported.files[path] = sha256(content);
  RIDGE_CHECK_OK(record(EventKind::kReported, record::to_json(reported)));
  return ok_status();
}

}  // namespace ridge::campaign
