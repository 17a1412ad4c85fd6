#include <limits>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/gemm/contract.h"
#include "ops/gemm/gemm.h"

namespace ridge {

GemmArgs gemm_grad_a_call(const GemmGradArgs& args) {
  const GemmArgs& f = args.forward;
  // dA = dC op(B)^T; stored transposed it is op(B) dC^T.
  if (f.trans_a) return GemmArgs{f.b, args.grad_c, args.grad, f.trans_b, true, args.accumulate};
  return GemmArgs{args.grad_c, f.b, args.grad, false, !f.trans_b, args.accumulate};
}

GemmArgs gemm_grad_b_call(const GemmGradArgs& args) {
  const GemmArgs& f = args.forward;
  // dB = op(A)^T dC; stored transposed it is dC^T op(A).
  if (f.trans_b) return GemmArgs{args.grad_c, f.a, args.grad, true, f.trans_a, args.accumulate};
  return GemmArgs{f.a, args.grad_c, args.grad, !f.trans_a, false, args.accumulate};
}

namespace ops::gemm {
namespace {

constexpr std::string_view kDtypeHelp = "give A and B the same one of f32, bf16, f16";

std::int64_t dtype_index(DType dtype) {
  for (std::size_t i = 0; i < std::size(kDtypes); ++i) {
    if (kDtypes[i] == dtype) return static_cast<std::int64_t>(i);
  }
  return -1;
}

std::string operand_text(const Args& args) {
  return fmt::format("A {}{}, B {}{}, C {}", args.a.describe(), args.trans_a ? " transposed" : "", args.b.describe(),
                     args.trans_b ? " transposed" : "", args.c.describe());
}

constexpr std::string_view kLayoutHelp = "copy it to a row-major matrix, or pass its transpose with trans_a or trans_b";

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_layout("gemm", "A", args.a, 2, kLayoutHelp));
  RIDGE_CHECK_OK(check_layout("gemm", "B", args.b, 2, kLayoutHelp));
  RIDGE_CHECK_OK(check_layout("gemm", "C", args.c, 2, kLayoutHelp));
  if (args.a.dtype != args.b.dtype || dtype_index(args.a.dtype) < 0) {
    return with_hint(invalid("gemm: {}: these dtypes are not supported", operand_text(args)), std::string(kDtypeHelp));
  }
  if (args.c.dtype != args.a.dtype && args.c.dtype != DType::kF32) {
    return with_hint(invalid("gemm: {}: C cannot be {}", operand_text(args), to_string(args.c.dtype)),
                     fmt::format("give C the dtype {} or f32", to_string(args.a.dtype)));
  }
  const std::int64_t m = args.a.shape[args.trans_a ? 1 : 0], k = args.a.shape[args.trans_a ? 0 : 1];
  const std::int64_t k_of_b = args.b.shape[args.trans_b ? 1 : 0], n = args.b.shape[args.trans_b ? 0 : 1];
  if (k != k_of_b) {
    return with_hint(
        invalid("gemm: {}: op(A) has k = {} columns but op(B) has k = {} rows", operand_text(args), k, k_of_b),
        "check trans_a and trans_b");
  }
  if (args.c.shape[0] != m || args.c.shape[1] != n) {
    return with_hint(invalid("gemm: {}: op(A) op(B) is [{}, {}]", operand_text(args), m, n),
                     fmt::format("make C [{}, {}]", m, n));
  }
  return check_apart("gemm", {"C", &args.c}, {{"A", &args.a}, {"B", &args.b}});
}

// Element counts beyond 64-bit byte offsets cannot be addressed by anyone.
Status check_sizes(const Problem& problem) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int64_t>::max() / 16;
  for (const OperandSpec& operand : problem.operands) {
    const std::int64_t rows = operand.shape[0], cols = operand.shape[1];
    if (cols != 0 && rows > kLimit / cols) {
      return with_hint(
          invalid("{}: operand {} would have {} x {} elements", problem.problem_case.text(), operand.name, rows, cols),
          "use smaller m, n, k");
    }
  }
  return ok_status();
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = requested;
  for (const char* name : {"dtype", "out"}) {  // the aliases fp32, half, ... mean the same case
    if (const auto dtype = parse_dtype(canonical.get(name)); dtype) canonical.set(name, std::string(to_string(*dtype)));
  }
  // One case has one spelling: an `out` equal to the inputs' dtype is "same".
  if (!canonical.get("out").empty() && canonical.get("out") == canonical.get("dtype", "f32"))
    canonical.set("out", "same");
  RIDGE_TRY(problem, bind_params("gemm", params(), canonical));
  const Shape s = shape_of(problem);
  const auto stored = [](std::int64_t rows, std::int64_t cols, bool transposed) {
    return transposed ? std::vector{cols, rows} : std::vector{rows, cols};
  };
  problem.operands = {{"a", s.dtype, stored(s.m, s.k, s.trans_a), false, false},
                      {"b", s.dtype, stored(s.k, s.n, s.trans_b), false, false},
                      {"c", s.out, {s.m, s.n}, true, s.accumulate}};
  RIDGE_CHECK_OK(check_sizes(problem));
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.value_count = kParamCount;
  call.values[kM] = args.c.shape[0];
  call.values[kN] = args.c.shape[1];
  call.values[kK] = args.a.shape[args.trans_a ? 0 : 1];
  call.values[kDtype] = dtype_index(args.a.dtype);
  call.values[kOut] = args.c.dtype == args.a.dtype ? kOutSame : kOutF32;
  call.values[kLayout] = (args.trans_a ? 2 : 0) + (args.trans_b ? 1 : 0);
  call.values[kAccumulate] = args.accumulate ? 1 : 0;
  call.operand_count = 3;
  call.operands[0] = args.a;
  call.operands[1] = args.b;
  call.operands[2] = args.c;
  return call;
}

namespace {

using GradCall = GemmArgs (*)(const GemmGradArgs&);

Gradient gradient(std::string input, GradCall grad_call) {
  return {std::move(input), "gemm",
          [grad_call](const Problem& problem, std::span<const TensorView> operands, const TensorView& grad_output,
                      const TensorView& grad_input) {
            const Shape s = shape_of(problem);
            const GemmArgs forward{operands[0], operands[1], operands[2], s.trans_a, s.trans_b, s.accumulate};
            return make_call(grad_call(GemmGradArgs{forward, grad_output, grad_input, false}));
          }};
}

}  // namespace

std::vector<record::ParamInfo> params() {
  return {{"m", "256", "rows of C", {}},
          {"n", "256", "columns of C", {}},
          {"k", "256", "terms of each sum", {}},
          {"dtype", "f32", "of A and B", {"f32", "bf16", "f16"}},
          {"out", "same", "dtype of C", {"same", "f32"}},
          {"layout", "nn", "of A and B: n as is, t stored transposed", {"nn", "nt", "tn", "tt"}},
          {"accumulate", "0", "1: C += A*B", {"0", "1"}}};
}

Operator describe() {
  Operator op;
  op.name = "gemm";
  op.summary = "C = op(A) * op(B): matrix product, fp32 sums";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.cost = cost;
  op.cases = cases;
  op.device_check = device_check();
  op.vary = vary;
  op.excuses = [](const Problem& problem, numerics::Family family) {
    return family == numerics::Family::kDenormals && shape_of(problem).dtype == DType::kBf16;
  };
  op.gradients = {gradient("a", gemm_grad_a_call), gradient("b", gemm_grad_b_call)};
  return op;
}

}  // namespace ops::gemm
}  // namespace ridge
