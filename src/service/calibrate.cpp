#include "service/calibrate.h"

#include <algorithm>

#include "base/error.h"
#include "campaign/calibration.h"
#include "campaign/session_size.h"
#include "journal/samples.h"
#include "service/compare.h"
#include "service/duration.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

constexpr std::int64_t kFewestSessions = 8;

// What is measured against itself: the candidate, or the implementation; when none is named that which the library
// chooses for the first case.
Status choose_subject(const Context& context, const CalibrateRequest& options, record::WorkerRequest& request,
                      std::string& name) {
  RIDGE_CHECK_OK(fill_subjects(context, options.subjects, request));
  if (request.candidates.size() + request.implementations.size() > 1) {
    return invalid("calibrate measures one subject against itself, {} were named",
                   request.candidates.size() + request.implementations.size());
  }
  if (!request.candidates.empty()) {
    request.incumbent = request.candidates[0];
    name = request.candidates[0].name;
    return ok_status();
  }
  if (options.decisions > 0) {
    return with_hint(invalid("--decisions needs a kernel source to decide about"), "name one with --candidate FILE");
  }
  if (request.implementations.empty()) {
    RIDGE_TRY(chosen, chosen_for(context, request.cases, backend_of(request)));
    request.implementations = {chosen.front()};
  }
  name = request.implementations[0];
  return ok_status();
}

Result<record::WorkerRequest> calibration_request(const Context& context, const CalibrateRequest& options,
                                                  std::string& name, double& limit) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCalibrate;
  request.protocol.mode = options.mode;
  request.protocol.min_effect = options.min_effect;
  if (options.mode != "cold" && options.mode != "warm") {
    return with_hint(invalid("--mode {} is unknown", options.mode), "use cold or warm");
  }
  if (options.sessions < kFewestSessions || options.sessions > 1000) {
    return invalid("--sessions {} must be between {} and 1000", options.sessions, kFewestSessions);
  }
  if (options.decisions < 0 || options.decisions > 1000) {
    return invalid("--decisions {} must be between 0 and 1000", options.decisions);
  }
  if (!(options.min_effect > 0 && options.min_effect < 10)) {
    return invalid("--min-effect {} must be above 0 and below 10 (0.01 is 1 %)", options.min_effect);
  }
  RIDGE_TRY(seconds, parse_duration(options.budget));
  limit = seconds;
  RIDGE_TRY(cases, cases_of(context, options.subjects.op, options.subjects.words));
  request.cases = std::move(cases);
  RIDGE_CHECK_OK(choose_subject(context, options, request, name));
  return request;
}

// One smallest session shows what a launch costs; then as large ones as fit.
Result<std::vector<record::Session>> measure_itself(const Context& context, record::WorkerRequest request,
                                                    std::int64_t sessions, double limit) {
  const record::Protocol protocol = request.protocol;
  request.sessions = 1;
  request.protocol.max_quads = request.protocol.max_launches = 1;
  RIDGE_TRY(probed, ask_worker(context, request));
  if (probed.sessions.empty()) return make_error(ErrorCode::kToolFailed, "the worker sent no session");
  double launch = 0;
  for (const record::ShapeSamples& shape : probed.sessions[0].shapes) {
    for (const record::Quad& quad : shape.quads) {
      for (const auto& block : quad.blocks) launch += block[0] / 4;
    }
  }
  const campaign::SessionSize size = campaign::fit_sessions(launch, limit, kFewestSessions, sessions, protocol);
  request.sessions = size.sessions;
  request.protocol.max_quads = size.quads;
  request.protocol.max_launches = size.launches;
  request.time_limit = 2 * limit;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  return std::move(response.sessions);
}

constexpr double kDecided = 0.02;  // 1 % with sessions of up to half a per cent of noise
constexpr double kProbeSeconds = 20;

Result<record::WorkerRequest> small_product() {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCalibrate;
  request.implementations = {"cpu_simd"};
  RIDGE_TRY(product, record::parse_case("gemm m=256 n=256 k=256"));
  request.cases = {product};
  request.sessions = 8;
  request.protocol.max_quads = 4;
  request.protocol.max_launches = 3;
  request.time_limit = kProbeSeconds;
  return request;
}

}  // namespace

Result<record::CalibrationReport> calibrate(const Context& context, const CalibrateRequest& options) {
  record::CalibrationReport report;
  double limit = 0;
  RIDGE_TRY(request, calibration_request(context, options, report.subject, limit));
  report.protocol = request.protocol;
  record::WorkerRequest describe;
  describe.task = record::WorkerTask::kDescribe;
  describe.protocol.threads = request.protocol.threads;
  RIDGE_TRY(described, ask_worker(context, std::move(describe)));
  if (described.environment) report.environment = *described.environment;
  mark_seed(options.subjects, report.environment);
  RIDGE_TRY(sessions, measure_itself(context, request, options.sessions, limit));
  report.sessions = std::move(sessions);
  if (!report.sessions.empty()) {
    for (const record::ShapeSamples& shape : report.sessions[0].shapes) report.labels.push_back(shape.label);
  }
  RIDGE_TRY(calibration, campaign::calibration_of(report.sessions, report.labels, report.protocol));
  report.calibration = calibration;
  report.advice = campaign::what_would_help(report.sessions, report.environment);
  if (options.decisions == 0) return report;
  RIDGE_TRY(ceilings, known_ceilings(context, {backend_of(request), request.protocol.threads}));
  request.ceilings = std::move(ceilings);
  request.calibration = calibration;
  record::Candidate copy = *request.incumbent;
  copy.name += " (copy)";
  for (std::int64_t i = 0; i < options.decisions; ++i) {
    RIDGE_TRY(comparison, compare_candidates(context, *request.incumbent, copy, request));
    report.false_accepts += comparison.decision.accepted ? 1 : 0;
    report.decisions.push_back(std::move(comparison.decision));
  }
  return report;
}

record::Capability probe_noise(const Context& context, const record::Environment& environment) {
  record::Capability found;
  found.name = "decide a gain of 1 %";
  Result<record::WorkerRequest> request = small_product();
  const Result<record::WorkerResponse> response =
      request ? ask_worker(context, std::move(*request)) : Result<record::WorkerResponse>(request.error());
  if (!response) {
    found.detail = response.error().text();
    return found;
  }
  std::vector<std::string> labels;
  for (const record::Session& session : response->sessions) {
    labels.clear();
    for (const record::ShapeSamples& shape : session.shapes) labels.push_back(shape.label);
  }
  const Result<record::Calibration> calibration =
      campaign::calibration_of(response->sessions, labels, record::Protocol());
  if (!calibration) {
    found.detail = calibration.error().text();
    return found;
  }
  found.available = calibration->healthy && calibration->detectable <= kDecided;
  found.detail = "just now " + calibration->reason;
  for (const std::string& line : campaign::what_would_help(response->sessions, environment)) {
    found.remedy += (found.remedy.empty() ? "" : "; ") + line;
  }
  if (found.remedy.empty())
    found.remedy = "larger gains are decided all the same; `ridge calibrate` measures your case";
  return found;
}

}  // namespace ridge::service
