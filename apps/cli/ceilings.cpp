// ridge ceilings: the measured limits of this machine that rooflines and targets rest on.
#include <fmt/format.h>

#include "record/archive.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

int ceilings(std::int64_t threads) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCeilings;
  request.protocol.threads = threads;
  const Result<record::WorkerResponse> response = ask_worker(std::move(request));
  if (!response) return fail(response.error());
  if (const Status kept = keep_ceilings(threads, response->ceilings); !kept) return fail(kept.error());
  if (globals().json) {
    fmt::print("{}\n", pretty_json(record::to_json(response->ceilings)));
    return kSuccess;
  }
  std::vector<std::vector<std::string>> rows;
  for (const record::Ceiling& ceiling : response->ceilings) {
    const std::string value = ceiling.unit == "FLOP/s" ? format_flops(ceiling.value) : format_bandwidth(ceiling.value);
    rows.push_back(
        {ceiling.name, std::to_string(ceiling.threads), value, std::to_string(ceiling.samples.size()), ceiling.method});
  }
  fmt::print("{}", table({"ceiling", "threads", "value", "samples", "method"}, rows));
  return kSuccess;
}

}  // namespace

void define_ceilings(Command root) {
  auto threads = std::make_shared<std::int64_t>(1);
  root.subcommand("ceilings", "Measure the arithmetic and memory limits of this machine")
      .option("--threads", *threads, "CPU threads")
      .example("ridge ceilings --threads 2", "peak FMA rate per type, copy, read and triad bandwidth")
      .action([threads] { return ceilings(*threads); });
}

}  // namespace ridge::cli
