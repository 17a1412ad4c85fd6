// ridge unit: runs the units of work of a job of another machine's campaign here. Slurm's jobs and SSH start it.
#include <fmt/format.h>

#include <charconv>

#include "base/clock.h"
#include "base/error.h"
#include "context.h"
#include "execute/lease.h"
#include "execute/local.h"
#include "execute/quiet.h"
#include "execute/unit.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct UnitOptions {
  std::string root, batch, index, node;
};

// The worker of this machine, with its device to itself and, where the order asks for it, with quiet.
std::unique_ptr<execute::Executor> executor_for(const Context& context, const record::UnitOrder& order, Clock& clock) {
  const record::Protocol& protocol = order.request.protocol;
  return execute::make_leased_executor(
      execute::make_quiet_executor(execute::make_local_executor(context.worker_program), clock,
                                   {order.wait_for_quiet, protocol.max_steal, protocol.max_foreign_load}),
      execute::device_folder(context.cache_directory, order.request.backend), order.who);
}

int run_unit(const Context& context, const UnitOptions& options) {
  std::size_t index = 0;
  const char* const end = options.index.data() + options.index.size();
  const auto [stop, problem] = std::from_chars(options.index.data(), end, index);
  if (problem != std::errc() || stop != end) return fail(invalid("\"{}\" is no number of a job", options.index));
  SystemClock clock;
  const execute::UnitHost host{context.version,
                               context.cache_directory,
                               execute::this_place(options.node),
                               clock,
                               [&](const record::UnitOrder& order) { return executor_for(context, order, clock); },
                               [&] { return context.stopped(); }};
  const Status done = execute::run_job(options.root, options.batch, index, host);
  return done ? kSuccess : fail(done.error());
}

}  // namespace

void define_unit(Command root) {
  auto options = std::make_shared<UnitOptions>();
  root.subcommand("unit", "Run units of work for a campaign of another machine; Slurm and SSH start it")
      .positional("folder", options->root, "Folder of the units, shared or copied")
      .positional("batch", options->batch, "Name of the batch")
      .positional("number", options->index,
                  "Number of the job in it: of its unit, or one of those that share the units")
      .option("--node NAME", options->node, "What the scheduler calls this machine (default: its name)")
      .example("ridge unit ~/.cache/ridge/units/gemm_cpu_xeon_20260101 ridge-0f3c-1 0", "as a job of Slurm starts it")
      .exits({{kUnavailable, "the folder is not the one that the units were written to"},
              kSystem,
              {kHeld, "it was told to stop"},
              kInterrupted})
      .no_json("the result is written into the folder of the unit")
      .action([options](const Context& context) { return run_unit(context, *options); });
}

}  // namespace ridge::cli
