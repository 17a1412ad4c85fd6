// ridge inspect: what machine code says about a kernel, without running it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "campaign_run.h"
#include "hardware/spec.h"
#include "inspect/inspect.h"
#include "inspect/shipped.h"
#include "record/inspection.h"
#include "record/json.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct InspectOptions {
  std::string file, other, kernel, product;
  std::int64_t threads = 0, dynamic_shared = 0, top = 12;
  bool expect_matrix = false, no_listing = false, assembly = false;
};

std::string resource_line(const record::KernelResources& r) {
  std::string text;
  const auto add = [&](const std::optional<std::int64_t>& value, const char* what) {
    if (value) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", *value, what);
  };
  add(r.registers, "registers");
  add(r.accumulation_registers, "of them accumulation");
  add(r.scalar_registers, "scalar registers");
  add(r.shared_bytes, "B shared");
  add(r.stack_bytes, "B stack");
  add(r.spill_store_bytes, "B spill stores");
  add(r.spill_load_bytes, "B spill loads");
  add(r.spilled_registers, "spilled registers");
  add(r.barriers, "barriers");
  add(r.max_threads, "threads at most");
  add(r.code_bytes, "B code");
  return text;
}

std::string pairs(const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, number] : sorted) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, number);
  return text;
}

void print_listing(const record::KernelInspection& kernel, std::int64_t top) {
  say("  {} instructions: {}\n", kernel.counts.instructions, pairs(kernel.counts.classes));
  if (!kernel.counts.widths.empty()) say("  accesses by bits per lane: {}\n", pairs(kernel.counts.widths));
  std::vector<std::pair<std::string, std::int64_t>> opcodes(kernel.opcodes.begin(), kernel.opcodes.end());
  std::stable_sort(opcodes.begin(), opcodes.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (std::size_t i = 0; i < opcodes.size() && i < static_cast<std::size_t>(std::max<std::int64_t>(top, 0)); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", opcodes[i].first, opcodes[i].second);
  }
  if (!text.empty()) say("  most frequent: {}\n", text);
  for (const record::LoopCounts& loop : kernel.loops) {
    say("  loop {} to {}{}: {}\n", loop.first, loop.last, loop.depth > 1 ? fmt::format(", depth {}", loop.depth) : "",
        pairs(loop.counts.classes));
  }
}

// Instructions with their classes beside them; a bar for each loop around one.
void print_assembly(const std::vector<record::AssemblyLine>& assembly) {
  std::size_t places = 0, widest = 0;
  for (const record::AssemblyLine& line : assembly) {
    places = std::max(places, line.at.size());
    widest = std::max(widest, std::min<std::size_t>(line.text.size() + 2 * static_cast<std::size_t>(line.loops), 80));
  }
  for (const record::AssemblyLine& line : assembly) {
    for (const std::string& label : line.labels) say("  {}:\n", label);
    std::string bars;
    for (std::int64_t i = 0; i < line.loops; ++i) bars += "| ";
    say("  {:>{}}  {:<{}}  {}{}\n", line.at, places, bars + line.text, widest, line.kind,
        line.width_bits > 0 ? fmt::format(" {}", line.width_bits) : "");
  }
}

void print_kernel(const record::KernelInspection& kernel, std::int64_t top) {
  say("{}\n", kernel.name.empty() ? "(unnamed)" : kernel.name);
  if (const std::string line = resource_line(kernel.resources); !line.empty()) say("  {}\n", line);
  if (kernel.occupancy) {
    const record::OccupancyEstimate& o = *kernel.occupancy;
    say("  {}: {} blocks of {} threads on a unit, {} of {} warps ({:.0f} %), limited by {}\n", o.product,
        o.blocks_per_unit, o.threads_per_block, o.warps_per_unit, o.max_warps_per_unit, 100 * o.fraction, o.limiter);
    if (!o.lift.empty()) say("    {}\n", o.lift);
  }
  if (kernel.has_listing) print_listing(kernel, top);
  for (const record::InspectionVerdict& v : kernel.verdicts) say("  {}: {}: {}\n", v.severity, v.subject, v.message);
  if (kernel.assembly) print_assembly(*kernel.assembly);
}

int print(const std::vector<record::Inspection>& inspections, std::int64_t top) {
  bool bad = false;
  for (const record::Inspection& inspection : inspections) {
    for (const record::KernelInspection& kernel : inspection.kernels) {
      bad |= std::any_of(kernel.verdicts.begin(), kernel.verdicts.end(),
                         [](const auto& v) { return v.severity == "bad"; });
    }
  }
  if (globals().json) {
    say("{}\n", record::to_pretty(inspections));
    return bad ? kNo : kSuccess;
  }
  for (const record::Inspection& inspection : inspections) {
    say("{}: {}, {}{}\n", inspection.file, inspection.format, inspection.isa,
        inspection.target.empty() ? "" : " " + inspection.target);
    for (const std::string& note : inspection.notes) say("  note: {}\n", note);
    for (const record::KernelInspection& kernel : inspection.kernels) print_kernel(kernel, top);
  }
  return bad ? kNo : kSuccess;
}

int print_difference(const record::Inspection& left, const record::Inspection& right) {
  const std::vector<record::InstructionDifference> differences = inspect::difference(left, right);
  if (globals().json) {
    say("{}\n", record::to_pretty(differences));
    return kSuccess;
  }
  std::vector<std::vector<std::string>> rows;
  for (const record::InstructionDifference& d : differences) {
    rows.push_back(
        {d.kernel, d.what, std::to_string(d.left), std::to_string(d.right), fmt::format("{:+}", d.right - d.left)});
  }
  if (rows.empty()) {
    say("no difference in instructions or resources\n");
  } else {
    say("{}", table({"kernel", "what", "left", "right", "change"}, rows));
  }
  return kSuccess;
}

// A file; or, where there is none, a shipped kernel that is built for this.
Result<std::vector<record::Inspection>> look_at(const std::string& what, const inspect::Options& options) {
  std::error_code ignored;
  if (std::filesystem::exists(what, ignored) || !inspect::names_shipped_kernel(what))
    return inspect::inspect_file(what, options);
  RIDGE_TRY(built, inspect::build_shipped(RIDGE_SOURCE_DIR "/src", RIDGE_KERNEL_BUILDS, what, cache_directory()));
  RIDGE_TRY(inspections, inspect::inspect_bytes(built.cubin, built.name, options));
  for (record::Inspection& one : inspections) one.notes.push_back("built with " + built.compiler);
  return inspections;
}

int run_inspect(const InspectOptions& o) {
  inspect::Options options;
  options.kernel = o.kernel;
  options.threads_per_block = o.threads;
  options.dynamic_shared_bytes = o.dynamic_shared;
  options.expect_matrix = o.expect_matrix;
  options.listing = !o.no_listing;
  options.assembly = o.assembly;
  if (o.assembly && (o.no_listing || !o.other.empty()))
    return fail(invalid("--assembly and {}: name one", o.no_listing ? "--no-listing" : "--diff"));
  std::optional<hardware::Spec> product;
  if (!o.product.empty()) {
    const Result<hardware::Database> database = hardware::Database::open(data_directory());
    if (!database) return fail(database.error());
    const Result<const hardware::Spec*> spec = database->find(o.product);
    if (!spec) return fail(spec.error());
    product = **spec;
    options.product = &*product;
  }
  const Result<std::vector<record::Inspection>> left = look_at(o.file, options);
  if (!left) return fail(left.error());
  if (o.other.empty()) return print(*left, o.top);
  const Result<std::vector<record::Inspection>> right = look_at(o.other, options);
  if (!right) return fail(right.error());
  if (left->size() != 1 || right->size() != 1) {
    return fail(invalid("--diff compares single images; these files hold {} and {}", left->size(), right->size()));
  }
  return print_difference(left->front(), right->front());
}

}  // namespace

