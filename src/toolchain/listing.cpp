#include "toolchain/listing.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "base/text.h"

namespace ridge::toolchain {
namespace {

struct Instruction {
  std::uint64_t address = 0;
  std::string_view name, operands;
};

std::optional<std::uint64_t> hex(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (failure != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// "   1130:\tvfmadd231ps %zmm0,%zmm1,%zmm2   # comment"
std::optional<Instruction> parse_line(std::string_view line) {
  const std::size_t colon = line.find(":\t");
  if (colon == std::string_view::npos) return std::nullopt;
  const auto address = hex(trimmed(line.substr(0, colon)));
  if (!address) return std::nullopt;
  std::string_view text = trimmed(line.substr(colon + 2));
  if (const std::size_t comment = text.find('#'); comment != std::string_view::npos)
    text = trimmed(text.substr(0, comment));
  const std::size_t space = text.find_first_of(" \t");
  if (space == std::string_view::npos) return Instruction{*address, text, {}};
  return Instruction{*address, text.substr(0, space), trimmed(text.substr(space))};
}

bool is_fma(std::string_view name) {
  return name.starts_with("vfmadd") || name.starts_with("vfmsub") || name.starts_with("vfnmadd") ||
         name.starts_with("vfnmsub");
}
bool is_scalar(std::string_view name) { return name.ends_with("ss") || name.ends_with("sd") || name.ends_with("sh"); }
bool is_packed_arithmetic(std::string_view name) {
  return (name.ends_with("ps") || name.ends_with("pd") || name.ends_with("ph")) &&
         (name.starts_with("vmul") || name.starts_with("vadd") || name.starts_with("mul") || name.starts_with("add"));
}

int width_bits(std::string_view operands) {
  if (operands.find("%zmm") != std::string_view::npos) return 512;
  if (operands.find("%ymm") != std::string_view::npos) return 256;
  return operands.find("%xmm") != std::string_view::npos ? 128 : 0;
}

bool is_vector_move(const Instruction& instruction) {
  return width_bits(instruction.operands) != 0 &&
         (instruction.name.starts_with("vmov") || instruction.name.starts_with("mov"));
}
bool on_stack(std::string_view operands) {
  return operands.find("(%rsp") != std::string_view::npos || operands.find("(%rbp") != std::string_view::npos;
}
bool is_spill(const Instruction& instruction) { return is_vector_move(instruction) && on_stack(instruction.operands); }
// AT&T puts the destination last.
bool is_store(const Instruction& instruction) {
  return is_vector_move(instruction) && instruction.operands.ends_with(')');
}
bool is_load(const Instruction& instruction) {
  return width_bits(instruction.operands) != 0 && instruction.operands.find('(') != std::string_view::npos &&
         !is_store(instruction);
}

struct Range {
  std::size_t first = 0, last = 0;  // indices of instructions, inclusive
};

// Innermost loops: ranges closed by a backward jump that hold no other such range.
std::vector<Range> innermost_loops(const std::vector<Instruction>& code) {
  std::vector<Range> loops;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (!code[i].name.starts_with('j')) continue;
    const auto target = hex(code[i].operands);
    if (!target || *target > code[i].address || code.empty() || *target < code.front().address) continue;
    const auto start =
        std::lower_bound(code.begin(), code.end(), *target,
                         [](const Instruction& a, std::uint64_t address) { return a.address < address; });
    loops.push_back({static_cast<std::size_t>(start - code.begin()), i});
  }
  std::vector<Range> inner;
  for (const Range& loop : loops) {
    const bool holds_another = std::any_of(loops.begin(), loops.end(), [&](const Range& other) {
      return (other.first > loop.first && other.last <= loop.last) ||
             (other.first >= loop.first && other.last < loop.last);
    });
    if (!holds_another) inner.push_back(loop);
  }
  return inner;
}

struct LoopCounts {
  double instructions = 0, fma = 0, loads = 0, stores = 0, spill = 0, registers = 0;
};

void note_registers(std::string_view operands, std::set<int>& registers) {
  for (std::size_t at = operands.find("mm"); at != std::string_view::npos; at = operands.find("mm", at + 2)) {
    int number = 0;
    const char* begin = operands.data() + at + 2;
    if (std::from_chars(begin, operands.data() + operands.size(), number).ptr != begin) registers.insert(number);
  }
}

LoopCounts count_loop(const std::vector<Instruction>& code, const Range& loop) {
  LoopCounts counts;
  std::set<int> registers;
  for (std::size_t i = loop.first; i <= loop.last; ++i) {
    const Instruction& instruction = code[i];
    counts.instructions += 1;
    counts.fma += is_fma(instruction.name) ? 1 : 0;
    counts.spill += is_spill(instruction) ? 1 : 0;
    counts.loads += is_load(instruction) ? 1 : 0;
    counts.stores += is_store(instruction) ? 1 : 0;
    note_registers(instruction.operands, registers);
  }
  counts.registers = static_cast<double>(registers.size());
  return counts;
}

class Counter {
 public:
  void function(const std::vector<Instruction>& code) {
    for (const Instruction& instruction : code) one(instruction);
    for (const Range& loop : innermost_loops(code)) {
      const LoopCounts found = count_loop(code, loop);
      counts_["loops"] += 1;
      counts_["stack_spill"] += found.spill;
      if (found.fma > hot_.fma || (found.fma == hot_.fma && found.instructions > hot_.instructions)) hot_ = found;
    }
  }

  std::map<std::string, double> take() {
    counts_["vector_bits"] = fma_bits_ != 0 ? fma_bits_ : packed_bits_;
    counts_["hot_loop_instructions"] = hot_.instructions;
    counts_["hot_loop_fma"] = hot_.fma;
    counts_["hot_loop_loads"] = hot_.loads;
    counts_["hot_loop_stores"] = hot_.stores;
    counts_["hot_loop_spill"] = hot_.spill;
    counts_["hot_loop_registers"] = hot_.registers;
    return std::move(counts_);
  }

 private:
  void one(const Instruction& instruction) {
    const int bits = width_bits(instruction.operands);
    counts_["instructions"] += 1;
    if (is_fma(instruction.name)) {
      if (is_scalar(instruction.name)) {
        counts_["fma_scalar"] += 1;
      } else {
        counts_["fma_vector"] += 1;
        counts_[bits == 512 ? "fma_zmm" : bits == 256 ? "fma_ymm" : "fma_xmm"] += 1;
        fma_bits_ = std::max(fma_bits_, bits);
      }
    } else if (is_packed_arithmetic(instruction.name)) {
      packed_bits_ = std::max(packed_bits_, bits);
    }
    if (instruction.name.starts_with("vdpbf16")) counts_["dot_bf16"] += 1;
    if (instruction.name.find("gather") != std::string_view::npos) counts_["gather"] += 1;
    if (instruction.name.find("scatter") != std::string_view::npos) counts_["scatter"] += 1;
  }

  std::map<std::string, double> counts_ = {{"instructions", 0}, {"fma_vector", 0},  {"fma_scalar", 0}, {"fma_zmm", 0},
                                           {"fma_ymm", 0},      {"fma_xmm", 0},     {"dot_bf16", 0},   {"gather", 0},
                                           {"scatter", 0},      {"stack_spill", 0}, {"loops", 0}};
  LoopCounts hot_;
  int fma_bits_ = 0, packed_bits_ = 0;
};

}  // namespace

std::map<std::string, double> count_listing(std::string_view listing) {
  Counter counter;
  std::vector<Instruction> code;
  while (!listing.empty()) {
    const std::size_t end = std::min(listing.find('\n'), listing.size());
    const std::string_view line = listing.substr(0, end);
    listing.remove_prefix(std::min(end + 1, listing.size()));
    if (const auto instruction = parse_line(line)) {
      code.push_back(*instruction);
    } else if (line.ends_with(">:")) {  // "0000000000001120 <ridge_kernel>:"
      counter.function(code);
      code.clear();
    }
  }
  counter.function(code);
  return counter.take();
}

}  // namespace ridge::toolchain
