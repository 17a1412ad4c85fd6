// ridge calibrate: how noisy is this machine, what is the smallest effect it can show, and what would help?
#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "campaign/calibration.h"
#include "campaign/session_size.h"
#include "compare.h"
#include "journal/samples.h"
#include "record/json.h"
#include "say.h"
#include "subcommands.h"
#include "subjects.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct CalibrateOptions {
  SubjectOptions subjects;
  std::string budget = "60s", mode = "cold", out;
  std::int64_t sessions = 24, decisions = 0;
  double min_effect = 0.01;
};

constexpr std::int64_t kFewestSessions = 8;

// What is measured against itself: the candidate, or the implementation; when none is named that which the library
// chooses for the first case.
Status choose_subject(const CalibrateOptions& options, record::WorkerRequest& request, std::string& name) {
  RIDGE_CHECK_OK(fill_subjects(options.subjects, request));
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
    RIDGE_TRY(chosen, chosen_for(request.cases, backend_of(request)));
    request.implementations = {chosen.front()};
  }
  name = request.implementations[0];
  return ok_status();
}

Result<record::WorkerRequest> request_of(const CalibrateOptions& options, std::string& name, double& limit) {
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
  RIDGE_TRY(cases, cases_of(options.subjects.op, options.subjects.words));
  request.cases = std::move(cases);
  RIDGE_CHECK_OK(choose_subject(options, request, name));
  return request;
}

// One smallest session shows what a launch costs; then as large ones as fit.
Result<std::vector<record::Session>> measure(record::WorkerRequest request, std::int64_t sessions, double limit) {
  const record::Protocol protocol = request.protocol;
  request.sessions = 1;
  request.protocol.max_quads = request.protocol.max_launches = 1;
  RIDGE_TRY(probed, ask_worker(request));
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
  RIDGE_TRY(response, ask_worker(std::move(request)));
  return std::move(response.sessions);
}

Result<record::CalibrationReport> calibrate(const CalibrateOptions& options) {
  record::CalibrationReport report;
  double limit = 0;
  RIDGE_TRY(request, request_of(options, report.subject, limit));
  report.protocol = request.protocol;
  record::WorkerRequest describe;
  describe.task = record::WorkerTask::kDescribe;
  describe.protocol.threads = request.protocol.threads;
  RIDGE_TRY(described, ask_worker(std::move(describe)));
  if (described.environment) report.environment = *described.environment;
  mark_seed(options.subjects, report.environment);
  RIDGE_TRY(sessions, measure(request, options.sessions, limit));
  report.sessions = std::move(sessions);
  if (!report.sessions.empty()) {
    for (const record::ShapeSamples& shape : report.sessions[0].shapes) report.labels.push_back(shape.label);
  }
  RIDGE_TRY(calibration, campaign::calibration_of(report.sessions, report.labels, report.protocol));
  report.calibration = calibration;
  report.advice = campaign::what_would_help(report.sessions, report.environment);
  if (options.decisions == 0) return report;
  RIDGE_TRY(ceilings, known_ceilings({backend_of(request), request.protocol.threads}));
  request.ceilings = std::move(ceilings);
  request.calibration = calibration;
  record::Candidate copy = *request.incumbent;
  copy.name += " (copy)";
  for (std::int64_t i = 0; i < options.decisions; ++i) {
    RIDGE_TRY(comparison, compare(*request.incumbent, copy, request));
    report.false_accepts += comparison.decision.accepted ? 1 : 0;
    report.decisions.push_back(std::move(comparison.decision));
  }
  return report;
}

std::string fine_percent(double fraction) { return fmt::format("{:.2f} %", 100 * fraction); }

void print_advice(const record::CalibrationReport& report) {
  if (!report.advice.empty()) say("\nWhat would help:\n");
  for (const std::string& line : report.advice) say("  - {}\n", line);
}

void print(const record::CalibrationReport& report) {
  const record::Calibration& found = report.calibration;
  const double threshold = 1 + report.protocol.min_effect;
  if (found.sessions == 0) {
    say("{} against itself: {} of {} sessions count", report.subject, found.sessions, report.sessions.size());
    if (!report.sessions.empty()) say("; the last is void because {}", report.sessions.back().void_reason);
    say(".\nThe noise of this machine is not known.\n");
    return print_advice(report);
  }
  say("{} against itself, {} sessions of {} quads of {} launches per block, {} thread{}, {}\n\n", report.subject,
      found.sessions, found.quads, found.launches, report.protocol.threads, report.protocol.threads == 1 ? "" : "s",
      report.protocol.mode);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < report.labels.size() && i < found.noise_by_shape.size(); ++i) {
    const double noise = found.noise_by_shape[i];
    rows.push_back({report.labels[i], fine_percent(noise), fine_percent(threshold * std::exp(2 * noise) - 1)});
  }
  rows.push_back({"all together", fine_percent(found.noise), fine_percent(found.detectable)});
  say("{}\n", table({"case", "noise of a session", "smallest gain decided in about 15 sessions"}, rows));
  say("{}.\n", found.reason);
  say("{}\n", campaign::fair(found) ? "A campaign may rest on this machine." : "A campaign would pause here.");
  print_advice(report);
  if (!report.decisions.empty()) {
    std::int64_t sessions = 0;
    for (const record::Decision& decision : report.decisions) {
      if (!decision.effects.empty()) sessions += decision.effects[0].sessions;
    }
    say("\n{} whole decisions on it against itself: {} false accepts, {} confirmation sessions.\n",
        report.decisions.size(), report.false_accepts, sessions);
  }
}

int run(const CalibrateOptions& options) {
  const Result<record::CalibrationReport> report = calibrate(options);
  if (!report) return fail(report.error());
  const std::string json = record::to_pretty(*report) + "\n";
  if (!options.out.empty()) {
    if (const Status written = write_file_durably(options.out, json); !written) return fail(written.error());
  }
  if (globals().json) {
    say("{}", json);
  } else {
    print(*report);
  }
  return campaign::fair(report->calibration) && report->false_accepts == 0 ? kSuccess : kNo;
}

}  // namespace

void define_calibrate(Command root) {
  auto options = std::make_shared<CalibrateOptions>();
  Command command =
      root.subcommand("calibrate", "How noisy this machine is, the smallest effect it can show, and what would help");
  add_subject_options(command, options->subjects, "Parameters; without any, the operator's target cases")
      .option("--mode cold|warm", options->mode, "cold or warm")
      .option("--sessions", options->sessions, "At most so many sessions")
      .option("--min-effect FRACTION", options->min_effect, "Smallest gain of interest, as a fraction")
      .option("--time-limit TIME", options->budget, "Time for the sessions; they are made as large as fits")
      .option("--decisions", options->decisions, "Then also decide so often whether the subject is faster than itself")
      .option("-o,--out FILE", options->out, "Also write everything, raw samples included, as JSON to this file")
      .example("ridge calibrate gemm", "noise per shape with the best implementation")
      .example("ridge calibrate gemm m=256 n=256 k=256 --threads 2 --json", "one shape, two threads")
      .example("ridge calibrate gemm m=96 n=96 k=96 --candidate mine.cpp --decisions 40",
               "40 decisions between equal kernels: none may be an accept")
      .exits({{kNo, "a campaign would stop on this machine, or a decision between equal kernels was an accept"},
              kUnavailable,
              kSystem,
              kInterrupted})
      .json("the report: noise of each case, smallest detectable gain, advice, and all raw samples")
      .action([options] { return run(*options); });
  add_seed_option(command, options->subjects);
}

}  // namespace ridge::cli
