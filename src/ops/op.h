// What an operator folder provides, and nothing about how an implementation is chosen (that is src/dispatch).
//
// An operator binds a record::Case to a Problem: the list of operands with dtype and shape, inputs first. Everything
// generic (conformance table, bench, campaign, worker) works on Problems and never on a named operator.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/short_list.h"
#include "numerics/fill.h"
#include "ops/device_check.h"
#include "ops/fill.h"
#include "record/case.h"
#include "record/measurement.h"
#include "record/param.h"
#include "record/worker.h"
#include "ridge/dtype.h"
#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge::ops {

// How an output is held against the reference.
enum class Check : std::uint8_t {
  kErrorModel,  // ReferenceOutput::allowed, the RMS and the lean of its errors
  kExact        // every element equal (whole numbers up to 2^53); a reference gives values alone
};

// An operand that a case leaves out is not listed; Problem::position finds the others by name.
struct OperandSpec {
  std::string name;  // "a", "b", "c"
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  bool output = false;
  bool read_write = false;  // an output whose old content matters (beta != 0)
  Fill fill;                // of an input
  Check check = is_integer(dtype) ? Check::kExact : Check::kErrorModel;  // of an output

  [[nodiscard]] std::int64_t element_count() const;
};

// What a call may have without a heap allocation; more of either is right, and slower.
inline constexpr std::size_t kWarmParams = 24, kWarmOperands = 16, kWarmScalars = 8;

// A case bound by its operator: normalised parameters and operands in call order.
struct Problem {
  record::Case problem_case;  // every parameter present, in the operator's order
  // The same parameters in 64 bits each (record::parse_value): what kernels read.
  std::vector<std::int64_t> values;
  std::vector<record::ParamKind> kinds;  // of the values
  std::vector<OperandSpec> operands;
  // What each operand's address and row starts are multiples of, in bytes, up to 16: copy engines and vector loads ask.
  // 0 or none: not known before the call; operand_alignment() then takes dense rows from an allocator.
  std::vector<std::uint8_t> alignment;
  // Which of Implementation::configurations runs it; -1 leaves it to the implementation.
  int configuration = -1;
  // What every call may bring along, in the order of Call::scalars; a usual value may depend on the case.
  std::vector<record::ScalarInfo> scalars;

  // Of the operand with that name; nothing where the case has none.
  [[nodiscard]] std::optional<std::size_t> position(std::string_view operand) const;
  // A parameter that is a real number.
  [[nodiscard]] double real(std::size_t param) const { return record::real_of_bits(values[param]); }
  // By name, for expressions: the parameters that are no real numbers; those that are, and the usual scalars.
  [[nodiscard]] std::map<std::string, std::int64_t> wholes() const;
  [[nodiscard]] std::map<std::string, double> reals() const;
};
// Of a call, by name; of rank 0 where the case has none.
TensorView operand(const Problem& problem, std::span<const TensorView> operands, std::string_view name);
// 1, 2, 4, 8 or 16.
int operand_alignment(const Problem& problem, std::size_t operand);
// The same of a view in memory.
int view_alignment(const TensorView& view);
std::vector<std::uint8_t> alignments(std::span<const TensorView> operands);

// A call of an operator in the form everything generic understands: Problem::values, the operands, and the scalars or
// none of them. An operator's make_call() checks its public arguments and fills it; src/dispatch runs it.
struct Call {
  ShortList<std::int64_t, kWarmParams> values;
  ShortList<TensorView, kWarmOperands> operands;
  ShortList<record::Scalar, kWarmScalars> scalars;
};

// What is different in every call of a problem, as an implementation and a reference get it. What takes no scalars
// takes the operands alone.
struct Arguments {
  std::span<const TensorView> operands;
  std::span<const record::Scalar> scalars;  // none: the usual ones
  // Scratch memory of the call: as much as the implementation asks for, aligned to 256 bytes, of undefined content.
  // What is given here is taken; else assemble() sees to it.
  std::span<std::byte> workspace;

