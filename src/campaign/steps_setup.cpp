// Steps before the first round: environment, tips, baseline.
#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "campaign/baseline.h"
#include "campaign/campaign.h"
#include "campaign/render.h"
#include "campaign/samples.h"
#include "campaign/session_size.h"
#include "knowledge/tips.h"
#include "record/archive.h"
#include "record/tunables.h"

namespace ridge::campaign {
namespace {

using record::EventKind;
using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

constexpr std::int64_t kFewestCalibrations = 4, kMostCalibrations = 8;
constexpr double kCalibrationSeconds = 60.0;  // without a wall budget
constexpr double kCalibrationShare = 0.1;     // of the wall budget
constexpr int kLookTries = 5;
constexpr int kCalibrationTries = 2;  // a machine that is busy for a moment gets a second chance

std::string digest_of_cases(const record::CampaignSpec& spec) {
  std::string text;
  for (const record::Case& one : spec.target_cases) text += one.text() + "\n";
  return sha256(text);
}

}  // namespace

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

// Builds and checks the baseline, and places it on the roofline by one short look at itself.
Result<record::Evaluation> Engine::look_at_baseline() {
  const record::Candidate& candidate = state_.created->baseline;
  WorkerRequest look = request(WorkerTask::kEvaluate);
  look.incumbent = candidate;
  look.candidates = {candidate};
  look.quick_look = true;
  look.sessions = 1;
  look.protocol.max_quads = 1;
  look.protocol.max_launches = 1;
  // A busy moment voids a session, and one is all there is in a short look.
  for (int attempt = 1;; ++attempt) {
    RIDGE_TRY(looked, work(look));
    if (!looked.evaluation) return make_error(ErrorCode::kToolFailed, "the worker sent no evaluation of the baseline");
    if (attempt == kLookTries || !all_void(looked.evaluation->sessions)) return std::move(*looked.evaluation);
  }
}

// A/A sessions. Void ones are kept in the record; when too few are left, they are measured once more.
Status Engine::calibrate_baseline(record::Evaluation& evaluation) {
  const record::CampaignSpec& spec = state_.spec();
  const double allowed = state_.wall_budget > 0 ? kCalibrationShare * state_.wall_budget : kCalibrationSeconds;
  const SessionSize size =
      fit_sessions(launch_seconds(evaluation.roofline), allowed, kFewestCalibrations, kMostCalibrations, spec.protocol);
  WorkerRequest calibrate = request(WorkerTask::kCalibrate);
  calibrate.incumbent = state_.created->baseline;
  calibrate.candidates = {state_.created->baseline};
  calibrate.sessions = size.sessions;
  calibrate.protocol.max_quads = size.quads;
  calibrate.protocol.max_launches = size.launches;
  if (state_.wall_budget > 0) calibrate.time_limit = std::max(2 * allowed, kShortestRequest);
  for (int attempt = 0; attempt < kCalibrationTries; ++attempt) {
    RIDGE_TRY(calibrated, work(calibrate));
    evaluation.sessions = std::move(calibrated.sessions);
    for (const record::Session& session : evaluation.sessions) {
      const auto wall = session.guards.find("wall");
      if (wall != session.guards.end()) evaluation.seconds["measure"] += wall->second;
    }
    if (static_cast<std::int64_t>(valid_sessions(evaluation.sessions, "calibrate").size()) >= kFewestCalibrations)
      break;
  }
  return ok_status();
}

Status Engine::measure_baseline() {
  RIDGE_CHECK_OK(intend("round-1/baseline", "check the baseline and measure it against itself"));
  const record::CampaignSpec& spec = state_.spec();
  record::Baseline baseline;
  baseline.candidate = state_.created->baseline;
  RIDGE_TRY(space, record::tune_space(baseline.candidate));
  baseline.space = std::move(space);
  RIDGE_TRY(evaluation, look_at_baseline());
  baseline.evaluation = std::move(evaluation);
  std::string problem = baseline_problem(spec, baseline.evaluation);
  if (problem.empty()) {
    RIDGE_CHECK_OK(calibrate_baseline(baseline.evaluation));
    problem = calibration_problem(spec, baseline.evaluation);
  }
  if (!problem.empty()) return make_error(ErrorCode::kUnsupported, "{}", problem);
  RIDGE_TRY(table,
            ratio_table(valid_sessions(baseline.evaluation.sessions, "calibrate"), labels_of(spec.target_cases)));
  const NoiseFloor floor = noise_floor(table, spec.protocol.min_effect);
  baseline.noise = floor.noise;
  baseline.detectable = floor.detectable;
  baseline.noise_by_shape = floor.by_shape;
  baseline.representative_labels = representative_shapes(baseline.evaluation.roofline, floor.by_shape);
  return record(EventKind::kBaseline, record::to_json(baseline));
}

}  // namespace ridge::campaign
