// How the kernels of a CUDA candidate are launched, as data: a candidate is device code plus this plan, and owns no
// host code that could touch a clock or a result. Written as TOML in a comment of the source (docs/candidates.md):
//
//   /* ridge-launch
//   [[needs]]
//   expression = "k % 8 == 0"
//   reason = "rows of A are read 16 bytes at a time"
//   [[value]]                          # names for what several expressions share, in order
//   name = "tiles"
//   expression = "ceil_div(n, TILE_N) * ceil_div(m, TILE_M)"
//   [[workspace]]
//   name = "partial"
//   bytes = "SPLITS * m * n * 4"
//   [[tensor_map]]
//   name = "map_a"
//   operand = "a"                      # element type and address
//   sizes = ["k", "m"]                 # elements, the contiguous dimension first
//   strides = ["a_stride0 * a_bytes"]  # bytes, of the dimensions after the first; not read where its size is 1
//   box = ["64", "TILE_M"]
//   swizzle = 128
//   when = "n % 8 == 0"                # else the map is not made and the kernel gets zeros (default: always)
//   [[clear]]                          # zeros before the first kernel of every call
//   operand = "c"
//   bytes = "4 * m * n"                # from its start
//   when = "accumulate == 0"           # default: always
//   [[struct]]                         # members that several kernels take: { struct = "sizes" }
//   name = "sizes"
//   members = [{ i32 = "m" }, { i32 = "n" }]
//   [[kernel]]
//   symbol = "gemm"
//   list = "gemm_list"                 # runs several such calls in one launch (default: there is none)
//   grid = ["ceil_div(n, TILE_N)", "ceil_div(m, TILE_M)"]
//   block = [256]
//   shared = "STAGES * (TILE_M + TILE_N) * 128"
//   args = [{ tensor_map = "map_a" }, { operand = "c" }, { i64 = "c_stride0" }, { i32 = "k" }, { workspace = "partial"
//   },
//           { operand = "bias", when = "bias" }]          # null where the condition does not hold, or
//                                                         # { operand = "c", when = "in_place", else = "residual" };
//                                                         # { i64 = "bias_stride0", when = "bias" } is 0 then
//   */
//
// Every number may be an integer or an expression (record/expression.h) over
//   the problem's parameters (m, n, k, dtype as its index, ...), the defines (tunables), and for each operand X
//   X_shape0.., X_stride0.. (elements), X_bytes (of one element), X_align (what its address and every stride are
//   multiples of, bytes up to 16); and of the GPU: sm_count, max_shared, l2_bytes.
// Arguments f32 and f64 may also name scalars of the call: they follow them from call to call.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/candidate.h"
#include "ridge/dtype.h"
#include "ridge/result.h"

namespace ridge::record {

// An integer that the plan computes: the text of an expression; "128" is itself.
using PlanNumber = std::string;

// One parameter of a kernel. Exactly one of the first five is set.
struct PlanArgument {
  std::string operand;                // the address of its data,
  PlanNumber when;                    // if this is not zero (empty: always); else a number is zero, and an address
  std::string otherwise;              // that operand's, or null where it is empty or the case has none
  std::string workspace;              // the address of that workspace
  std::string tensor_map;             // the map, 128 bytes by value
  std::string type;                   // i32 u32 i64 u64 f32 f64: the number `value`
  std::vector<PlanArgument> members;  // a struct by value, laid out as C++ lays it out
  PlanNumber value;
  static void fields(auto& v, auto& self) {
    v.optional("operand", self.operand);
    v.optional("when", self.when);
    v.optional("else", self.otherwise);
    v.optional("workspace", self.workspace);
    v.optional("tensor_map", self.tensor_map);
    v.optional("type", self.type);
    v.optional("value", self.value);
    v.optional("members", self.members);
  }
};

struct PlanKernel {
  std::string symbol;
  std::string list;                              // symbol of the kernel that runs a list of such calls; may be empty
  std::vector<PlanNumber> grid, block, cluster;  // one to three; what is missing is 1
  PlanNumber shared = "0";                       // dynamic shared memory, bytes
  PlanNumber when = "1";                         // launched only if not zero
  bool overlap_previous = false;                 // programmatic dependent launch
  PlanNumber persistent = "0";                   // not zero: its clusters stay for all work that there is, so that the
                                                 // grid is cut to as many as the GPU holds at once
  std::vector<PlanArgument> args;
  static void fields(auto& v, auto& self) {
    v("symbol", self.symbol);
    v.optional("list", self.list);
    v("grid", self.grid);
    v("block", self.block);
    v("cluster", self.cluster);
    v("shared", self.shared);
    v("when", self.when);
    v("overlap_previous", self.overlap_previous);
    v.optional("persistent", self.persistent);
    v("args", self.args);
  }
};

// Scratch memory. The harness owns it; its content is undefined when a call starts, unless `zero`.
struct PlanWorkspace {
  std::string name;
  PlanNumber bytes;
  bool zero = false;  // cleared at the start of every call, as part of the call
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("bytes", self.bytes);
    v("zero", self.zero);
  }
};

