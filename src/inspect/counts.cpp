#include "inspect/counts.h"

#include <fmt/format.h>

#include <unordered_map>

#include "inspect/opcodes.h"

namespace ridge::inspect {
namespace {

std::string place(const Instruction& instruction, std::size_t index) {
  return instruction.address != 0 || index == 0 ? fmt::format("0x{:x}", instruction.address)
                                                : fmt::format("#{}", index);
}

}  // namespace

record::InstructionCounts count(Isa isa, const Function& function, std::size_t first, std::size_t last) {
  record::InstructionCounts counts;
  std::unordered_map<std::string_view, std::int64_t> classes;
  for (std::size_t i = first; i <= last && i < function.code.size(); ++i) {
    const OpcodeClass what = classify(isa, function.code[i]);
    ++counts.instructions;
    ++classes[what.name];
    if (what.width_bits > 0) ++counts.widths[fmt::format("{} {}", what.name, what.width_bits)];
  }
  for (const auto& [name, number] : classes) counts.classes[std::string(name)] = number;
  if (const auto unknown = classes.find("unknown"); unknown != classes.end()) counts.unknown = unknown->second;
  return counts;
}

void count_kernel(Isa isa, const Function& function, record::KernelInspection& kernel) {
  kernel.has_listing = true;
  if (function.code.empty()) return;
  kernel.counts = count(isa, function, 0, function.code.size() - 1);
  std::unordered_map<std::string_view, std::int64_t> opcodes;
  for (const Instruction& instruction : function.code) ++opcodes[instruction.opcode];
  for (const auto& [name, number] : opcodes) kernel.opcodes[std::string(name)] = number;
  for (const Loop& loop : find_loops(function)) {
    record::LoopCounts counts;
    counts.first = place(function.code[loop.first], loop.first);
    counts.last = place(function.code[loop.last], loop.last);
    counts.depth = loop.depth;
    counts.counts = count(isa, function, loop.first, loop.last);
    kernel.loops.push_back(std::move(counts));
  }
}

}  // namespace ridge::inspect
