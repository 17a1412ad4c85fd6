// Steps that end a campaign: termination, the final measurement, the report. And what all steps ask a worker through.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "campaign/campaign.h"
#include "campaign/decide.h"
#include "campaign/files.h"
#include "campaign/render.h"
#include "campaign/replica.h"
#include "campaign/rules/rule.h"
#include "campaign/session_size.h"
#include "campaign/state.h"
#include "campaign/tips.h"
#include "knowledge/tips.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

using record::EventKind;
using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

const char* const kBestName = "the best kernel";  // of a bench
constexpr double kPeerShare = 0.06;               // of the wall budget, for the peers
constexpr double kPeerSeconds = 30.0;             // at most, and without a wall budget
constexpr double kLeastPeerSeconds = 3.0;

// For the comparison with other implementations; 0 where the budget is too short for one.
double peer_seconds(const State& state) {
  if (state.wall_budget <= 0) return kPeerSeconds;
  const double share = std::min(kPeerShare * state.wall_budget, kPeerSeconds);
  return share < kLeastPeerSeconds ? 0 : share;
}

// The least that a round takes: build, check and one session of each arm. With less left none is begun.
double shortest_round(const State& state) {
  if (!state.baseline) return 0;
  const SessionCost cost = measured_cost(*state.baseline);
  return cost.fixed > 0 ? cost.fixed + cost.overhead : 0;
}

}  // namespace

record::Evaluation harness_fault(const std::string& candidate, const std::string& incumbent, std::string detail) {
  record::Evaluation evaluation;
  evaluation.candidate = candidate;
  evaluation.incumbent = incumbent;
  evaluation.outcome = record::Outcome::kHarnessFault;
  evaluation.detail = std::move(detail);
  return evaluation;
}

TerminationInput Engine::termination_input() const {
  TerminationInput input;
  const std::optional<std::int64_t> rounds = stop_after();
  input.stop_requested = stop_file_exists() || (rounds && state_.rounds_closed() >= *rounds);
  input.active = journal_.active();
  const bool needed = state_.incumbent.round > 1;  // nothing to measure while the baseline stands
  const double comparisons = needed ? 1.0 + (replica_asked(state_) ? 1.0 : 0.0) : 0.0;
  input.reserve = kReportSeconds + peer_seconds(state_) +
                  comparisons * 1.2 * size_of_final(state_, seconds_of_final(state_)).seconds + shortest_round(state_);
  return input;
}

WorkerRequest Engine::request(WorkerTask task) const {
  WorkerRequest request;
  request.task = task;
  request.backend = state_.spec().backend;
  request.cases = state_.spec().target_cases;
  request.protocol = state_.spec().protocol;
  if (state_.prepared) request.ceilings = state_.prepared->ceilings;
  request.cache_directory = options_.cache_directory.string();
  const double left = seconds_left(state_, termination_input());
  if (std::isfinite(left)) request.time_limit = std::max(left, kShortestRequest);
  return request;
}

// Runs a request; a worker that died is tried once more, because that is the harness's fault and not the campaign's.
Result<WorkerResponse> Engine::work(const WorkerRequest& request) { return work_by(services_.executor, request); }

Result<WorkerResponse> Engine::work_by(execute::Executor& executor, const WorkerRequest& request) {
  // Waiting for the device or for a quiet machine is no active time, while it lasts as well as afterwards.
  double discounted = executor.waited();
  const auto discount = [&] {
    const double waited = executor.waited();
    journal_.discount(waited - discounted);
    discounted = waited;
  };
  const auto on_progress = [&](const record::Progress& progress) {
    discount();
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
    Result<WorkerResponse> response = executor.run(request, on_progress, should_stop);
    discount();
    if (response && response->error.empty()) return response;
    if (!response && should_stop()) {
      interrupted_ = true;
      return response;
    }
    if (response && !response->error.empty()) {
      return with_hint(make_error(ErrorCode::kToolFailed, "{}: {}", record::name_of(request.task), response->error),
                       response->error_hint);
    }
    const bool worth_another = request.task != WorkerTask::kProfile && response.error().code != ErrorCode::kTimeout;
    if (attempt == 1 || !worth_another) return response;
  }
}

