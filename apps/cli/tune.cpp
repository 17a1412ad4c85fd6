// ridge tune: measures which implementation is fastest for each bucket of cases, and keeps that for dispatch.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "record/backend.h"
#include "record/json.h"
#include "record/tuned_folder.h"
#include "say.h"
#include "shape_file.h"
#include "subcommands.h"
#include "tune_replay.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct TuneOptions {
  std::string op, backend = "cpu", shapes, limit, ship;
  std::vector<std::string> words;
  std::int64_t threads = 1;
  std::optional<std::int64_t> seed;
  bool again = false, keep_disturbed = false, forget = false;
};

Result<record::WorkerRequest> request_of(const TuneOptions& options, AskedCases asked) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kTune;
  request.backend = options.backend;
  request.protocol.threads = options.threads;
  request.again = options.again;
  request.seed = options.seed;
  request.keep_disturbed = options.keep_disturbed;
  request.cases = std::move(asked.cases);
  const auto known = record::find_measured(options.backend, "tables for");
  if (!known) return known.error();
  return request;
}

// All operators after each other, each with a share of the time that is left by its number of cases.
Result<std::vector<record::TunedChoice>> tune_all(const TuneOptions& options) {
  RIDGE_TRY(all, asked_cases(options.op, options.words, options.shapes));
  double limit = 0;
  if (!options.limit.empty()) {
    RIDGE_TRY(seconds, parse_duration(options.limit));
    limit = seconds;
  }
  std::vector<record::WorkerRequest> requests;
  std::size_t waiting = 0;
  for (AskedCases& one : all) {
    RIDGE_TRY(request, request_of(options, std::move(one)));
    waiting += request.cases.size();
    requests.push_back(std::move(request));
  }
  SystemClock clock;
  const double start = clock.monotonic();
  std::vector<record::TunedChoice> choices;
  for (record::WorkerRequest& request : requests) {
    const auto cases = static_cast<double>(request.cases.size());
    if (limit > 0) {
      const double left = std::max(limit - (clock.monotonic() - start), 0.1);
      request.time_limit = left * cases / static_cast<double>(waiting);
    }
    waiting -= request.cases.size();
    RIDGE_TRY(response, ask_worker(std::move(request)));
    choices.insert(choices.end(), response.tuned.begin(), response.tuned.end());
  }
  return choices;
}

Status write_table(const std::string& path, const std::vector<record::TunedChoice>& choices, bool keep_disturbed) {
  std::string text;
  for (const record::TunedChoice& one : choices) {
    if (!one.implementation.empty() && (one.disturbed.empty() || keep_disturbed)) text += record::tuned_line(one);
  }
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) RIDGE_CHECK_OK(make_directories(folder));
  return write_file_durably(path, text);
}

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

// Removes what earlier calls kept: the tables of all devices in the cache folder. What ships stays.
int forget() {
  const Result<int> removed = record::remove_tuned(cache_directory());
  if (!removed) return fail(removed.error());
  return answer(fmt::format("{} table{} forgotten in {}; dispatch goes by what ships and by its own order.", *removed,
                            *removed == 1 ? "" : "s", record::tuned_folder(cache_directory()).string()));
}

bool is_disturbed(const record::TunedChoice& one) { return !one.disturbed.empty(); }

int tune(const TuneOptions& options) {
  if (options.forget) return forget();
  if (options.op.empty()) return fail(with_hint(invalid("no operator"), "name one, for instance gemm, or \"all\""));
  const Result<std::vector<record::TunedChoice>> tuned = tune_all(options);
  if (!tuned) return fail(tuned.error());
  const std::vector<record::TunedChoice>& choices = *tuned;
  if (!options.ship.empty()) {
    if (const Status written = write_table(options.ship, choices, options.keep_disturbed); !written)
      return fail(written.error());
  }
  if (globals().json) {
    say("{}\n", record::to_pretty(choices));
  } else {
    print(choices);
    const auto disturbed = std::count_if(choices.begin(), choices.end(), is_disturbed);
    if (disturbed > 0 && !options.keep_disturbed) {
      say("{} of {} not kept: others used the machine while they were measured. Tune again when it is quiet, or "
          "keep them with --keep-disturbed.\n",
          disturbed, choices.size());
    }
    if (disturbed < std::ssize(choices) || options.keep_disturbed) {
      say("Kept in {}; dispatch prefers them from the next process on.\n", cache_directory() + "/tuned");
    }
  }
  const auto failed = [&](const record::TunedChoice& one) {
    return one.implementation.empty() || (is_disturbed(one) && !options.keep_disturbed);
  };
  return choices.empty() || std::any_of(choices.begin(), choices.end(), failed) ? kNo : kSuccess;
}

}  // namespace

void define_tune(Command root) {
  auto options = std::make_shared<TuneOptions>();
  Command command =
      root.subcommand("tune", "Find the fastest implementation for each bucket of cases, and keep it for dispatch");
  command.positional("operator", options->op, "Operator, for instance gemm; \"all\": those that the file names", false)
      .positional("case", options->words, "Shapes; without any, and without --shapes, the operator's own", false)
      .option("--on cpu|cuda", options->backend, "Backend: cpu or cuda")
      .option("--shapes FILE", options->shapes,
              "A file with cases, a line each, that may begin with their operator: data/shapes/training.txt")
      .option("--time-limit TIME", options->limit, "For all cases together; what is left out is tuned by the next call")
      .option("--threads", options->threads, "CPU threads of one call")
      .option("--seed", options->seed, "Of the order in which contenders take turns (default: another each time)")
      .option("--ship FILE", options->ship, "Also write the lines to this file, for data/tuned or RIDGE_TUNED_DIR")
      .flag("--again", options->again, "Measure what the table knows already, too")
      .flag("--keep-disturbed", options->keep_disturbed,
            "Keep, and mark, what was measured while others used the processors")
      .flag("--forget", options->forget, "Remove the tables that earlier calls kept")
      .example("ridge tune gemm m=512,2048 n=1024 k=1024", "two buckets on this processor")
      .example("ridge tune gemm --on cuda --shapes data/shapes/dense.txt dtype=bf16 layout=nt",
               "the shapes of a file on the GPU, the configurations of our kernels among the contenders")
      .example("ridge tune all --on cuda --shapes data/shapes/training.txt --ship data/tuned/nvidia-h200.jsonl",
               "a table that ships")
      .exits({{kNo, "a bucket has no implementation that works, or there was none to tune"},
              kUnavailable,
              kSystem,
              kInterrupted})
      .json("a list with the choice for each bucket, as in the tuned table; with --forget, a message")
      .action([options] { return tune(*options); });
  define_tune_replay(command);
}

}  // namespace ridge::cli