// Memory of an operand that holds zeros before the first kernel of every call.
struct PlanClear {
  std::string operand;
  PlanNumber bytes;       // from its start
  PlanNumber when = "1";  // not zero
  static void fields(auto& v, auto& self) {
    v("operand", self.operand);
    v("bytes", self.bytes);
    v("when", self.when);
  }
};

struct PlanTensorMap {
  std::string name;
  std::string operand, workspace;  // one of them: where the tensor is
  std::string dtype;               // of the elements; empty: the operand's
  std::vector<PlanNumber> sizes, strides, box, element_strides;
  std::int64_t swizzle = 128;       // 0, 32, 64, 128
  PlanNumber l2_promotion = "256";  // 0, 64, 128, 256
  std::string fill = "zero";        // zero | nan
  PlanNumber when = "1";            // made only if not zero; else the kernel gets 128 bytes of zeros
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("operand", self.operand);
    v("workspace", self.workspace);
    v("dtype", self.dtype);
    v("sizes", self.sizes);
    v("strides", self.strides);
    v("box", self.box);
    v("element_strides", self.element_strides);
    v("swizzle", self.swizzle);
    v("l2_promotion", self.l2_promotion);
    v("fill", self.fill);
    v("when", self.when);
  }
};

// A name for a number that several expressions share.
struct PlanValue {
  std::string name;
  PlanNumber expression;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("expression", self.expression);
  }
};

struct LaunchPlan {
  std::vector<PlanValue> values;  // in order: each may name those before it
  std::vector<Constraint> needs;  // cases outside are refused with the reason
  std::vector<PlanWorkspace> workspaces;
  std::vector<PlanClear> clears;
  std::vector<PlanTensorMap> tensor_maps;
  std::vector<PlanKernel> kernels;  // in the order they are launched
  static void fields(auto& v, auto& self) {
    v("values", self.values);
    v("needs", self.needs);
    v("workspaces", self.workspaces);
    v.optional("clears", self.clears);
    v("tensor_maps", self.tensor_maps);
    v("kernels", self.kernels);
  }
};

// The plan in a source text; nothing when it declares none. An error names the line, the field, the value and what is
// allowed: unknown keys, names that clash or that nothing declares, expressions that do not parse, more than three
// grid dimensions. Which variables exist is only known when it is resolved.
Result<std::optional<LaunchPlan>> parse_launch_plan(std::string_view source);
// The plan of a CUDA candidate: those of its sources together, so that a source which includes a kernel of the library
// adds needs of its own to the kernel's plan. No source with a kernel is an error that shows the smallest plan.
Result<LaunchPlan> launch_plan(const Candidate& candidate);

// The defines of a candidate as its source sees them: its own, and the defaults of tunables it does not set.
Result<std::map<std::string, std::int64_t>> define_values(const Candidate& candidate);

// ---- One case

// An operand as the case binds it, in the operator's order.
struct PlanOperand {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape, stride;  // elements
  int alignment = 16;                       // bytes, of its address and strides
};

