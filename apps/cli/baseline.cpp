// ridge baseline: the kernel of a workspace checked against the reference and measured; version v0 of its memory.
#include <fmt/format.h>

#include "say.h"
#include "service/baseline.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int baseline(const Context& context, const service::BaselineRequest& request) {
  const Result<record::Iteration> made = service::make_baseline(context, request);
  if (!made) {
    const int code = fail(made.error());
    return made.error().code == ErrorCode::kConflict && made.error().hint.empty() ? static_cast<int>(kNo) : code;
  }
  if (globals().json) return print_json(*made);
  for (const auto& [shape, latency] : made->performance.latency_us_by_shape) say("{}: {:.2f} us\n", shape, latency);
  say("v0: {:.2f} us, {}\n", *made->performance.latency_us, made->profile_evidence.evidence_summary);
  return kSuccess;
}

}  // namespace

void define_baseline(Command root) {
  auto o = std::make_shared<service::BaselineRequest>();
  root.subcommand("baseline", "Check and measure the kernel of a workspace: version v0 of its memory")
      .option("--workspace DIR", o->workspace, "Folder that ridge workspace init made")
      .option("--budget TIME", o->budget, "Time for the measurement, for instance 60s")
      .example("ridge baseline --workspace fast_gemm",
               "right on every case, or exit code 1; then its latency, in baseline_report.md")
      .exits({{kNo, "the kernel is wrong on a case"},
              kUnavailable,
              kSystem,
              {kHeld, "there is a baseline already"},
              kInterrupted})
      .json("the record v0 of the workspace's memory")
      .action([o](const Context& context) { return baseline(context, *o); });
}

}  // namespace ridge::cli