  Arguments(std::span<const TensorView> views = {}, std::span<const record::Scalar> numbers = {},  // NOLINT
            std::span<std::byte> scratch = {})
      : operands(views), scalars(numbers), workspace(scratch) {}
  template <class Views>
  requires std::convertible_to<const Views&, std::span<const TensorView>> Arguments(const Views& views)
      : operands(views) {}                                           // NOLINT
  operator std::span<const TensorView>() const { return operands; }  // NOLINT
  const TensorView& operator[](std::size_t operand) const { return operands[operand]; }
  // A scalar of the problem by its position.
  [[nodiscard]] record::Scalar scalar(const Problem& problem, std::size_t index) const {
    return scalars.empty() ? problem.scalars[index].usual : scalars[index];
  }
};
// Scalars of a checked call, drawn from what the problem says.
std::vector<record::Scalar> draw_scalars(const Problem& problem, std::uint64_t seed);

// Reference values of one output in fp64, from the inputs as stored (already rounded), how far a correct implementation
// of the declared accumulation type may be from each, and how far the ideal one is expected to be: both zero for
// Check::kExact, which a reference may leave out (assemble() fills them in).
struct ReferenceOutput {
  std::vector<double> value;
  std::vector<double> allowed;  // |x - value| <= allowed, from the operator's error model
  // The mean square error of the ideal kernel at each element (numerics::ideal_square_error; for one rounding,
  // ulp^2 / 12). Errors of a whole output are held to twice its root: single elements within their bound can still be
  // the work of a shorter type.
  std::vector<double> ideal_square;
  // How much of its error a right kernel may have in the same direction at every such element, where nothing is random
  // about it: an approximation of a function, a matrix unit that cuts off. Empty: nothing anywhere.
  std::vector<double> shift;
};

// The operator's cheap check of a whole output on secret random vectors: O(inputs + outputs) work in fp64.
struct SpotCheck {
  double residual = 0;  // what was found
  double allowed = 0;   // above it the output is wrong; calibrated so that one element off by its
                        // element-wise tolerance times `blind_factor` is seen
  double blind_factor = 0;
  bool finite = true;
  std::string detail;  // where, on a failure
};

// Why an implementation cannot run a case: a sentence with the values. Empty optional: it can.
using Refusal = std::optional<std::string>;

// What an implementation may ask about the machine.
struct DeviceInfo {
  Backend backend = Backend::kCpu;
  std::string name;                   // "Intel(R) Xeon(R) Processor", "NVIDIA H200"
  std::string arch;                   // "x86-64", "sm_90a"
  std::vector<std::string> features;  // "avx2", "fma", "avx512f", ...; "wgmma", "tma"
  std::string missing;                // why nothing can run there ("no CUDA driver ..."); empty: it can
  std::string driver;                 // version of what drives it; empty for a processor
  // Of a GPU; 0: not known.
  int multiprocessors = 0;
  double l2_bytes = 0;
  double memory_bandwidth = 0;  // bytes per second: the bus's width times its clock
  double clock = 0;             // Hz of the multiprocessors, the highest
  [[nodiscard]] bool has(std::string_view feature) const;
};

// A device source and what it is compiled with: one object that `ridge kernels build` makes ahead of time.
struct KernelBuild {
  std::string source;                // of the sources inside the library: "ops/matmul/cuda_wgmma.cu"
  std::vector<std::string> defines;  // "NAME=VALUE"
};

