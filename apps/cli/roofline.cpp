// ridge roofline: what bounds a problem on a machine, where it stands, and when it is done.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "roofline/analyse.h"
#include "say.h"
#include "service/roofline.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct RooflineOptions {
  service::RooflineRequest request;
  std::string plot, write;
};

Status write_files(const RooflineOptions& o, const record::RooflineReport& report) {
  if (!o.plot.empty() && !report.unknown.empty())
    return with_hint(make_error(ErrorCode::kUnsupported, "no drawing without every roof: {}", report.unknown.front()),
                     "give what you know: --measured RATE, --bandwidth RATE");
  if (!o.plot.empty()) RIDGE_CHECK_OK(write_file_durably(o.plot, roofline::to_svg(report)));
  if (!o.write.empty()) {
    std::error_code missing;
    const Result<std::string> old =
        std::filesystem::exists(o.write, missing) ? read_file(o.write) : Result<std::string>(std::string());
    if (!old) return old.error();
    RIDGE_CHECK_OK(write_file_durably(o.write, roofline::with_sections(*old, report)));
  }
  return ok_status();
}

int run_roofline(const Context& context, const RooflineOptions& o) {
  const Result<std::vector<record::RooflineReport>> reports = service::rooflines(context, o.request);
  if (!reports) return fail(reports.error());
  if ((!o.plot.empty() || !o.write.empty()) && reports->size() != 1) {
    return fail(invalid("--plot and --write take one case, not {}", reports->size()));
  }
  if (!reports->empty()) {
    if (const Status written = write_files(o, reports->front()); !written) return fail(written.error());
  }
  if (globals().json) return print_json(*reports);
  for (const record::RooflineReport& report : *reports) say("{}", roofline::to_text(report));
  return kSuccess;
}

}  // namespace

void define_roofline(Command root) {
  auto o = std::make_shared<RooflineOptions>();
  root.subcommand("roofline", "What bounds a problem on a machine, where it stands, and when it is done")
      .positional("operator", o->request.op, "Operator; without one, --flop and --bytes", false)
      .positional("case", o->request.words, "Parameters, for instance m=4096 n=4096 k=4096 dtype=bf16", false)
      .option("--on PRODUCT", o->request.on,
              "A product of ridge spec list; this (default) or cuda: this processor or GPU, by its measured ceilings")
      .option("--latency TIME", o->request.latency, "Measured time of one call, for instance 0.25ms")
      .option("--measured RATE", o->request.measured,
              "Measured arithmetic ceiling, instead of the cited peak: 760TFLOPS")
      .option("--bandwidth RATE", o->request.bandwidth, "Measured bandwidth of the memory: 4.2TB/s")
      .option("--l2-bandwidth RATE", o->request.l2_bandwidth, "Measured bandwidth of the L2")
      .option("--shared-bandwidth RATE", o->request.shared_bandwidth,
              "Measured bandwidth of all shared memories together")
      .option("--launch TIME", o->request.launch, "Measured time of an empty launch, to tell launch-bound calls")
      .option("--flop", o->request.flop, "Work, without an operator")
      .option("--bytes", o->request.bytes, "Compulsory traffic, without an operator")
      .option("--dtype TYPE", o->request.dtype, "Element type of --flop")
      .option("--phase TYPE=FLOP", o->request.phases,
              "TYPE=FLOP: work of another element type in the same call (repeatable)")
      .option("--profiler-bytes", o->request.profiler_bytes, "Bytes of the memory as a profiler counted them")
      .option("--l2-bytes", o->request.l2_bytes, "Bytes through the L2 as a profiler counted them")
      .option("--shared-bytes", o->request.shared_bytes, "Bytes through shared memory as a profiler counted them")
      .option("--target FRACTION", o->request.target, "Fraction of the bound that counts as done")
      .option("--threads", o->request.threads, "CPU threads, for this processor")
      .option("--plot FILE", o->plot, "Draw it into this SVG file")
      .option("--write FILE", o->write, "Write Hardware Spec, Roofline and Stop Conditions into this Markdown file")
      .example("ridge roofline gemm m=4096 n=4096 k=4096 dtype=bf16 --on H200 --latency 0.25ms",
               "55.6 % of 989.4 TFLOP/s")
      .example("ridge roofline gemm m=4096 n=4096 k=4096 dtype=bf16 --on MI300X --plot roofline.svg",
               "the same code for AMD")
      .example("ridge roofline gemm m=4096 n=4096 k=4096 dtype=bf16 --on cuda",
               "the GPU here, as ridge ceilings found it")
      .example("ridge roofline gemm m=4096 n=4096 k=4096 dtype=bf16 --on H20 --measured 148TFLOPS",
               "no source states that peak; without the flag it is UNKNOWN, and the memory alone gives a bound")
      .example("ridge roofline --flop 1e9 --bytes 4e9 --dtype f32 --on L40S", "any work, without an operator")
      .exits({{kUnavailable, "the device is not here, or no source states any of its limits"}, kSystem, kInterrupted})
      .json("a list with each case's axes, bound, attained fraction and stop conditions")
      .action([o](const Context& context) { return run_roofline(context, *o); });
}

}  // namespace ridge::cli
