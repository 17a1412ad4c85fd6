// ridge bench: how fast, on verified calls with fresh inputs; paired with another implementation if asked.
#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "base/files.h"
#include "record/archive.h"
#include "record/bench_table.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct BenchOptions {
  std::string op, versus, candidate, csv, markdown, budget = "60s", mode = "cold";
  std::vector<std::string> words, implementations, defines;
  std::int64_t threads = 1;
};

void print_rows(const std::vector<record::BenchRow>& rows, const std::string& versus) {
  std::vector<std::string> header = {"case", "implementation", "median",    "p10",     "p90", "min",
                                     "n",    "rate",           "bandwidth", "roofline"};
  if (!versus.empty()) header.push_back("vs " + versus);
  std::vector<std::vector<std::string>> cells;
  std::string failures;
  for (const record::BenchRow& row : rows) {
    if (row.outcome != record::Outcome::kPass) {
      failures += fmt::format("{}, {}: {} {}\n", row.label, row.subject, record::name_of(row.outcome), row.detail);
      cells.push_back({row.label, row.subject, std::string(record::name_of(row.outcome))});
      continue;
    }
    std::vector<std::string> line = {row.label,
                                     row.subject,
                                     format_duration(row.median),
                                     format_duration(row.p10),
                                     format_duration(row.p90),
                                     format_duration(row.min),
                                     std::to_string(row.samples.size()),
                                     format_flops(row.flops),
                                     format_bandwidth(row.bandwidth),
                                     fmt::format("{:.1f} %", 100 * row.roofline_fraction)};
    if (row.ratio) line.push_back(fmt::format("{:.3f}x [{:.3f}, {:.3f}]", *row.ratio, *row.ratio_low, *row.ratio_high));
    cells.push_back(std::move(line));
  }
  fmt::print("{}", table(header, cells));
  if (!failures.empty()) fmt::print("\n{}", failures);
}

Status write_tables(const BenchOptions& options, const std::vector<record::BenchRow>& rows) {
  if (!options.csv.empty()) RIDGE_CHECK_OK(write_file_durably(options.csv, record::bench_csv(rows)));
  if (!options.markdown.empty()) RIDGE_CHECK_OK(write_file_durably(options.markdown, record::bench_markdown(rows)));
  return ok_status();
}

int bench(const BenchOptions& options) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kBench;
  request.implementations = options.implementations;
  request.protocol.threads = options.threads;
  request.protocol.mode = options.mode;
  if (options.mode != "cold" && options.mode != "warm") {
    return fail(with_hint(invalid("--mode {} is unknown", options.mode), "use cold or warm"));
  }
  if (!options.versus.empty()) request.versus = options.versus;
  const Result<double> limit = parse_duration(options.budget);
  if (!limit) return fail(limit.error());
  request.time_limit = *limit;
  Result<std::vector<record::Case>> cases = cases_of(options.op, options.words);
  if (!cases) return fail(cases.error());
  request.cases = std::move(*cases);
  if (!options.candidate.empty()) {
    Result<record::Candidate> candidate = candidate_of(options.op, options.candidate, options.defines);
    if (!candidate) return fail(candidate.error());
    request.candidates.push_back(std::move(*candidate));
  }
  Result<std::vector<record::Ceiling>> ceilings = known_ceilings(options.threads);
  if (!ceilings) return fail(ceilings.error());
  request.ceilings = std::move(*ceilings);
  const Result<record::WorkerResponse> response = ask_worker(std::move(request));
  if (!response) return fail(response.error());
  if (const Status status = write_tables(options, response->bench); !status) return fail(status.error());
  if (globals().json) {
    fmt::print("{}\n", pretty_json(record::to_json(*response)));
  } else {
    print_rows(response->bench, options.versus);
  }
  for (const record::BenchRow& row : response->bench) {
    if (row.outcome != record::Outcome::kPass) return kNo;
  }
  return response->bench.empty() ? kNo : kSuccess;
}

}  // namespace

void define_bench(Command root) {
  auto options = std::make_shared<BenchOptions>();
  root.subcommand("bench", "Time implementations or a candidate; every timed call is verified")
      .positional("operator", options->op, "Operator, for instance gemm")
      .positional("case", options->words, "Parameters; a list such as m=256,512 runs through its values", false)
      .option("--impl", options->implementations, "Only this implementation (repeatable)")
      .option("--vs", options->versus, "Pair every implementation with this one, interleaved; prints the ratio")
      .option("--candidate", options->candidate, "Time this candidate source, too")
      .option("-D,--define", options->defines, "NAME=VALUE of a tunable of the candidate (repeatable)")
      .option("--threads", options->threads, "CPU threads of one call")
      .option("--mode", options->mode, "cold (rotating buffers) or warm (reused)")
      .option("--budget", options->budget, "Time for all of it")
      .option("--csv", options->csv, "Also write the rows as CSV to this file")
      .option("--markdown", options->markdown, "Also write the rows as a Markdown table to this file")
      .example("ridge bench gemm m=256,512,1024 n=512 k=512 --vs cpu_onednn", "an axis, paired with a vendor library")
      .example("ridge bench gemm --candidate my_kernel.cpp --vs cpu_simd", "your kernel against the library's")
      .example("ridge bench gemm m=512 n=512 k=512 --json", "with all raw samples")
      .action([options] { return bench(*options); });
}

}  // namespace ridge::cli
