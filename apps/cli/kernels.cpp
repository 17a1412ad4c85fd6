// ridge kernels: packs of kernels compiled ahead of time, so that a first call on a GPU compiles nothing.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "campaign_run.h"
#include "record/json.h"
#include "record/kernel_pack.h"
#include "record/kernel_target.h"
#include "say.h"
#include "shape_file.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTargetHere = "auto";  // of the GPU here, else sm_90a

struct PackOptions {
  std::string op = std::string(kAllOperators), shapes, pack, targets = kTargetHere;
  std::vector<std::string> words;
  std::int64_t configurations = 1;
};

fs::path default_pack() { return fs::path(cache_directory()) / "packs" / "kernels.pack"; }

std::string pack_of(const PackOptions& options) {
  return options.pack.empty() ? default_pack().string() : options.pack;
}

double mebibytes(const record::KernelPack& pack) {
  double bytes = 0;
  for (const record::PackedKernel& kernel : pack.kernels) bytes += static_cast<double>(kernel.bytes);
  return bytes / 0x1p20;
}

void print_summary(const std::string& path, const record::KernelPack& pack) {
  say("{}: {} kernels for {}, {:.1f} MiB, compiled with {}\n", path, pack.kernels.size(), pack.header.arch,
      mebibytes(pack), pack.header.compiler);
}

// The file of one architecture of several, or of one that was named: "mine-sm_90a.pack".
std::string pack_for(const PackOptions& options, const std::string& target, std::size_t targets) {
  if (target.empty() || (targets == 1 && !options.pack.empty())) return pack_of(options);
  const fs::path whole = pack_of(options);
  return (whole.parent_path() / fmt::format("{}-{}{}", whole.stem().string(), target, whole.extension().string()))
      .string();
}

Result<record::KernelPack> build_one(record::WorkerRequest request, const std::string& target) {
  if (!target.empty()) request.backend = target;
  RIDGE_TRY(response, ask_worker(std::move(request)));
  return std::move(*response.pack);
}

int build(const PackOptions& options) {
  std::vector<std::string> targets;
  if (options.targets != kTargetHere) {
    const auto parsed = record::parse_kernel_targets(options.targets);
    if (!parsed) return fail(in_context("--arch", parsed.error()));
    targets = *parsed;
  }
  std::string shapes = options.shapes;
  if (shapes.empty() && options.words.empty() && options.op == kAllOperators) {
    shapes = (data_directory() / "shapes" / "kernels.txt").string();
  }
  const auto asked = asked_cases(options.op, options.words, shapes);
  if (!asked) return fail(asked.error());
  record::WorkerRequest request;
  request.task = record::WorkerTask::kKernels;
  request.configurations = options.configurations;
  for (const AskedCases& one : *asked) request.cases.insert(request.cases.end(), one.cases.begin(), one.cases.end());
  const double start = SystemClock().monotonic();
  std::vector<record::KernelPack> packs;
  for (const std::string& target : targets.empty() ? std::vector<std::string>{""} : targets) {
    request.pack = pack_for(options, target, targets.size());
    auto pack = build_one(request, target);
    if (!pack) return fail(pack.error());
    if (!globals().json) print_summary(request.pack, *pack);
    packs.push_back(std::move(*pack));
  }
  if (globals().json) {
    say("{}\n", targets.empty() ? record::to_pretty(packs.front()) : record::to_pretty(packs));
    return kSuccess;
  }
  say("Made in {}. A first call takes its kernel from {}, and from files and folders in RIDGE_KERNEL_PACKS.\n",
      format_duration(SystemClock().monotonic() - start), default_pack().parent_path().string());
  return kSuccess;
}

