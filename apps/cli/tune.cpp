// ridge tune: measures which implementation is fastest for each bucket of cases, and keeps that for dispatch.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "base/error.h"
#include "execute/make_executor.h"
#include "record/json.h"
#include "record/tuned_folder.h"
#include "say.h"
#include "service/tune.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

using service::is_disturbed;

struct TuneOptions {
  service::TuneRequest request;
  std::string devices;  // short for a place
  bool forget = false;
};

void print(const std::vector<record::TunedChoice>& choices) {
  std::vector<std::vector<std::string>> rows;
  for (const record::TunedChoice& one : choices) {
    std::string fastest = one.implementation.empty() ? "-" : one.implementation;
    if (!one.configuration.empty()) fastest += "/" + one.configuration;
    rows.push_back({one.bucket.label(), fastest, one.latency > 0 ? fmt::format("{:.1f}", 1e6 * one.latency) : "",
                    fastest == one.over || one.over.empty() ? "" : fmt::format("{:.3f} x {}", one.ratio, one.over),
                    fmt::format("{}", fmt::join(one.refused, "; ")), one.disturbed});
  }
  say("{}", table({"bucket", "fastest", "us", "against the default", "refused", "disturbed"}, rows));
}

int forget(const Context& context) {
  const Result<int> removed = service::forget_tuned(context);
  if (!removed) return fail(removed.error());
  return answer(fmt::format("{} table{} forgotten in {}; dispatch goes by what ships and by its own order.", *removed,
                            *removed == 1 ? "" : "s", record::tuned_folder(context.cache_directory.string()).string()));
}

// Where the lines are, and for which machines.
void say_where_kept(const Context& context, const std::vector<record::TunedChoice>& choices, const std::string& place) {
  const auto folder = record::tuned_folder(context.cache_directory);
  const auto measured = std::ranges::find_if(choices, [](const auto& one) { return !one.device.empty(); });
  if (execute::is_local(place) || measured == choices.end()) {
    say("Kept in {}; dispatch prefers them from the next process on.\n", folder.string());
    return;
  }
  say("Kept in {}: the table of {}, measured on {}. On such a device dispatch prefers them from the next process on.\n",
      (folder / record::tuned_file_name(measured->device)).string(), measured->device, place);
}

Result<service::TuneRequest> request_of(const TuneOptions& options) {
  service::TuneRequest request = options.request;
  if (options.devices.empty()) return request;
  if (!request.measure_on.empty()) {
    return with_hint(invalid("--devices {} and --measure-on {} both say where", options.devices, request.measure_on),
                     "leave one out");
  }
  request.measure_on = "local:" + options.devices;
  return request;
}

int tune(const Context& context, const TuneOptions& options) {
  if (options.forget) return forget(context);
  const Result<service::TuneRequest> request = request_of(options);
  if (!request) return fail(request.error());
  const bool keep_disturbed = request->keep_disturbed;
  const Result<std::vector<record::TunedChoice>> tuned = service::tune(context, *request);
  if (!tuned) return fail(tuned.error());
  const std::vector<record::TunedChoice>& choices = *tuned;
  if (globals().json) {
    say("{}\n", record::to_pretty(choices));
  } else {
    print(choices);
    const auto disturbed = std::count_if(choices.begin(), choices.end(), is_disturbed);
    if (disturbed > 0 && !keep_disturbed) {
      say("{} of {} not kept: others used the machine while they were measured. Tune again when it is quiet, or "
          "keep them with --keep-disturbed.\n",
          disturbed, choices.size());
    }
    if (disturbed < std::ssize(choices) || keep_disturbed) say_where_kept(context, choices, request->measure_on);
  }
  const auto failed = [&](const record::TunedChoice& one) {
    return one.implementation.empty() || (is_disturbed(one) && !keep_disturbed);
  };
  return choices.empty() || std::any_of(choices.begin(), choices.end(), failed) ? kNo : kSuccess;
}

}  // namespace

void define_tune(Command root) {
  auto options = std::make_shared<TuneOptions>();
  Command command =
      root.subcommand("tune", "Find the fastest implementation for each bucket of cases, and keep it for dispatch");
  command
      .positional("operator", options->request.op, "Operator, for instance gemm; \"all\": those that the file names",
                  false)
      .positional("case", options->request.words, "Shapes; without any, and without --shapes, the operator's own",
                  false)
      .option("--on cpu|cuda", options->request.backend, "Backend: cpu or cuda")
      .option("--measure-on PLACE", options->request.measure_on,
              "Where: local, local:GPU[,GPU...], slurm[:OPTION=VALUE,...] or ssh:HOST[,HOST...]; several devices, "
              "which must be alike, share the work (docs/cluster.md)")
      .option("--devices LIST", options->devices, "Short for --measure-on local:LIST, for instance 0,1")
      .option("--shapes FILE", options->request.shapes,
              "A file with cases, a line each, that may begin with their operator: data/shapes/training.txt")
      .option("--time-limit TIME", options->request.limit,
              "For all cases together; what is left out is tuned by the next call")
      .option("--threads", options->request.threads, "CPU threads of one call")
      .option("--seed", options->request.seed,
              "Of the order in which contenders take turns (default: another each time)")
      .option("--ship FILE", options->request.ship,
              "Also write the lines to this file, for data/tuned or RIDGE_TUNED_DIR")
      .flag("--again", options->request.again, "Measure what the table knows already, too")
      .flag("--keep-disturbed", options->request.keep_disturbed,
            "Keep, and mark, what was measured while others used the processors")
      .flag("--forget", options->forget, "Remove the tables that earlier calls kept")
      .example("ridge tune gemm m=512,2048 n=1024 k=1024", "two buckets on this processor")
      .example("ridge tune gemm --on cuda --shapes data/shapes/dense.txt dtype=bf16 layout=nt",
               "the shapes of a file on the GPU, the configurations of our kernels among the contenders")
      .example("ridge tune all --on cuda --devices 0,1,2,3 --shapes data/shapes/training.txt",
               "four GPUs of one kind share the work and the table")
      .example("ridge tune all --on cuda --measure-on slurm:gres=gpu:1,jobs=8 --shapes data/shapes/training.txt",
               "eight jobs of Slurm at once, each with a GPU; the table comes here, too")
      .example("ridge tune gemm m=512 n=512 k=512 --measure-on ssh:node1,node2",
               "on the processors of two other machines of one kind")
      .example("ridge tune all --on cuda --shapes data/shapes/training.txt --ship data/tuned/nvidia-h200.jsonl",
               "a table that ships")
      .exits({{kNo, "a bucket has no implementation that works, or there was none to tune"},
              kUnavailable,
              kSystem,
              kInterrupted})
      .json("a list with the choice for each bucket, as in the tuned table; with --forget, a message")
      .action([options](const Context& context) { return tune(context, *options); });
  define_tune_replay(command);
  define_tune_store(command);
}

}  // namespace ridge::cli
