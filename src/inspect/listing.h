// Text of machine code or assembly as instructions: SASS of nvdisasm and cuobjdump, PTX, AMDGCN of llvm-objdump or a
// compiler, x86-64 of objdump. Parsers take what they know from a line and leave the rest, so that another version of a
// tool, with other comments or headings, reads the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::inspect {

enum class Isa { kSass, kPtx, kAmdgcn, kX86 };
std::string_view to_string(Isa isa);  // "SASS", "PTX", "AMDGCN", "x86-64"

// Views into the text it was parsed from.
struct Instruction {
  std::uint64_t address = 0;
  std::string_view predicate;  // "@!P0", or empty
  std::string_view opcode;     // "LDG.E.128", "global_load_dwordx4", "vfmadd231ps"
  std::string_view operands;
  std::string_view target;  // of a branch: a label, or an address in hex; empty otherwise
};

struct Label {
  std::string_view name;
  std::size_t index = 0;  // of the instruction behind it
};

struct Function {
  std::string name;
  std::vector<Instruction> code;
  std::vector<Label> labels;
};

struct Listing {
  Isa isa = Isa::kSass;
  std::string target;  // "sm_90a", when the text says
  std::vector<Function> functions;
};

// Which of the four a text is; the error names what was looked for.
Result<Isa> detect_listing(std::string_view text);
Listing parse_listing(Isa isa, std::string_view text);

// What a compiler says about its kernels inside AMDGCN assembly: YAML between two directives, or from the line
// "amdhsa.kernels:" on where a tool has kept it without them. Empty when there is none.
std::string_view amdgpu_metadata(std::string_view text);

// A loop: the instructions [first, last], closed by a branch backwards.
struct Loop {
  std::size_t first = 0, last = 0;
  int depth = 1;  // 1: holds no other loop
};
std::vector<Loop> find_loops(const Function& function);

}  // namespace ridge::inspect
