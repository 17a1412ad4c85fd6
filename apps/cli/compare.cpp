// ridge compare: is this kernel source faster than that one? With an answer one may rely on.
#include <fmt/format.h>

#include <cmath>

#include "say.h"
#include "service/compare.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

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

int run(const Context& context, const service::CompareRequest& request) {
  const Result<record::Comparison> comparison = service::compare_sources(context, request);
  if (!comparison) return fail(comparison.error());
  const int code = comparison->decision.accepted ? kSuccess : kNo;
  if (globals().json) return print_json(*comparison, code);
  print(*comparison);
  return code;
}

}  // namespace

void define_compare(Command root) {
  auto options = std::make_shared<service::CompareRequest>();
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
      .action([options](const Context& context) { return run(context, *options); });
}

}  // namespace ridge::cli