struct Implementation {
  std::string name;  // <backend>_<idea>: "cpu_simd", "reference"
  Backend backend = Backend::kCpu;
  std::string summary;         // one line
  int rank = 0;                // lower is asked first; the reference comes last
  bool vendor = false;         // a peer library's, not ours
  bool is_reference = false;   // what the others are checked against: right, slow, and no peer
  bool deterministic = false;  // equal calls give equal bits, whatever the number of threads; then it is checked
  std::function<Refusal(const Problem&, const DeviceInfo&)> supports;
  std::function<Status(const Problem&, const Arguments&, const Stream&)> run;
  // How many bytes of scratch memory a call needs; may be empty: none. Asked at every call, so arithmetic only.
  std::function<std::size_t(const Problem&, const Stream&)> workspace_bytes;
  // Which library and which of its kernels run here; goes into every result. May be empty.
  std::function<std::string()> version;
  std::string source;  // of a kernel that describes itself: "ops/matmul/cuda_wgmma.cu"; empty: of another
  // Names of the builds it chooses among by itself, which a tuned table may choose instead; may be empty. One that does
  // not fit a call counts as -1.
  std::vector<std::string> configurations;
  // Where each is from, "CAMPAIGN, 1.24x"; empty: written by hand. As many as configurations, or none.
  std::vector<std::string> promoted;
  // Those that fit a problem, its own choice first, then by expected time.
  std::function<std::vector<int>(const Problem&, const DeviceInfo&)> promising;
  // Seconds that its cost model expects of a configuration, for explain().
  std::function<double(const Problem&, int configuration, const DeviceInfo&)> expected_seconds;
  // The builds that a call of a problem (in its configuration) loads, its memory taken as aligned as its sizes allow.
  std::function<std::vector<KernelBuild>(const Problem&, const DeviceInfo&)> kernels;
};

// Which list of cases is wanted.
enum class CaseSet {
  kCheck,  // edges: 0, 1, primes, one below and above tile sizes, every dtype and layout; small enough to run all
  kBench,  // the shapes people train with, at a size this backend runs in about a second
  kTarget  // what `ridge optimize` uses unless told otherwise
};

// How far Operator::vary goes.
enum class Variation {
  kNeighbour,  // sizes near those of the case, on no multiple of anything
  kReduced,    // a few dozen in every size: for runs that are a hundred times slower, under a sanitizer
  // The same, but sizes that are multiples of 16 stay so: for kernels that take nothing else and would refuse the
  // others.
  kAlignedNeighbour,
  kAlignedReduced
};

// The gradient of an input: a call of an operator (often the same one) whose output is the gradient. Shapes and dtypes
// of `grad_output` and `grad_input` are those of the operator's output and of the input.
struct Gradient {
  std::string input;  // OperandSpec::name
  std::string op;     // the operator to call
  std::function<Result<Call>(const Problem&, std::span<const TensorView> operands, const TensorView& grad_output,
                             const TensorView& grad_input)>
      call;
};

// The backward of an operator as an entry of its own, usually <op>_backward of the same folder: an Operator with its
// own case, operands, reference and kernels, whose outputs are the gradients of several inputs.
struct Backward {
  std::string op;
  std::vector<std::string> saved;  // operands of the forward call that it reads: what a front end keeps
  // `forward` holds the operands of the forward call, those that are not saved with rank 0. Gradients in the order of
  // the forward's outputs and inputs; rank 0: there is none, or none is wanted.
  std::function<Result<Call>(const Problem&, const Arguments& forward, std::span<const TensorView> grad_outputs,
                             std::span<const TensorView> grad_inputs)>
      call;
  std::vector<std::string> statistics;  // outputs that are written for it alone and have no gradient of their own
  std::vector<std::string> constants;   // inputs of real numbers that have no gradient: a table
};

struct Operator {
  std::string name, summary;
  std::vector<record::ParamInfo> params;  // in order; missing ones take their default
  // Checks the parameters; the error names the value and what is allowed.
  std::function<Result<Problem>(const record::Case&)> bind;
  // Values and allowed errors of every output. Shares no code with any kernel. The operands are those from before the
  // run: a read_write operand holds its old content.
  std::function<Result<std::vector<ReferenceOutput>>(const Problem&, const Arguments&)> reference;
  // The operands after the run, followed by one view of the old content of each read_write operand.
  std::function<Result<SpotCheck>(const Problem&, const Arguments&, std::uint64_t seed)> spot_check;
  std::function<record::Cost(const Problem&)> cost;
  std::function<std::vector<record::Case>(CaseSet, Backend)> cases;
  // Another case of the declared domain that costs no more: what a caller may ask for next. Everything but sizes stays
  // (dtypes, layouts, flags). Without it a candidate is checked on the shapes it was told only.
  std::function<record::Case(const Problem&, Variation, std::uint64_t seed)> vary;
  // Families of inputs that the contract does not hold a case to; may be empty.
  std::function<bool(const Problem&, numerics::Family)> excuses;
  // How outputs are checked on a GPU; without it the operator cannot be measured there.
  std::shared_ptr<const DeviceCheck> device_check;
  // How gradients are made: by an entry of their own, or each by a call of an operator's forward.
  std::optional<Backward> backward;
  std::vector<Gradient> gradients;  // one per differentiable input
  // More numbers of a case that launch plans may name, beside parameters, shapes and strides; may be empty. The
  // operands' addresses count for their alignment alone.
  std::function<void(const Problem&, std::span<const TensorView> operands, std::map<std::string, std::int64_t>&)>
      plan_values;
  std::vector<Implementation> implementations;  // best first, reference last
};