Status Engine::conclude() {
  const record::Termination termination = check_termination(state_, termination_input());
  RIDGE_CHECK_OK(record(EventKind::kTermination, record::to_json(termination)));
  if (state_.terminated()) {
    std::error_code ignored;
    std::filesystem::remove(options_.directory / kStopFile, ignored);
    std::filesystem::remove(options_.directory / kStopAfterFile, ignored);
  }
  return ok_status();
}

// Best against baseline in sessions of that size; without a limit of time.
WorkerRequest Engine::final_request(const SessionSize& size) const {
  WorkerRequest request = this->request(WorkerTask::kEvaluate);
  request.incumbent = state_.baseline->candidate;
  request.candidates = {state_.incumbent.candidate};
  request.quick_look = true;
  request.sessions = size.sessions;
  request.protocol.max_quads = size.quads;
  request.protocol.max_launches = size.launches;
  request.time_limit = 0;
  return request;
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
    WorkerRequest request = final_request(size_of_final(state_, seconds_of_final(state_)));
    if (state_.wall_budget > 0) {
      request.time_limit = std::max(state_.wall_budget - journal_.active() - kReportSeconds, kShortestRequest);
    }
    // A busy moment may void every session; the result of the whole campaign gets a second chance.
    for (int attempt = 0; attempt < kFinalTries && final_measurement.effects.empty(); ++attempt) {
      Result<WorkerResponse> response = work(request);
      if (!response && interrupted_) return response.error();
      if (response && response->evaluation) {
        final_measurement.evaluation = std::move(*response->evaluation);
      } else {
        final_measurement.evaluation = harness_fault(
            best.id(), initial.id(), response ? "the worker sent no evaluation" : response.error().text());
      }
      final_measurement.effects = final_effects(final_measurement.evaluation, labels_of(state_.spec().target_cases),
                                                guard_rule(state_.spec().protocol, state_.calibration));
    }
  }
  RIDGE_CHECK_OK(measure_peers(final_measurement));
  return record(EventKind::kFinal, record::to_json(final_measurement));
}

// The library's implementations on the target shapes, each in turns with the best kernel.
Status Engine::measure_peers(record::Final& final_measurement) {
  double allowed = peer_seconds(state_);
  if (state_.wall_budget > 0) {
    allowed = std::min(allowed, state_.wall_budget - journal_.active() - kReportSeconds);
  }
  if (allowed < kLeastPeerSeconds) {
    final_measurement.peers_note = "no time was left in the budget";
    return ok_status();
  }
  WorkerRequest bench = request(WorkerTask::kBench);
  bench.candidates = {state_.incumbent.candidate};
  bench.candidates[0].name = kBestName;
  bench.versus = kBestName;
  bench.all_implementations = true;
  bench.time_limit = allowed;
  Result<WorkerResponse> response = work(bench);
  if (!response) {  // a stop, too: what was measured before is worth its report
    final_measurement.peers_note = interrupted_ ? "it was stopped" : response.error().text();
    interrupted_ = false;
    return ok_status();
  }
  for (record::BenchRow& row : response->bench) {
    if (row.subject != kBestName && row.ratio) final_measurement.peers.push_back(std::move(row));
  }
  if (final_measurement.peers.empty()) {
    final_measurement.peers_note = "no other implementation of this operator could be measured here";
  }
  return ok_status();
}

// Appends what the decided rounds teach and the file has not yet. After every round, so that nothing is lost of a
// campaign that never ends.
Status Engine::write_tips() const {
  if (options_.experience.empty()) return ok_status();
  const record::CampaignSpec& spec = state_.spec();
  RIDGE_TRY(path, knowledge::tips_path(options_.experience, spec.gpu, spec.op, spec.backend));
  return knowledge::append_tips(path, tips_of(state_));
}

Status Engine::report() {
  RIDGE_CHECK_OK(journal_.cut_foreign_bytes(true));
  RIDGE_CHECK_OK(intend("report", "append the tips and write the files"));
  RIDGE_CHECK_OK(write_tips());
  const FileMap files = render_campaign(state_);
  RIDGE_CHECK_OK(write_campaign_files(options_.directory, files));
  record::Reported reported;
  for (const auto& [path, content] : files) reported.files[path] = sha256(content);
  reported.rules = judge_before_report({state_, nullptr, &options_.directory});
  RIDGE_CHECK_OK(record(EventKind::kReported, record::to_json(reported)));
  return ok_status();
}

}  // namespace ridge::campaign