void define_inspect(Command root) {
  auto o = std::make_shared<InspectOptions>();
  root.subcommand("inspect", "Registers, spills, occupancy and instructions of compiled kernels, without a GPU")
      .positional(
          "file", o->file,
          "cubin, fat binary, program, AMD code object, object file, listing of SASS, PTX, AMDGCN or x86, or a shipped "
          "kernel: matmul/cuda_wgmma")
      .option("--kernel NAME", o->kernel, "Only kernels whose name contains this")
      .option("--on PRODUCT", o->product, "Occupancy on this product of ridge spec list")
      .option("--threads", o->threads, "Threads of a block; by default what the kernel declares")
      .option("--dynamic-shared", o->dynamic_shared, "Bytes of dynamic shared memory of a block")
      .option("--diff FILE", o->other, "Another file: in which instructions and resources the two differ")
      .option("--top", o->top, "How many of the most frequent opcodes to print")
      .flag("--expect-matrix", o->expect_matrix, "It is a failure when no matrix instruction is used")
      .flag("--assembly", o->assembly, "Print every instruction with its class and the loops around it")
      .flag("--no-listing", o->no_listing, "Resources only: needs no disassembler")
      .example("ridge inspect kernel.cubin --on H200 --threads 256",
               "resources, occupancy with its limiter, instructions by class and loop")
      .example("ridge inspect kernel.cubin --diff other.cubin", "what a change did to the code")
      .example("ridge inspect matmul/cuda_wgmma --on H200", "a shipped kernel, compiled for this; no GPU is needed")
      .example("ridge inspect matmul/cuda_wgmma:pp_128x192/nt_bf16 --diff matmul/cuda_wgmma", "two of its builds")
      .example("ridge inspect kernel.cubin --kernel gemm --assembly",
               "its machine code, each instruction with its class")
      .example("ridge inspect kernel.o --expect-matrix --json", "as a gate: exit code 1 on spills or a wrong path")
      .exits({{kNo, "a kernel spills or takes a wrong path"}, kUnavailable, kSystem})
      .json(
          "a list of images with each kernel's resources, occupancy, counts and verdicts; with --diff, the differences")
      .action([o] { return run_inspect(*o); });
}

}  // namespace ridge::cli