int list(const PackOptions& options) {
  const std::string path = pack_of(options);
  const auto head = record::read_pack_head(path);
  if (!head) return fail(head.error());
  const auto pack = record::parse_pack(*head, path);
  if (!pack) return fail(pack.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(*pack));
    return kSuccess;
  }
  print_summary(path, *pack);
  std::vector<std::vector<std::string>> rows;
  for (const record::PackedKernel& kernel : pack->kernels) {
    std::string defines;
    for (const std::string& define : kernel.defines) {
      const std::string_view prefix = "RIDGE_";
      defines += (defines.empty() ? "" : " ") + (define.starts_with(prefix) ? define.substr(prefix.size()) : define);
    }
    rows.push_back({kernel.key.substr(0, 12), fmt::format("{}", kernel.bytes), kernel.source, defines});
  }
  say("{}", table({"key", "bytes", "source", "defines"}, rows));
  return kSuccess;
}

int verify(const PackOptions& options) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kKernels;
  request.pack = pack_of(options);
  const std::string path = request.pack;
  const Result<record::WorkerResponse> response = ask_worker(std::move(request));
  if (!response) return fail(response.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(response->pack_problems));
  } else {
    print_summary(path, *response->pack);
    for (const std::string& problem : response->pack_problems) say("  {}\n", problem);
    if (response->pack_problems.empty()) say("  every kernel has its digest and is what this library asks for\n");
  }
  return response->pack_problems.empty() ? kSuccess : kNo;
}

}  // namespace

void define_kernels(Command root) {
  Command kernels = root.subcommand("kernels", "Packs of GPU kernels compiled ahead of time");
  auto options = std::make_shared<PackOptions>();
  kernels.subcommand("build", "Compile what calls of these cases need into a pack; needs a compiler and no GPU")
      .positional("operator", options->op, "Operator, or \"all\" (the default): those that the file of shapes names",
                  false)
      .positional("case", options->words, "Cases; without any, and without --shapes, data/shapes/kernels.txt", false)
      .option("--shapes FILE", options->shapes, "A file with cases, a line each, that may begin with their operator")
      .option("--configurations", options->configurations,
              "Of each implementation that has several, the first so many by expected time (ridge tune compares 6)")
      .option("--arch LIST", options->targets,
              "Architectures, a pack for each: sm_89, sm_90a, sm_100a, ...; auto is the GPU here, else sm_90a")
      .option("--out FILE", options->pack,
              "The pack (default: packs/kernels.pack in the cache); with --arch, of several, FILE-sm_90a and so on")
      .example("ridge kernels build quantize rows=4096 cols=4096 --arch sm_90a,sm_100a --out q.pack",
               "q-sm_90a.pack and q-sm_100a.pack; needs no GPU")
      .example("ridge kernels build", "the kernels of training: bf16, fp16 and FP8 products, quantisers")
      .example("ridge kernels build gemm m=4096 n=4096 k=4096 dtype=bf16 layout=nt,nn,tn --out mine.pack",
               "three layouts of one product")
      .example("ridge kernels build all --shapes data/shapes/training.txt --configurations 6",
               "everything that ridge tune compares on these shapes")
      .exits({kUnavailable, kSystem, kInterrupted})
      .json("the head of the pack and its kernels; with --arch a list of them")
      .action([options] { return build(*options); });
  kernels.subcommand("list", "What a pack holds")
      .positional("pack", options->pack, "The pack (default: packs/kernels.pack in the cache)", false)
      .example("ridge kernels list mine.pack", "each kernel with its source and defines")
      .exits({kSystem})
      .json("the head of the pack and its kernels")
      .action([options] { return list(*options); });
  kernels.subcommand("verify", "Whether every kernel of a pack has its digest and is what this library would compile")
      .positional("pack", options->pack, "The pack (default: packs/kernels.pack in the cache)", false)
      .example("ridge kernels verify mine.pack", "exit code 1 when a kernel is damaged or from other sources")
      .exits({{kNo, "a kernel is damaged or from other sources"}, kUnavailable, kSystem, kInterrupted})
      .json("a list of what is wrong; empty when nothing is")
      .action([options] { return verify(*options); });
}

}  // namespace ridge::cli
