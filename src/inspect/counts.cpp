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

// Predicate, opcode and operands with one blank between words: PTX writes some over several lines.
std::string text_of(const Instruction& instruction) {
  std::string text;
  for (const std::string_view part : {instruction.predicate, instruction.opcode, instruction.operands}) {
    if (!text.empty() && !part.empty()) text += ' ';
    for (const char c : part) {
      const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
      if (!blank) text += c;
      if (blank && text.back() != ' ') text += ' ';
    }
  }
  return text;
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

std::vector<record::AssemblyLine> assembly_of(Isa isa, const Function& function) {
  std::vector<record::AssemblyLine> lines;
  for (std::size_t i = 0; i < function.code.size(); ++i) {
    const OpcodeClass what = classify(isa, function.code[i]);
    lines.push_back(
        {place(function.code[i], i), {}, text_of(function.code[i]), std::string(what.name), what.width_bits, 0});
  }
  for (const Label& label : function.labels) {
    if (label.index < lines.size()) lines[label.index].labels.emplace_back(label.name);
  }
  for (const Loop& loop : find_loops(function)) {
    for (std::size_t i = loop.first; i <= loop.last; ++i) ++lines[i].loops;
  }
  return lines;
}

}  // namespace ridge::inspect
