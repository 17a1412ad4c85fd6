// Steps before the first round: environment, tips, baseline.
#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "campaign/advice.h"
#include "campaign/baseline.h"
#include "campaign/calibration.h"
#include "campaign/campaign.h"
#include "campaign/naming.h"
#include "campaign/session_size.h"
#include "campaign/state.h"
#include "knowledge/tips.h"
#include "record/json.h"
#include "record/tunables.h"

namespace ridge::campaign {
namespace {

using record::EventKind;
using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

constexpr std::int64_t kFewestCalibrations = 4, kMostCalibrations = 12;
constexpr double kCalibrationSeconds = 600.0;  // stands for the wall budget where there is none
constexpr double kCalibrationShare = 0.1;      // of the wall budget, for the baseline
constexpr double kRecalibrationShare = 0.03;   // for each one later
constexpr double kCalibrationSlack = 2.0;      // times the fewest sessions, where they are longer than that share
constexpr int kLookTries = 5;
constexpr int kCalibrationTries = 2;   // a machine that is busy for a moment gets a second chance
constexpr std::size_t kMostTips = 40;  // that a proposer is told

// Every campaign appends to the file: the newest are passed on.
std::vector<std::string> newest(std::vector<std::string> tips) {
  if (tips.size() > kMostTips) tips.erase(tips.begin(), tips.end() - static_cast<std::ptrdiff_t>(kMostTips));
  return tips;
}

}  // namespace

Status Engine::prepare() {
  RIDGE_CHECK_OK(intend("prepare", "fingerprint the environment, measure the ceilings, make the private worktree"));
  RIDGE_TRY(described, work(request(WorkerTask::kDescribe)));
  RIDGE_TRY(measured, work(request(WorkerTask::kCeilings)));
  record::Prepared prepared;
  if (described.environment) prepared.environment = *described.environment;
  prepared.ceilings = measured.ceilings;
  prepared.rendering = record::kRendering;
  prepared.frozen = frozen_digests(state_);
  if (!options_.project.empty()) prepared.frozen[kProjectDigest] = options_.project;
  RIDGE_CHECK_OK(make_directories(worktree()));
  if (state_.spec().git_commit) {
    const std::string wanted = branch_name(state_.spec());
    RIDGE_CHECK_OK(services_.git->init(wanted.empty() ? "main" : wanted));
    RIDGE_TRY(branch, services_.git->branch());
    prepared.branch = branch;
  }
  prepared.worktree = "src";
  return record(EventKind::kPrepared, record::to_json(prepared));
}

// The knowledge pages, once in a process.
Status Engine::read_pages() {
  if (pages_) return ok_status();
  RIDGE_TRY(pages, knowledge::read_pages(options_.data / "knowledge", options_.knowledge));
  route_ = route_of(state_, options_.data);
  pages_ = std::move(pages);
  return ok_status();
}

// The entries for the incumbent as it is.
std::vector<record::KnowledgeEntry> Engine::advised(std::size_t most) const {
  if (!pages_) return {};
  knowledge::Route route = *route_;
  route.bottleneck = bottleneck_of(state_, profile_);
  return advice(state_, pages_->entries, route, most);
}

Status Engine::read_tips() {
  record::TipsRead read;
  read.digest = "absent";
  if (!options_.experience.empty()) {
    const record::CampaignSpec& spec = state_.spec();
    RIDGE_TRY(path, knowledge::tips_path(options_.experience, spec.gpu, spec.op, spec.backend));
    RIDGE_TRY(tips, knowledge::read_tips(path));
    read.digest = tips.digest;
    RIDGE_TRY(kept, knowledge::quarantine(path, tips.entries));
    read.tips = newest(std::move(kept));
  }
  RIDGE_CHECK_OK(read_pages());
  read.knowledge_digest = pages_->digest;
  for (const record::KnowledgeEntry& entry : knowledge::routed(pages_->entries, *route_))
    read.knowledge.push_back(entry.id);
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

// A/A sessions that fit a share of the budget. Void ones are kept in the record; when too few are left, all are
// measured once more.
Result<std::vector<record::Session>> Engine::calibration_sessions(const record::Candidate& candidate, double launch,
                                                                  double share, SessionCost cost) {
  const record::CampaignSpec& spec = state_.spec();
  const double allowed = share * (state_.wall_budget > 0 ? state_.wall_budget : kCalibrationSeconds);
  cost.fixed = 0;  // nothing is checked
  const SessionSize size = fit_sessions(launch, allowed, kFewestCalibrations, kMostCalibrations, spec.protocol, cost);
  WorkerRequest calibrate = request(WorkerTask::kCalibrate);
  calibrate.incumbent = candidate;
  calibrate.candidates = {candidate};
  calibrate.sessions = size.sessions;
  calibrate.protocol.max_quads = size.quads;
  calibrate.protocol.max_launches = size.launches;
  // A request that ends before the fewest sessions are there is repeated as a whole: it gets what they take.
  if (state_.wall_budget > 0)
    calibrate.time_limit = std::max({2 * allowed, kCalibrationSlack * size.seconds, kShortestRequest});
  for (int attempt = 1;; ++attempt) {
    RIDGE_TRY(calibrated, work(calibrate));
    const auto valid = static_cast<std::int64_t>(valid_sessions(calibrated.sessions, "calibrate").size());
    if (valid >= kFewestCalibrations || attempt == kCalibrationTries) return std::move(calibrated.sessions);
  }
}

// The evidence is recorded in any case. A machine that favours an arm is measured once more, because a fair one seems
// to in one calibration of a hundred; where it does so again the campaign pauses, and calibrates again when it is
// resumed.
Status Engine::calibrate_again() {
  const bool shown_before = !last_calibration_was_fair(state_);
  const record::Candidate& incumbent = state_.incumbent.candidate;
  RIDGE_CHECK_OK(intend(fmt::format("calibrate-{}", state_.decisions_used), "measure the incumbent against itself"));
  record::Calibrated calibrated;
  calibrated.candidate = incumbent.id();
  RIDGE_TRY(sessions, calibration_sessions(incumbent, launch_seconds(state_.incumbent.roofline), kRecalibrationShare,
                                           measured_cost(*state_.baseline)));
  calibrated.sessions = std::move(sessions);
  RIDGE_TRY(calibration,
            calibration_of(calibrated.sessions, labels_of(state_.spec().target_cases), state_.spec().protocol));
  calibrated.calibration = calibration;
  RIDGE_CHECK_OK(record(EventKind::kCalibrated, record::to_json(calibrated)));
  const std::string problem = calibration_problem(calibration, calibrated.sessions);
  if (problem.empty() || !shown_before) return ok_status();  // calibration_due: nothing is decided in between
  return make_error(ErrorCode::kUnsupported, "{}", problem);
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
  const std::string problem = baseline_problem(spec, baseline.evaluation);
  if (!problem.empty()) return make_error(ErrorCode::kUnsupported, "{}", problem);
  RIDGE_TRY(sessions, calibration_sessions(baseline.candidate, launch_seconds(baseline.evaluation.roofline),
                                           kCalibrationShare, cost_of_look(baseline.evaluation)));
  // A calibration that shows a bias is recorded like any other: the baseline has its number, and the machine is
  // calibrated again before the first decision (calibration_due).
  RIDGE_TRY(calibration, calibration_of(sessions, labels_of(spec.target_cases), spec.protocol));
  for (const record::Session& session : sessions) {
    const auto wall = session.guards.find("wall");
    if (wall != session.guards.end()) baseline.evaluation.seconds["measure"] += wall->second;
  }
  baseline.calibration = calibration;
  baseline.evaluation.sessions = std::move(sessions);
  baseline.representative_labels =
      representative_shapes(baseline.evaluation.roofline, baseline.calibration.noise_by_shape);
  return record(EventKind::kBaseline, record::to_json(baseline));
}

}  // namespace ridge::campaign
