// ridge compare: is this kernel source faster than that one? With an answer one may rely on.
#include "compare.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "campaign/decide.h"
#include "candidate_file.h"
#include "journal/samples.h"
#include "record/json.h"
#include "say.h"
#include "stats/bounds.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct CompareOptions {
  std::string op, incumbent, candidate, budget;
  std::vector<std::string> words, defines;
  std::int64_t threads = 1, planned = 1;
  double min_effect = 0.01;
  bool quick_look = false;
};

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
record::Decision look_at(const record::Evaluation& evaluation, const record::Protocol& protocol) {
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

void print(const record::Comparison& comparison) {
  const record::Decision& decision = comparison.decision;
  const std::string_view verdict =
      comparison.quick_look ? "QUICK LOOK" : (decision.accepted ? "FASTER" : record::name_of(decision.outcome));
  say("{}: {}\n", painted_verdict(verdict), decision.reason);
  std::vector<std::vector<std::string>> rows;
  for (const record::Effect& effect : decision.effects) {
    rows.push_back({effect.label, fmt::format("{:.4f}x", effect.ratio),
                    fmt::format("[{:.4f}, {:.4f}]", effect.low, effect.high),
                    fmt::format("{:.0f} %", 100 * effect.confidence), std::to_string(effect.sessions)});
  }
  if (!rows.empty()) say("\n{}", table({"", "speed", "interval", "confidence", "sessions"}, rows));
  if (comparison.quick_look) return;
  say("\n");
  for (const record::GateResult& gate : decision.gates) {
    say("{}",
        painted_lines(fmt::format("  {:<12}  {:<16} {}\n", record::name_of(gate.outcome), gate.gate, gate.detail)));
  }
  say("The plain rule {}.\n", decision.plain_rule);
}

Result<record::WorkerRequest> request_of(const CompareOptions& options, const record::Candidate& incumbent) {
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
  RIDGE_TRY(cases, cases_of(options.op, options.words));
  request.cases = std::move(cases);
  RIDGE_TRY(ceilings, known_ceilings({backend_of(request), options.threads}));
  request.ceilings = std::move(ceilings);
  return request;
}

int run(const CompareOptions& options) {
  const auto incumbent = candidate_of(options.op, options.incumbent, options.defines);
  if (!incumbent) return fail(incumbent.error());
  const auto candidate = candidate_of(options.op, options.candidate, options.defines);
  if (!candidate) return fail(candidate.error());
  Result<record::WorkerRequest> request = request_of(options, *incumbent);
  if (!request) return fail(request.error());
  const Result<record::Comparison> comparison = compare(*incumbent, *candidate, std::move(*request));
  if (!comparison) return fail(comparison.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(*comparison));
  } else {
    print(*comparison);
  }
  return comparison->decision.accepted ? kSuccess : kNo;
}

}  // namespace

Result<record::Comparison> compare(const record::Candidate& incumbent, const record::Candidate& candidate,
                                   record::WorkerRequest request) {
  request.task = record::WorkerTask::kEvaluate;
  request.incumbent = incumbent;
  request.candidates = {candidate};
  record::Comparison comparison;
  comparison.protocol = request.protocol;
  comparison.quick_look = request.quick_look;
  RIDGE_TRY(response, ask_worker(request));
  if (!response.evaluation) return make_error(ErrorCode::kToolFailed, "the worker sent no evaluation");
  comparison.evaluation = std::move(*response.evaluation);
  if (response.environment) comparison.environment = *response.environment;
  comparison.decision =
      request.quick_look
          ? look_at(comparison.evaluation, request.protocol)
          : campaign::judge(gate_input(comparison.evaluation, request, incumbent, candidate), kNotApplicable);
  return comparison;
}

void define_compare(Command root) {
  auto options = std::make_shared<CompareOptions>();
  root.subcommand("compare", "Decide whether one kernel source is faster than another")
      .positional("operator", options->op, "Operator, for instance gemm")
      .positional("case", options->words, "Shapes that count together (default: the operator's own)", false)
      .option("--incumbent FILE", options->incumbent, "The source to beat")
      .option("--candidate FILE", options->candidate, "The source that may be faster")
      .option("-D,--define NAME=VALUE", options->defines, "NAME=VALUE of a tunable of both (repeatable)")
      .option("--min-effect FRACTION", options->min_effect, "Smallest gain that counts, as a fraction")
      .option("--planned", options->planned, "How many comparisons share the 5 % chance of any false answer, 1 to 120")
      .option("--threads", options->threads, "CPU threads of one call")
      .option("--time-limit TIME", options->budget, "Stop undecided after this time, for instance 2m")
      .flag("--quick-look", options->quick_look, "Three sessions and an estimate, without control of errors")
      .example("ridge compare gemm --incumbent plain.cpp --candidate tiled.cpp",
               "FASTER only if the chance of a false answer is at most 5 %")
      .example(
          "ridge compare gemm m=512 n=512 k=512 --incumbent a.cpp --candidate b.cpp --min-effect 0.03 --planned 20",
          "one of twenty comparisons; gains below 3 % do not count")
      .example("ridge compare gemm --incumbent a.cpp --candidate b.cpp --quick-look", "a first impression")
      .exits({{kNo, "the candidate is not shown to be faster"}, kUnavailable, kSystem, kInterrupted})
      .json("the decision with its gates, the protocol, the environment and all raw samples")
      .action([options] { return run(*options); });
}

}  // namespace ridge::cli
