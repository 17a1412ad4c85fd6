// ridge calibrate: how noisy is this machine, what is the smallest effect it can show, and what would help?
#include <fmt/format.h>

#include "base/files.h"
#include "campaign/calibration.h"
#include "record/json.h"
#include "say.h"
#include "service/calibrate.h"
#include "subcommands.h"
#include "subjects.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct CalibrateOptions {
  service::CalibrateRequest request;
  std::string out;
};

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

int run(const Context& context, const CalibrateOptions& options) {
  const Result<record::CalibrationReport> report = service::calibrate(context, options.request);
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
  add_subject_options(command, options->request.subjects, "Parameters; without any, the operator's target cases")
      .option("--mode cold|warm", options->request.mode, "cold or warm")
      .option("--sessions", options->request.sessions, "At most so many sessions")
      .option("--min-effect FRACTION", options->request.min_effect, "Smallest gain of interest, as a fraction")
      .option("--time-limit TIME", options->request.budget, "Time for the sessions; they are made as large as fits")
      .option("--decisions", options->request.decisions,
              "Then also decide so often whether the subject is faster than itself")
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
      .action([options](const Context& context) { return run(context, *options); });
  add_seed_option(command, options->request.subjects);
}

}  // namespace ridge::cli
