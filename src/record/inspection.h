// What machine code says about a kernel, without running it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ridge::record {

// Resources that a kernel asks of the machine. Absent: the file does not say.
struct KernelResources {
  std::optional<std::int64_t> registers;  // per thread; on AMD vector and accumulation registers together
  std::optional<std::int64_t> vector_registers, accumulation_registers, scalar_registers;  // AMD
  std::optional<std::int64_t> shared_bytes;                                                // static
  std::optional<std::int64_t> stack_bytes;                          // per thread: frame or scratch
  std::optional<std::int64_t> spill_store_bytes, spill_load_bytes;  // per thread, as instructions in the code; a local
                                                                    // array counts the same
  std::optional<std::int64_t> spilled_registers;                    // AMD: as its compiler reports
  std::optional<std::int64_t> barriers;
  std::optional<std::int64_t> max_threads;  // per block, when the source bounds it
  std::optional<std::int64_t> code_bytes;
  static void fields(auto& v, auto& self) {
    v.optional("registers", self.registers);
    v.optional("vector_registers", self.vector_registers);
    v.optional("accumulation_registers", self.accumulation_registers);
    v.optional("scalar_registers", self.scalar_registers);
    v.optional("shared_bytes", self.shared_bytes);
    v.optional("stack_bytes", self.stack_bytes);
    v.optional("spill_store_bytes", self.spill_store_bytes);
    v.optional("spill_load_bytes", self.spill_load_bytes);
    v.optional("spilled_registers", self.spilled_registers);
    v.optional("barriers", self.barriers);
    v.optional("max_threads", self.max_threads);
    v.optional("code_bytes", self.code_bytes);
  }
};

// How many instructions of each class and width; a class is a row of the opcode table of the instruction set.
struct InstructionCounts {
  std::int64_t instructions = 0;
  std::int64_t unknown = 0;                     // opcodes that no row of the table knows
  std::map<std::string, std::int64_t> classes;  // "matrix", "load_global", "barrier", ...
  std::map<std::string, std::int64_t> widths;   // "load_global 128": accesses by bits per lane
  static void fields(auto& v, auto& self) {
    v("instructions", self.instructions);
    v("unknown", self.unknown);
    v("classes", self.classes);
    v("widths", self.widths);
  }
};

struct LoopCounts {
  std::string first, last;  // addresses or labels
  std::int64_t depth = 1;   // 1: holds no other loop's body only; loops around it add one
  InstructionCounts counts;
  static void fields(auto& v, auto& self) {
    v("first", self.first);
    v("last", self.last);
    v("depth", self.depth);
    v("counts", self.counts);
  }
};

struct OccupancyEstimate {
  std::string product;
  std::int64_t threads_per_block = 0, dynamic_shared_bytes = 0;
  std::int64_t blocks_per_unit = 0, warps_per_unit = 0, max_warps_per_unit = 0;
  double fraction = 0;
  std::string limiter, lift;
  static void fields(auto& v, auto& self) {
    v("product", self.product);
    v("threads_per_block", self.threads_per_block);
    v("dynamic_shared_bytes", self.dynamic_shared_bytes);
    v("blocks_per_unit", self.blocks_per_unit);
    v("warps_per_unit", self.warps_per_unit);
    v("max_warps_per_unit", self.max_warps_per_unit);
    v("fraction", self.fraction);
    v("limiter", self.limiter);
    v("lift", self.lift);
  }
};

struct InspectionVerdict {
  std::string severity;  // good | note | bad
  std::string subject;   // "matrix", "spills", "width", "occupancy"
  std::string message;
  static void fields(auto& v, auto& self) {
    v("severity", self.severity);
    v("subject", self.subject);
    v("message", self.message);
  }
};

// One instruction of a disassembly.
struct AssemblyLine {
  std::string at;                   // its address, or its number where the text has none
  std::vector<std::string> labels;  // in front of it
  std::string text;                 // predicate, opcode and operands
  std::string kind;                 // its class in the counts
  std::int64_t width_bits = 0;      // of an access, per lane; 0: none, or it does not say
  std::int64_t loops = 0;           // how many loops it is in
  static void fields(auto& v, auto& self) {
    v("at", self.at);
    v("labels", self.labels);
    v("text", self.text);
    v("class", self.kind);
    v("width_bits", self.width_bits);
    v("loops", self.loops);
  }
};

struct KernelInspection {
  std::string name;
  KernelResources resources;
  bool has_listing = false;  // false: no disassembler, and the counts below are empty
  InstructionCounts counts;
  std::map<std::string, std::int64_t> opcodes;        // "LDG.E.128": full mnemonics
  std::vector<LoopCounts> loops;                      // in the order of the code
  std::optional<std::vector<AssemblyLine>> assembly;  // where it was asked for
  std::optional<OccupancyEstimate> occupancy;
  std::vector<InspectionVerdict> verdicts;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("resources", self.resources);
    v("has_listing", self.has_listing);
    v("counts", self.counts);
    v("opcodes", self.opcodes);
    v("loops", self.loops);
    v.optional("assembly", self.assembly);
    v.optional("occupancy", self.occupancy);
    v("verdicts", self.verdicts);
  }
};

struct Inspection {
  std::string file, format, isa, target;  // "cubin", "SASS", "sm_90"
  std::string disassembler;               // the tool that was used; empty: none needed or none found
  std::vector<std::string> notes;         // what could not be read, and why
  std::vector<KernelInspection> kernels;
  static void fields(auto& v, auto& self) {
    v("file", self.file);
    v("format", self.format);
    v("isa", self.isa);
    v("target", self.target);
    v("disassembler", self.disassembler);
    v("notes", self.notes);
    v("kernels", self.kernels);
  }
};

struct InstructionDifference {
  std::string kernel, what;  // a mnemonic, a class or a resource
  std::int64_t left = 0, right = 0;
  static void fields(auto& v, auto& self) {
    v("kernel", self.kernel);
    v("what", self.what);
    v("left", self.left);
    v("right", self.right);
  }
};

}  // namespace ridge::record
