#include "inspect/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace ridge::inspect {
namespace {

std::int64_t number(const std::map<std::string, std::int64_t>& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

// The innermost loop with the most arithmetic: where the time goes, as far as text can tell.
const record::InstructionCounts& hot(const record::KernelInspection& kernel) {
  const record::InstructionCounts* best = &kernel.counts;
  std::int64_t most = 0;
  for (const record::LoopCounts& loop : kernel.loops) {
    const auto& c = loop.counts.classes;
    const std::int64_t work = 64 * number(c, "matrix") + number(c, "fma_f32") + number(c, "fma_f16") +
                              number(c, "fma_f64") + number(c, "fma_scalar") + number(c, "dot");
    if (loop.depth == 1 && work > most) best = &loop.counts, most = work;
  }
  return *best;
}

void matrix(const record::KernelInspection& kernel, bool gpu, bool expected,
            std::vector<record::InspectionVerdict>& out) {
  const std::int64_t matrix = number(kernel.counts.classes, "matrix"), dot = number(kernel.counts.classes, "dot");
  const std::int64_t lanes = number(kernel.counts.classes, "fma_f32") + number(kernel.counts.classes, "fma_f16") +
                             number(kernel.counts.classes, "fma_f64");
  const std::int64_t scalar = number(kernel.counts.classes, "fma_scalar");
  if (matrix > 0) {
    const std::int64_t in_loop = number(hot(kernel).classes, "matrix");
    out.push_back({"good", "matrix", fmt::format("{} matrix instructions, {} in the hottest loop", matrix, in_loop)});
  } else if (gpu && expected) {
    out.push_back(
        {"bad", "matrix", fmt::format("wrong path: no matrix instruction, {} fused multiply-adds on lanes", lanes)});
  } else if (!gpu && scalar > 0 && lanes + dot == 0) {
    out.push_back({"bad", "matrix",
                   fmt::format("scalar only: {} fused multiply-adds of single elements, none on vectors", scalar)});
  }
}

void spills(const record::KernelInspection& kernel, std::vector<record::InspectionVerdict>& out) {
  const record::KernelResources& r = kernel.resources;
  const std::int64_t bytes = r.spill_store_bytes.value_or(0) + r.spill_load_bytes.value_or(0);
  const std::int64_t accesses =
      number(kernel.counts.classes, "load_local") + number(kernel.counts.classes, "store_local");
  const std::int64_t in_loop = number(hot(kernel).classes, "load_local") + number(hot(kernel).classes, "store_local");
  if (bytes > 0) {
    out.push_back(
        {"bad", "spills",
         fmt::format("{} B of stores to and {} B of loads from local memory: spilled registers or a local array",
                     *r.spill_store_bytes, *r.spill_load_bytes)});
  } else if (r.spilled_registers.value_or(0) > 0) {
    out.push_back(
        {"bad", "spills",
         fmt::format("{} registers spilled, {} B of scratch", *r.spilled_registers, r.stack_bytes.value_or(0))});
  } else if (r.stack_bytes.value_or(0) > 0) {
    out.push_back({"note", "spills", fmt::format("{} B of stack per thread", *r.stack_bytes)});
  } else if (kernel.loops.empty() ? accesses > 0 : in_loop > 0) {
    out.push_back({"note", "spills",
                   fmt::format("{} vector accesses to the stack{}", kernel.loops.empty() ? accesses : in_loop,
                               kernel.loops.empty() ? "" : " in the hottest loop")});
  }
}

// Accesses to global memory narrower than 128 bits need more instructions for the same bytes.
void widths(const record::KernelInspection& kernel, const char* access, std::vector<record::InspectionVerdict>& out) {
  std::int64_t all = 0, wide = 0;
  std::string listed;
  for (const auto& [name, times] : kernel.counts.widths) {
    if (!name.starts_with(access)) continue;
    const std::string bits = name.substr(std::string(access).size() + 1);
    all += times;
    if (std::stoi(bits) >= 128) wide += times;
    listed += fmt::format("{}{} of {} bits", listed.empty() ? "" : ", ", times, bits);
  }
  if (all >= 4 && wide * 2 < all) {
    out.push_back({"note", "width",
                   fmt::format("{}: {}; {:.0f} % have 128 bits or more", access, listed,
                               100.0 * static_cast<double>(wide) / static_cast<double>(all))});
  }
}

}  // namespace

bool named_like_matrix_product(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* word : {"gemm", "matmul", "mma", "attention", "flash", "conv"}) {
    const std::size_t at = lower.find(word);
    if (at != std::string::npos && lower.compare(at, 7, "convert") != 0) return true;
  }
  return false;
}

std::vector<record::InspectionVerdict> verdicts(const record::KernelInspection& kernel, bool gpu, bool expect_matrix) {
  std::vector<record::InspectionVerdict> out;
  if (kernel.has_listing) matrix(kernel, gpu, expect_matrix || named_like_matrix_product(kernel.name), out);
  spills(kernel, out);
  if (kernel.has_listing && gpu) {
    widths(kernel, "load_global", out);
    widths(kernel, "store_global", out);
  }
  if (kernel.counts.unknown > 0) {
    out.push_back({"note", "opcodes",
                   fmt::format("{} of {} instructions are in no row of the opcode table", kernel.counts.unknown,
                               kernel.counts.instructions)});
  }
  if (kernel.occupancy && kernel.occupancy->fraction < 0.25 && !kernel.occupancy->lift.empty()) {
    out.push_back({"note", "occupancy",
                   fmt::format("{:.0f} % by {}; {}", 100 * kernel.occupancy->fraction, kernel.occupancy->limiter,
                               kernel.occupancy->lift)});
  }
  return out;
}

}  // namespace ridge::inspect
