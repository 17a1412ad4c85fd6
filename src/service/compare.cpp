#include "service/compare.h"

#include <string_view>

#include "base/error.h"
#include "campaign/decide.h"
#include "journal/samples.h"
#include "service/candidate_file.h"
#include "service/duration.h"
#include "service/worker_call.h"
#include "stats/bounds.h"

namespace ridge::service {
namespace {

constexpr std::string_view kNotApplicable[] = {"artifact", "transfer"};

campaign::GateInput gate_input(const record::Evaluation& evaluation, const record::WorkerRequest& request,
                               const record::Candidate& incumbent, const record::Candidate& candidate) {
  campaign::GateInput input;
  input.protocol = request.protocol;
  if (request.calibration) input.calibration = *request.calibration;
  for (const record::CheckRow& row : evaluation.checks) input.labels.push_back(row.label);
  input.candidate_id = candidate.id();
  input.incumbent_id = incumbent.id();
  input.bounds = evaluation.roofline;
  input.evaluation = evaluation;
  return input;
}

// What was seen, without a claim.
record::Decision quick_decision(const record::Evaluation& evaluation, const record::Protocol& protocol) {
  record::Decision decision;
  decision.candidate = evaluation.candidate;
  decision.incumbent = evaluation.incumbent;
  decision.outcome = evaluation.outcome == record::Outcome::kPass ? record::Outcome::kAmbiguous : evaluation.outcome;
  decision.reason = evaluation.detail;
  std::vector<std::string> labels;
  for (const record::CheckRow& row : evaluation.checks) labels.push_back(row.label);
  decision.effects = campaign::final_effects(evaluation, labels, campaign::guard_rule(protocol, {}));
  if (decision.effects.empty() && decision.reason.empty()) {
    decision.reason = "nothing was seen: every session was void, because others kept the machine busy";
  }
  if (decision.effects.empty() || evaluation.outcome != record::Outcome::kPass) return decision;
  decision.reason = fmt::format("a quick look: {:.3f}x over {} sessions; no control of errors, so this is no verdict",
                                decision.effects[0].ratio, decision.effects[0].sessions);
  return decision;
}

Result<record::WorkerRequest> request_of(const Context& context, const CompareRequest& options,
                                         const record::Candidate& incumbent) {
  record::WorkerRequest request;
  request.incumbent = incumbent;
  request.protocol.threads = options.threads;
  request.protocol.min_effect = options.min_effect;
  request.protocol.max_decisions = options.planned;
  request.quick_look = options.quick_look;
  if (!(options.min_effect > 0 && options.min_effect < 10)) {
    return invalid("--min-effect {} must be above 0 and below 10 (0.01 is 1 %)", options.min_effect);
  }
  if (options.planned < 1 || options.planned > stats::kMostDecisions) {
    return with_hint(invalid("--planned {}: 1 to {} are possible", options.planned, stats::kMostDecisions),
                     "state how many comparisons you are going to make, this one included");
  }
  if (!options.budget.empty()) {
    RIDGE_TRY(seconds, parse_duration(options.budget));
    request.time_limit = seconds;
  }
  RIDGE_TRY(cases, cases_of(context, options.op, options.words));
  request.cases = std::move(cases);
  RIDGE_TRY(ceilings, known_ceilings(context, {backend_of(request), options.threads}));
  request.ceilings = std::move(ceilings);
  return request;
}

}  // namespace

Result<record::Comparison> compare_candidates(const Context& context, const record::Candidate& incumbent,
                                              const record::Candidate& candidate, record::WorkerRequest request) {
  request.task = record::WorkerTask::kEvaluate;
  request.incumbent = incumbent;
  request.candidates = {candidate};
  record::Comparison comparison;
  comparison.protocol = request.protocol;
  comparison.quick_look = request.quick_look;
  RIDGE_TRY(response, ask_worker(context, request));
  if (!response.evaluation) return make_error(ErrorCode::kToolFailed, "the worker sent no evaluation");
  comparison.evaluation = std::move(*response.evaluation);
  if (response.environment) comparison.environment = *response.environment;
  comparison.decision =
      request.quick_look
          ? quick_decision(comparison.evaluation, request.protocol)
          : campaign::judge(gate_input(comparison.evaluation, request, incumbent, candidate), kNotApplicable);
  return comparison;
}

Result<record::Comparison> compare_sources(const Context& context, const CompareRequest& options) {
  RIDGE_TRY(incumbent, candidate_of(context, options.op, options.incumbent, options.defines));
  RIDGE_TRY(candidate, candidate_of(context, options.op, options.candidate, options.defines));
  RIDGE_TRY(request, request_of(context, options, incumbent));
  return compare_candidates(context, incumbent, candidate, std::move(request));
}

}  // namespace ridge::service