// A number that every call may bring anew, and the one of a call that brings none.
struct PlanScalar {
  std::string name;
  double usual = 0;
};

// What the expressions of a plan may name.
struct PlanFacts {
  std::map<std::string, std::int64_t> values;  // parameters, defines, facts of the GPU
  std::vector<PlanOperand> operands;
  std::map<std::string, double> reals;  // parameters that are real numbers
  std::vector<PlanScalar> scalars;      // in the order of the call
};

struct ResolvedArgument {
  enum class Kind { kOperand, kWorkspace, kTensorMap, kValue, kFormula, kZeros };
  Kind kind = Kind::kValue;
  std::size_t index = 0;   // of the operand, workspace, tensor map or formula
  std::size_t offset = 0;  // bytes from the start of its parameter
  std::size_t bytes = 0;   // 8 for an address, 128 for a map, 4 or 8 for a number
  std::uint64_t bits = 0;  // of a number, as the kernel reads it; of a formula for the usual scalars
};

// A real number that follows the scalars of a call.
struct ResolvedFormula {
  std::string expression;
  std::map<std::string, double> known;  // its other names
};

// A kernel's parameter: one argument, or the members of a struct.
struct ResolvedParameter {
  std::size_t bytes = 0, alignment = 1;
  std::vector<ResolvedArgument> parts;
};

struct ResolvedKernel {
  std::string symbol, list;
  std::uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1};
  std::uint32_t shared_bytes = 0;
  bool overlap_previous = false, persistent = false;
  std::vector<ResolvedParameter> parameters;
};

struct ResolvedWorkspace {
  std::string name;
  std::uint64_t bytes = 0;
  bool zero = false;
};

struct ResolvedClear {
  std::size_t operand = 0;
  std::uint64_t bytes = 0;
};

struct ResolvedTensorMap {
  std::string name;
  bool in_workspace = false;
  std::size_t index = 0;  // of the operand or workspace
  DType dtype = DType::kBf16;
  std::vector<std::uint64_t> sizes, strides_bytes;  // strides of the dimensions after the first
  std::vector<std::uint32_t> box, element_strides;
  int swizzle_bytes = 128, l2_promotion_bytes = 256;
  bool fill_nan = false;
};

struct ResolvedPlan {
  std::size_t operand_count = 0;
  std::vector<ResolvedWorkspace> workspaces;
  std::vector<ResolvedClear> clears;
  std::vector<ResolvedTensorMap> tensor_maps;
  std::vector<PlanScalar> scalars;  // that formulas may name
  std::vector<ResolvedFormula> formulas;
  // Only those to launch: `when` holds and the grid is not empty.
  std::vector<ResolvedKernel> kernels;
};

// The numbers of one case. Two kinds of errors: kUnsupported when `needs` excludes the case (the reason and the
// values), kInvalidArgument when the plan is wrong (field, expression, its value, what is allowed).
Result<ResolvedPlan> resolve(const LaunchPlan& plan, const PlanFacts& facts);

// The variables of `facts` with the plan's [[value]]s: what `needs` and other expressions about the case may name.
Result<std::map<std::string, std::int64_t>> plan_variables(const LaunchPlan& plan, const PlanFacts& facts);
// Sets the plan's [[value]]s, in order, over what is there of the same names.
Status set_values(const LaunchPlan& plan, std::map<std::string, std::int64_t>& variables,
                  const std::map<std::string, double>& reals);
// " m=3 n=5": the numbers that an expression names.
std::string named_numbers(const std::string& expression, const std::map<std::string, std::int64_t>& variables,
                          const std::map<std::string, double>& reals);
// Needs of the plan that hang on tunables, with the numbers of a case in them: expressions over tunables alone. A need
// that names what `facts` does not have is left out.
std::vector<Constraint> needs_of_tunables(const LaunchPlan& plan, const PlanFacts& facts, const TuneSpace& space);
// The first of the needs that does not hold, or null.
Result<const Constraint*> unmet(const LaunchPlan& plan, const std::map<std::string, std::int64_t>& variables,
                                const std::map<std::string, double>& reals);

}  // namespace ridge::record
