// What a kernel of the library says of itself in a comment of its source, beside its tunables and its launch plan:
//
//   /* ridge-kernel
//   op = "gemm"                          # or a list: the operators that have it
//   rank = 50                            # its place in the default order of a CPU (ops::Implementation); optional
//   [configs]                            # what the library builds, one line each, best known first
//   avx512_8x3 = { VECTOR = 16, MR = 8, NV = 3, instructions = "avx512", promoted = "gemm_cpu_2026-11-23, 47.5x" }
//   default = { }
//   [variants]                           # what the compile check builds beside the first configuration that fits: a
//                                        # case of an operator, values of macros, or both
//   nt_bf16 = { case = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=nt", every = true }   # in every one that fits
//   odd = { MAJOR_B = "kK" }
//   */
//
// and, of a kernel for a GPU, above [configs]:
//
//   max_registers = 168                  # of a thread; the compile check refuses more
//   sass = [{ opcode = "HGMMA", when = "size_a > 1" }]   # instructions that every kernel of a build must have, or that
//                                        # with the symbol `kernel`
//   [define]                             # macros that follow from the case, each in a line, in words of the plan:
//   TYPE_A = { value = "type_a", names = ["kBf16", "kF16"] }   # the name by the value, or else the number
//
// A configuration gives values to tunables of the same source; what it does not name has its default.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/candidate.h"
#include "record/launch_plan.h"
#include "ridge/result.h"

namespace ridge::record {

struct KernelConfig {
  std::string name;                            // a-z, 0-9, _: part of symbols, tuned tables and commands
  std::map<std::string, std::int64_t> values;  // as written
  std::string promoted;                        // "CAMPAIGN, 1.24x": the campaign that found it; empty: written by hand
  std::string instructions;                    // of a CPU, what its build may use: avx2 or avx512; empty: what all have
  std::optional<double> model;                 // what a cost model multiplies its prediction with
  std::size_t line = 0;                        // of the source, from 1
};

struct KernelVariant {
  std::string name;
  std::map<std::string, std::string> defines;  // as the compiler gets them
  std::string problem;                         // a case: "gemm m=64 n=64 k=64"; may be empty
  bool every = false;
};

struct KernelDefine {
  std::string name;
  PlanNumber value;
  std::vector<std::string> names;
};

struct KernelOpcode {
  std::string opcode;
  std::string kernel;  // empty: every one
  PlanNumber when = "1";
};

struct KernelDescription {
  std::vector<std::string> ops;
  std::int64_t rank = 50;
  std::vector<KernelConfig> configs;  // in the order of the file; at least one
  std::vector<KernelVariant> variants;
  TuneSpace space;                 // of the same source
  std::optional<LaunchPlan> plan;  // of the same source; of a GPU's kernel
  std::vector<KernelDefine> defines;
  std::vector<KernelOpcode> sass;
  std::int64_t max_registers = 255;

  // Null when there is none of that name.
  [[nodiscard]] const KernelConfig* find(std::string_view name) const;
  // The configuration that means the same as these values, defaults filled in; null when there is none.
  [[nodiscard]] const KernelConfig* same(const std::map<std::string, std::int64_t>& values) const;
  // Every tunable's value.
  [[nodiscard]] std::map<std::string, std::int64_t> complete(const std::map<std::string, std::int64_t>& values) const;
};

// The description in a source text; nothing when it has none. An error names the line, the key and what is allowed: a
// tunable that is not declared, a value that it does not list, a constraint that does not hold, two configurations that
// are the same.
Result<std::optional<KernelDescription>> parse_kernel(std::string_view source);

// The source without the lines of its configurations: what must be equal for a measurement of one source to speak of
// another. The whole text when it has no description.
Result<std::string> text_without_configs(std::string_view source);

// Whether a processor with these features (ops::DeviceInfo) has what a configuration's build may use.
bool has_instructions(std::string_view instructions, const std::vector<std::string>& features);
// The most that it has: what a kernel that was measured there is to be built with.
std::string most_instructions(const std::vector<std::string>& features);

// "configurations 1f0c2a3b": of a digest of those that a cost model chooses among, of all where none has a model. One
// that a campaign won has none at first, so it voids no measurement of the others.
std::string configurations_version(const KernelDescription& kernel);

// The version that tuned tables hold a kernel by: of one with a launch plan its configurations', and of another
// "source 1f0c2a...", of a digest of its text without configurations.
Result<std::string> kernel_version(std::string_view source);

// The source with one configuration more, as the last line of [configs]. An error when it is refused there.
Result<std::string> text_with_config(std::string_view source, const KernelConfig& config);

// The source with `promoted` on the line of a configuration that says of none where it is from.
Result<std::string> text_with_promoted(std::string_view source, std::string_view config, std::string_view promoted);

// The source with the configurations of another text of the same kernel in place of its own.
Result<std::string> text_with_configs_of(std::string_view source, std::string_view other);

}  // namespace ridge::record
