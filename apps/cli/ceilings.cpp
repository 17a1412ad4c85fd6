// ridge ceilings: the measured limits of this machine that rooflines and targets rest on.
#include <fmt/format.h>

#include "say.h"
#include "service/worker_call.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

std::string value_of(const record::Ceiling& ceiling) {
  if (ceiling.unit == "FLOP/s") return format_flops(ceiling.value);
  if (ceiling.unit == "s") return fmt::format("{:.2f} us", 1e6 * ceiling.value);
  return format_bandwidth(ceiling.value);
}

int ceilings(const Context& context, const service::CeilingSubject& subject) {
  const Result<std::vector<record::Ceiling>> measured = service::measure_ceilings(context, subject);
  if (!measured) return fail(measured.error());
  if (globals().json) return print_json(*measured);
  std::vector<std::vector<std::string>> rows;
  for (const record::Ceiling& ceiling : *measured) {
    rows.push_back({ceiling.name, std::to_string(ceiling.threads), value_of(ceiling),
                    std::to_string(ceiling.samples.size()), ceiling.method});
  }
  if (!measured->empty() && !measured->front().device.empty()) say("{}\n", measured->front().device);
  say("{}", table({"ceiling", "threads", "value", "samples", "method"}, rows));
  if (const std::string disturbed = service::disturbance_of(*measured); !disturbed.empty()) {
    say("Not kept, because {} meanwhile: the machine can do more than this.\n", disturbed);
  }
  return kSuccess;
}

}  // namespace

void define_ceilings(Command root) {
  auto subject = std::make_shared<service::CeilingSubject>();
  root.subcommand("ceilings", "Measure the arithmetic and memory limits of this machine")
      .option("--on cpu|cuda", subject->backend, "cpu, or cuda: the first GPU")
      .option("--threads", subject->threads, "CPU threads")
      .example("ridge ceilings --threads 2", "peak FMA rate per type, copy, read and triad bandwidth")
      .example("ridge ceilings --on cuda --json", "memory, L2, shared memory, vector and matrix units of a GPU")
      .exits({kUnavailable, kSystem, kInterrupted})
      .json("a list of ceilings with unit, value, samples and method")
      .action([subject](const Context& context) { return ceilings(context, *subject); });
}

}  // namespace ridge::cli
