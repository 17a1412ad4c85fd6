// ridge inspect: what machine code says about a kernel, without running it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "record/inspection.h"
#include "say.h"
#include "service/inspect_files.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct InspectOptions {
  service::InspectRequest request;
  std::string other;
  std::int64_t top = 12;
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
  const int code = service::has_bad_verdict(inspections) ? kNo : kSuccess;
  if (globals().json) return print_json(inspections, code);
  for (const record::Inspection& inspection : inspections) {
    say("{}: {}, {}{}\n", inspection.file, inspection.format, inspection.isa,
        inspection.target.empty() ? "" : " " + inspection.target);
    for (const std::string& note : inspection.notes) say("  note: {}\n", note);
    for (const record::KernelInspection& kernel : inspection.kernels) print_kernel(kernel, top);
  }
  return code;
}

int print_difference(const std::vector<record::InstructionDifference>& differences) {
  if (globals().json) return print_json(differences);
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

int run_inspect(const Context& context, const InspectOptions& o) {
  if (!o.other.empty()) {
    const auto differences = service::compare_files(context, o.request, o.other);
    return differences ? print_difference(*differences) : fail(differences.error());
  }
  const auto inspections = service::inspect_files(context, o.request);
  return inspections ? print(*inspections, o.top) : fail(inspections.error());
}

}  // namespace

void define_inspect(Command root) {
  auto o = std::make_shared<InspectOptions>();
  root.subcommand("inspect", "Registers, spills, occupancy and instructions of compiled kernels, without a GPU")
      .positional(
          "file", o->request.file,
          "cubin, fat binary, program, AMD code object, object file, listing of SASS, PTX, AMDGCN or x86, or a shipped "
          "kernel: matmul/cuda_wgmma")
      .option("--kernel NAME", o->request.kernel, "Only kernels whose name contains this")
      .option("--on PRODUCT", o->request.product, "Occupancy on this product of ridge spec list")
      .option("--threads", o->request.threads, "Threads of a block; by default what the kernel declares")
      .option("--dynamic-shared", o->request.dynamic_shared, "Bytes of dynamic shared memory of a block")
      .option("--diff FILE", o->other, "Another file: in which instructions and resources the two differ")
      .option("--top", o->top, "How many of the most frequent opcodes to print")
      .flag("--expect-matrix", o->request.expect_matrix, "It is a failure when no matrix instruction is used")
      .flag("--assembly", o->request.assembly, "Print every instruction with its class and the loops around it")
      .flag("--no-listing", o->request.no_listing, "Resources only: needs no disassembler")
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
      .action([o](const Context& context) { return run_inspect(context, *o); });
}

}  // namespace ridge::cli
