// ridge bench: how fast, on verified calls with fresh inputs; everything interleaved, paired with one subject if asked.
#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "base/files.h"
#include "bench_words.h"
#include "record/bench_table.h"
#include "record/json.h"
#include "say.h"
#include "service/bench.h"
#include "subcommands.h"
#include "subjects.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct BenchOptions {
  service::BenchRequest request;
  std::string format, baseline;
  std::vector<std::string> out;
  double tolerance = 0.05;
};

constexpr std::string_view kFormats[] = {"table", "json", "csv", "markdown"};

Status check_format(const std::string& format) {
  if (std::find(std::begin(kFormats), std::end(kFormats), format) != std::end(kFormats)) return ok_status();
  return with_hint(invalid("format \"{}\" is unknown", format), "use table, json, csv or markdown");
}

// By its ending.
Result<std::string> format_of(const std::string& path) {
  if (path.ends_with(".json")) return std::string("json");
  if (path.ends_with(".csv")) return std::string("csv");
  if (path.ends_with(".md")) return std::string("markdown");
  if (path.ends_with(".txt")) return std::string("table");
  return with_hint(invalid("--out {}: the ending says nothing about the format", path),
                   "end it in .json, .csv, .md or .txt");
}

std::string render(const record::BenchReport& report, std::string_view format, std::size_t width) {
  if (format == "json") return record::to_pretty(report) + "\n";
  if (format == "csv") return record::bench_csv(report.bench);
  if (format == "markdown") return record::bench_markdown(report.bench);
  const std::string summary = summary_words(report);
  std::string inputs;
  if (const auto fact = report.environment.facts.find("measure.inputs"); fact != report.environment.facts.end())
    inputs = "Inputs are " + fact->second + ".\n";
  return bench_table(report, width) + noise_words(report) + inputs + (summary.empty() ? "" : "\n" + summary);
}

// What is said of the output is refused before anything is measured.
Status check_formats(const BenchOptions& options) {
  if (!options.format.empty()) RIDGE_CHECK_OK(check_format(options.format));
  for (const std::string& path : options.out) {
    if (const Result<std::string> known = format_of(path); !known) return known.error();
  }
  return ok_status();
}

int bench(const Context& context, const BenchOptions& options) {
  if (const Status known = check_formats(options); !known) return fail(known.error());
  std::optional<record::BenchReport> before;
  if (!options.baseline.empty()) {
    Result<record::BenchReport> read = service::read_bench_report(options.baseline);
    if (!read) return fail(read.error());
    before = std::move(*read);
  }
  const Result<record::BenchReport> report = service::bench_subjects(context, options.request);
  if (!report) return fail(report.error());
  for (const std::string& path : options.out) {
    if (const Status written = write_file_durably(path, render(*report, *format_of(path), 0)); !written)
      return fail(written.error());
  }
  const std::string format = globals().json ? "json" : (options.format.empty() ? "table" : options.format);
  say("{}", render(*report, format, terminal_width(stdout)));
  bool good = service::all_measured(*report);
  if (report->bench.empty()) say(stderr, "nothing was measured: no subject can run these cases\n");
  if (before) {
    const auto rows = service::compare_with_earlier(*report, *before, options.tolerance);
    if (!rows) return fail(rows.error());
    say(format == "table" ? stdout : stderr, "\n{}", earlier_words(*rows));
    good = good && std::ranges::none_of(*rows, &service::EarlierRow::slower);
  }
  return good ? kSuccess : kNo;
}

}  // namespace

void define_bench(Command root) {
  auto options = std::make_shared<BenchOptions>();
  Command command = root.subcommand("bench", "Time implementations or candidates; every timed call is verified");
  add_subject_options(command, options->request.subjects,
                      "Parameters; lists (m=256,512) and ranges (m=512..4096x2, m=64..256+64) run through their values")
      .option("--vs NAME", options->request.versus, "Compare every subject with this one, paired in the same sessions")
      .option("--mode cold|warm", options->request.mode,
              "cold (operands in no private cache) or warm (called once before, untimed)")
      .option("--samples", options->request.samples, "Timed calls of every subject on every case (default: 48)")
      .option("--min-time SECONDS", options->request.min_time,
              "Seconds of timed calls of every subject on every case, at least")
      .option("--time-limit,--budget TIME", options->request.budget,
              "Time for all of it, for instance 90s; cut evenly over the cases")
      .option("--format table|json|csv|markdown", options->format, "What to print: table, json, csv or markdown")
      .option("-o,--out FILE", options->out, "Also write to this file; .json, .csv, .md or .txt (repeatable)")
      .option("--baseline FILE", options->baseline, "Compare with an earlier --out FILE.json; exit code 1 when slower")
      .option("--tolerance FRACTION", options->tolerance,
              "With --baseline: slower by up to this fraction is no failure")
      .example("ridge bench gemm m=512..4096x2 n=512 k=512 --vs cpu_onednn", "an axis, paired with a vendor library")
      .example("ridge bench gemm m=512 n=512 k=512 --candidate a.cpp --candidate b.cpp --vs a",
               "two kernel sources against each other")
      .example("ridge bench gemm m=1024 n=1024 k=1024 dtype=f32,bf16 --threads 2 --out gemm.json --out gemm.md",
               "raw samples with the environment, and a table for a README")
      .example("ridge bench gemm --baseline gemm.json", "has anything become slower since?")
      .exits({{kNo, "a call was wrong, a subject failed, nothing was measured, or with --baseline one became slower"},
              kUnavailable,
              kSystem,
              kInterrupted})
      .json("the report: environment, protocol, ceilings, and a row per case and subject with all samples")
      .action([options](const Context& context) { return bench(context, *options); });
  add_seed_option(command, options->request.subjects);
}

}  // namespace ridge::cli
