// ridge try: one paired look at a candidate, in seconds and outside of any campaign. It decides nothing.
#include <fmt/format.h>

#include "say.h"
#include "service/look.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

void print(const record::Look& look) {
  std::vector<std::vector<std::string>> rows;
  for (const record::BenchRow& row : look.rows) {
    if (row.outcome != record::Outcome::kPass || !row.ratio) {
      say("{}: {} {}\n", row.label, painted_verdict(record::name_of(row.outcome)), row.detail);
      continue;
    }
    rows.push_back({row.label, fmt::format("{:.3f}x", *row.ratio),
                    fmt::format("[{:.3f}, {:.3f}]", row.ratio_low.value_or(0), row.ratio_high.value_or(0)),
                    std::to_string(row.sessions), fmt::format("{:.4g} us", 1e6 * row.median)});
  }
  if (look.ratio) {
    say("{} is {:.3f}x as fast as {} (interval {:.3f} to {:.3f}, {} session{} of each shape, {:.1f} s)\n",
        look.candidate, *look.ratio, look.against, *look.ratio_low, *look.ratio_high, look.sessions,
        look.sessions == 1 ? "" : "s", look.seconds);
  }
  if (!rows.empty()) say("\n{}\n", table({"shape", "speed", "interval", "sessions", "median"}, rows));
  say("A look and no decision: it controls no errors, and looking again until it pleases makes anything faster.\n"
      "`ridge compare` decides; `ridge campaign propose` does in a campaign.\n");
}

int try_candidate(const Context& context, const service::LookRequest& request) {
  const Result<record::Look> look = service::look_at(context, request);
  if (!look) return fail(look.error());
  const int code = look->ratio ? kSuccess : kNo;
  if (globals().json) return print_json(*look, code);
  print(*look);
  return code;
}

}  // namespace

void define_try(Command root) {
  auto options = std::make_shared<service::LookRequest>();
  root.subcommand("try", "One paired look at a kernel source, in under 20 s: no decision")
      .positional("candidate", options->candidate, "The kernel source")
      .positional("case", options->words, "Shapes (default: those that it says it is for, else the operator's own)",
                  false)
      .option("--op OPERATOR", options->op, "The operator that it implements (default: what the source says)")
      .option("--vs NAME", options->versus,
              "Another source, or an implementation of the library (default: what dispatch chooses)")
      .option("-D,--define NAME=VALUE", options->defines, "NAME=VALUE of a tunable of the candidate (repeatable)")
      .option("--threads", options->threads, "CPU threads of one call")
      .example("ridge try mine.cpp --op gemm m=512 n=512 k=512", "against what the library runs there")
      .example("ridge try tiled.cpp --op gemm --vs plain.cpp", "against another source, on the operator's shapes")
      .example("ridge try src/ops/gemm/cpu_plain.cpp -D MR=4 --vs src/ops/gemm/cpu_plain.cpp",
               "a tunable against its default")
      .exits({{kNo, "it does not build, a call was wrong, or nothing could be measured"},
              kUnavailable,
              kSystem,
              kInterrupted})
      .json("the look: ratio with its interval, sessions, and a row per shape with all samples")
      .action([options](const Context& context) { return try_candidate(context, *options); });
}

}  // namespace ridge::cli