// The operators of this build, from the list that cmake/ridge_ops.cmake generates, and those of add_operators().
std::vector<const Operator*> operators();
// For a program that brings operators of its own (tests/skeleton_op); the objects must outlive every use. Call it
// before the first call of an operator. Adding the same list twice changes nothing.
void add_operators(std::span<const Operator> list);
// The error of an unknown name lists the known ones.
Result<const Operator*> find_operator(std::string_view name);
// The implementation of that name; the error lists the known ones.
Result<const Implementation*> find_implementation(const Operator& op, std::string_view name);

// Checks a case against the declared parameters and fills in defaults, for an operator's bind(): unknown names and
// values that their kind excludes are errors that name the value and what is allowed. Fills problem_case and values.
Result<Problem> bind_params(std::string_view op, std::span<const record::ParamInfo> params,
                            const record::Case& requested);
// The reverse: the case whose values these are.
record::Case case_of(const Operator& op, std::span<const std::int64_t> values);

// The calls that make the gradients that are wanted (rank not 0), in order; views as Backward::call takes them. An
// input without a gradient is an error that names those that have one.
struct EntryCall {
  const Operator* op = nullptr;
  Call call;
};
Result<std::vector<EntryCall>> backward_calls(const Operator& op, const Problem& problem, const Arguments& forward,
                                              std::span<const TensorView> grad_outputs,
                                              std::span<const TensorView> grad_inputs);

// For an operator's cases(): "gemm m=7 n=5 k=3", which must parse.
record::Case built_in_case(std::string_view text);

// For an operator's vary(): `problem` with each of these size parameters drawn anew from three quarters of it up to one
// less, or for kReduced from three quarters of `reduced`; a size of 0 or 1 stays. The aligned variations draw in steps
// of 16 where the size is a multiple of that.
record::Case vary_sizes(const Problem& problem, std::span<const std::size_t> sizes, std::int64_t reduced,
                        Variation variation, std::uint64_t seed);

// For a spot_check() where work per element is so small that the cheap check is the whole one: every element of every
// output against the reference. `residual` is the worst error in units of what is allowed.
Result<SpotCheck> spot_check_by_reference(const Problem& problem, const Arguments& arguments,
                                          const decltype(Operator::reference)& reference);
// Of outputs that may rightly be infinite: what agrees with the reference is no overflow.
Result<SpotCheck> with_right_infinities(Result<SpotCheck> spot);

// Puts an operator together from what its folder provides: sorts by rank, gives calls the workspace that they need, and
// appends the generic "reference" implementation, which rounds Operator::reference to the outputs' dtypes.
Operator assemble(Operator description, std::vector<Implementation> implementations);

// The "reference" implementation of an operator, in host memory.
Implementation reference_on_host(const Operator& op);

// Why an implementation cannot run a problem on that device: another backend, a device that is missing, or its own
// reason. The question that callers ask; `supports` alone trusts that the device is one of its backend.
Refusal why_not(const Implementation& implementation, const Problem& problem, const DeviceInfo& device);

// What there is to know about the device a stream runs on.
const DeviceInfo& device_info(const Stream& stream);

}  // namespace ridge::ops
