// ridge kernels: packs of kernels compiled ahead of time, so that a first call on a GPU compiles nothing.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "base/clock.h"
#include "record/kernel_pack.h"
#include "say.h"
#include "service/packs.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

double mebibytes(const record::KernelPack& pack) {
  double bytes = 0;
  for (const record::PackedKernel& kernel : pack.kernels) bytes += static_cast<double>(kernel.bytes);
  return bytes / 0x1p20;
}

void print_summary(const std::string& path, const record::KernelPack& pack) {
  say("{}: {} kernels for {}, {:.1f} MiB, compiled with {}\n", path, pack.kernels.size(), pack.header.arch,
      mebibytes(pack), pack.header.compiler);
}

int build(const Context& context, const service::PackRequest& request) {
  const double start = SystemClock().monotonic();
  const auto packs = service::build_packs(context, request, [](const service::BuiltPack& one) {
    if (!globals().json) print_summary(one.path, one.pack);
  });
  if (!packs) return fail(packs.error());
  if (globals().json) {
    if (request.targets == service::PackRequest().targets) return print_json(packs->front().pack);
    std::vector<record::KernelPack> all;
    for (const service::BuiltPack& one : *packs) all.push_back(one.pack);
    return print_json(all);
  }
  say("Made in {}. A first call takes its kernel from {}, and from files and folders in RIDGE_KERNEL_PACKS.\n",
      format_duration(SystemClock().monotonic() - start), service::default_pack(context).parent_path().string());
  return kSuccess;
}

int list(const Context& context, const service::PackRequest& request) {
  const auto read = service::read_pack(context, request.pack);
  if (!read) return fail(read.error());
  if (globals().json) return print_json(read->pack);
  print_summary(read->path, read->pack);
  std::vector<std::vector<std::string>> rows;
  for (const record::PackedKernel& kernel : read->pack.kernels) {
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

int verify(const Context& context, const service::PackRequest& request) {
  const auto checked = service::verify_pack(context, request.pack);
  if (!checked) return fail(checked.error());
  const int code = checked->problems.empty() ? kSuccess : kNo;
  if (globals().json) return print_json(checked->problems, code);
  print_summary(checked->built.path, checked->built.pack);
  for (const std::string& problem : checked->problems) say("  {}\n", problem);
  if (code == kSuccess) say("  every kernel has its digest and is what this library asks for\n");
  return code;
}

}  // namespace

void define_kernels(Command root) {
  Command kernels = root.subcommand("kernels", "Packs of GPU kernels compiled ahead of time");
  auto options = std::make_shared<service::PackRequest>();
  kernels.subcommand("build", "Compile what calls of these cases need into a pack; needs a compiler and no GPU")
      .positional("operator", options->op, "Operator, or \"all\" (the default): those that the file of shapes names",
                  false)
      .positional("case", options->words, "Cases; without any, and without --shapes, data/shapes/kernels.txt", false)
      .option("--shapes FILE", options->shapes, "A file with cases, a line each, that may begin with their operator")
      .option(
          "--configurations", options->configurations,
          "Of each implementation that has several, the first so many by expected time (ridge tune looks at 8 at most)")
      .option("--arch LIST", options->targets,
              "Architectures, a pack for each: sm_89, sm_90a, sm_100a, ...; auto is the GPU here, else sm_90a")
      .option("--out FILE", options->pack,
              "The pack (default: packs/kernels.pack in the cache); with --arch, of several, FILE-sm_90a and so on")
      .example("ridge kernels build quantize rows=4096 cols=4096 --arch sm_90a,sm_100a --out q.pack",
               "q-sm_90a.pack and q-sm_100a.pack; needs no GPU")
      .example("ridge kernels build", "the kernels of training: bf16, fp16 and FP8 products, quantisers")
      .example("ridge kernels build gemm m=4096 n=4096 k=4096 dtype=bf16 layout=nt,nn,tn --out mine.pack",
               "three layouts of one product")
      .example("ridge kernels build all --shapes data/shapes/training.txt --configurations 30",
               "everything that ridge tune compares on these shapes")
      .exits({kUnavailable, kSystem, kInterrupted})
      .json("the head of the pack and its kernels; with --arch a list of them")
      .action([options](const Context& context) { return build(context, *options); });
  kernels.subcommand("list", "What a pack holds")
      .positional("pack", options->pack, "The pack (default: packs/kernels.pack in the cache)", false)
      .example("ridge kernels list mine.pack", "each kernel with its source and defines")
      .exits({kSystem})
      .json("the head of the pack and its kernels")
      .action([options](const Context& context) { return list(context, *options); });
  kernels.subcommand("verify", "Whether every kernel of a pack has its digest and is what this library would compile")
      .positional("pack", options->pack, "The pack (default: packs/kernels.pack in the cache)", false)
      .example("ridge kernels verify mine.pack", "exit code 1 when a kernel is damaged or from other sources")
      .exits({{kNo, "a kernel is damaged or from other sources"}, kUnavailable, kSystem, kInterrupted})
      .json("a list of what is wrong; empty when nothing is")
      .action([options](const Context& context) { return verify(context, *options); });
}

}  // namespace ridge::cli
