#include <array>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/gemm/contract.h"
#include "ops/gemm/product_case.h"
#include "ops/matmul/values.h"

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

// Bias and residual: C's dtype, the right shape, and no accumulation beside them.
Status check_epilogue(const Args& args) {
  const bool bias = args.bias.rank != 0, residual = args.residual.rank != 0;
  if (!bias && !residual && args.activation == Activation::kNone) return ok_status();
  if (args.accumulate) {
    return with_hint(invalid("gemm: {}: accumulate adds the product alone, without bias, activation or residual",
                             operand_text(args)),
                     "drop the epilogue, or give the old C as residual with memory of its own for C");
  }
  const auto last = static_cast<std::size_t>(args.c.rank - 1);
  if (bias) {
    const std::int64_t shape[] = {args.c.shape[last]};
    RIDGE_CHECK_OK(
        check_shape("gemm", "bias", args.bias, args.c.dtype, shape, "one for each column of C, in its dtype"));
    RIDGE_CHECK_OK(check_layout("gemm", "bias", args.bias, 1, "give a contiguous vector"));
  }
  if (!residual) return ok_status();
  const std::span<const std::int64_t> shape(args.c.shape.data(), static_cast<std::size_t>(args.c.rank));
  RIDGE_CHECK_OK(check_shape("gemm", "residual", args.residual, args.c.dtype, shape, "give it C's shape and dtype"));
  return check_layout("gemm", "residual", args.residual, args.c.rank, kLayoutHelp);
}

Status check_batch(const Args& args, int rank) {
  if (rank == 2 || (args.a.shape[0] == args.b.shape[0] && args.a.shape[0] == args.c.shape[0])) return ok_status();
  return with_hint(invalid("gemm: {}: batches of {}, {} and {} matrices", operand_text(args), args.a.shape[0],
                           args.b.shape[0], args.c.shape[0]),
                   "give A, B and C the same first size");
}

Status check_args(const Args& args) {
  // All of them matrices, or all with a batch before.
  const int rank = args.a.rank == 3 && (args.b.rank == 3 || args.c.rank == 3) ? 3 : 2;
  RIDGE_CHECK_OK(check_layout("gemm", "A", args.a, rank, kLayoutHelp));
  RIDGE_CHECK_OK(check_layout("gemm", "B", args.b, rank, kLayoutHelp));
  RIDGE_CHECK_OK(check_layout("gemm", "C", args.c, rank, kLayoutHelp));
  RIDGE_CHECK_OK(check_batch(args, rank));
  if (args.a.dtype != args.b.dtype || dtype_index(args.a.dtype) < 0) {
    return with_hint(invalid("gemm: {}: these dtypes are not supported", operand_text(args)), std::string(kDtypeHelp));
  }
  if (args.c.dtype != args.a.dtype && args.c.dtype != DType::kF32) {
    return with_hint(invalid("gemm: {}: C cannot be {}", operand_text(args), to_string(args.c.dtype)),
                     fmt::format("give C the dtype {} or f32", to_string(args.a.dtype)));
  }
  const auto side = [&](const TensorView& view, int which) {
    return view.shape[static_cast<std::size_t>(rank - 2 + which)];
  };
  const std::int64_t m = side(args.a, args.trans_a ? 1 : 0), k = side(args.a, args.trans_a ? 0 : 1);
  const std::int64_t k_of_b = side(args.b, args.trans_b ? 1 : 0), n = side(args.b, args.trans_b ? 0 : 1);
  if (k != k_of_b) {
    return with_hint(
        invalid("gemm: {}: op(A) has k = {} columns but op(B) has k = {} rows", operand_text(args), k, k_of_b),
        "check trans_a and trans_b");
  }
  if (side(args.c, 0) != m || side(args.c, 1) != n) {
    return with_hint(invalid("gemm: {}: op(A) op(B) is [{}, {}]", operand_text(args), m, n),
                     fmt::format("make C [{}, {}]", m, n));
  }
  RIDGE_CHECK_OK(check_epilogue(args));
  const TensorView none;
  return check_apart("gemm", {"C", &args.c},
                     {{"A", &args.a},
                      {"B", &args.b},
                      {"bias", args.bias.rank != 0 ? &args.bias : &none},
                      {"residual", args.residual.rank != 0 ? &args.residual : &none}});
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "out"});
  // One case has one spelling: an `out` equal to the inputs' dtype is "same".
  if (!canonical.get("out").empty() && canonical.get("out") == canonical.get("dtype", "f32"))
    canonical.set("out", "same");
  RIDGE_TRY(problem, bind_params("gemm", params(), canonical));
  const Shape s = shape_of(problem);
  if (s.accumulate && s.epilogue()) {
    return with_hint(invalid("{}: accumulate adds the product alone", problem.problem_case.text()),
                     "drop accumulate, or bias, activation and residual");
  }
  const auto stored = [&](std::int64_t rows, std::int64_t cols, bool transposed) {
    std::vector<std::int64_t> shape = transposed ? std::vector{cols, rows} : std::vector{rows, cols};
    if (s.batch != 1) shape.insert(shape.begin(), s.batch);
    return shape;
  };
  problem.operands = {{"a", s.dtype, stored(s.m, s.k, s.trans_a), false, false},
                      {"b", s.dtype, stored(s.k, s.n, s.trans_b), false, false}};
  if (s.bias) problem.operands.push_back({"bias", s.out, {s.n}, false, false});
  if (s.residual) problem.operands.push_back({"residual", s.out, stored(s.m, s.n, false), false, false});
  problem.operands.push_back({"c", s.out, stored(s.m, s.n, false), true, s.accumulate});
  RIDGE_CHECK_OK(check_addressable(problem));
  return problem;
}

}  // namespace

TensorView matrix_of(const TensorView& view, std::int64_t index) {
  if (view.rank < 3) return view;
  TensorView matrix;
  matrix.data = view.data;
  if (view.element_count() != 0) {  // else there may be no memory to point into
    matrix.data = static_cast<char*>(view.data) + size_bytes(view.dtype, index * view.stride[0]);
  }
  matrix.dtype = view.dtype;
  matrix.rank = 2;
  matrix.shape = {view.shape[1], view.shape[2]};
  matrix.stride = {view.stride[1], view.stride[2]};
  return matrix;
}

Run per_matrix(Run run) {
  return [run = std::move(run)](const Problem& problem, const Arguments& operands, const Stream& stream) -> Status {
    const std::int64_t batch = problem.values[kBatch];
    if (batch == 1) return run(problem, operands, stream);
    record::Case one = problem.problem_case;
    one.set("batch", "1");
    RIDGE_TRY(single, bind(one));
    single.configuration = problem.configuration;
    ShortList<TensorView, kWarmOperands> matrices;
    matrices.resize(single.operands.size());
    for (std::int64_t i = 0; i < batch; ++i) {
      for (std::size_t o = 0; o < matrices.size(); ++o) matrices[o] = matrix_of(operands[o], i);
      RIDGE_CHECK_OK(run(single, {matrices, operands.scalars, operands.workspace}, stream));
    }
    return ok_status();
  };
}

Refusal refuse_epilogue(const Shape& s, std::string_view whose) {
  if (!s.epilogue()) return std::nullopt;
  return fmt::format("{}{}{}{} multiplies and adds only", s.bias ? "bias=1 " : "",
                     s.activation != Activation::kNone ? "activation " : "", s.residual ? "residual=1: " : ": ", whose);
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  const bool batched = args.c.rank == 3;
  // One matrix is one matrix, in a batch or not.
  const auto plain = [&](const TensorView& view) {
    return batched && args.c.shape[0] == 1 ? matrix_of(view, 0) : view;
  };
  const auto row = static_cast<std::size_t>(batched ? 1 : 0);
  Call call;
  call.values.resize(kParamCount);
  call.values[kM] = args.c.shape[row];
  call.values[kN] = args.c.shape[row + 1];
  call.values[kK] = args.a.shape[row + (args.trans_a ? 0 : 1)];
  call.values[kBatch] = batched ? args.c.shape[0] : 1;
  call.values[kBias] = args.bias.rank != 0 ? 1 : 0;
  call.values[kActivation] = static_cast<std::int64_t>(args.activation);
  call.values[kResidual] = args.residual.rank != 0 ? 1 : 0;
  call.values[kDtype] = dtype_index(args.a.dtype);
  call.values[kOut] = args.c.dtype == args.a.dtype ? kOutSame : kOutF32;
  call.values[kLayout] = (args.trans_a ? 2 : 0) + (args.trans_b ? 1 : 0);
  call.values[kAccumulate] = args.accumulate ? 1 : 0;
  const auto add = [&](const TensorView& view) { call.operands.push_back(plain(view)); };
  add(args.a);
  add(args.b);
  if (args.bias.rank != 0) add(args.bias);
  if (args.residual.rank != 0) add(args.residual);
  add(args.c);
  return call;
}

namespace {

using GradCall = GemmArgs (*)(const GemmGradArgs&);

Gradient gradient(std::string input, GradCall grad_call) {
  return {
      std::move(input), "gemm",
      [grad_call](const Problem& problem, std::span<const TensorView> operands, const TensorView& grad_output,
                  const TensorView& grad_input) {
        const Shape s = shape_of(problem);
        if (s.activation != Activation::kNone) {
          return Result<Call>(with_hint(
              make_error(ErrorCode::kUnsupported, "{}: its gradient is not one product", problem.problem_case.text()),
              "multiply the gradient of C by the activation's derivative, then ask for activation=none"));
        }
        const GemmArgs forward{operands[0], operands[1], operands[s.c_at()], s.trans_a, s.trans_b, s.accumulate};
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
          record::flag_param("accumulate", "1: C += A*B"),
          {"batch", "1", "products side by side", {}},
          record::flag_param("bias", "1: add one to every row"),
          {"activation", "none", "of the product with its bias", {"none", "gelu", "gelu_tanh", "silu"}},
          record::flag_param("residual", "1: add a matrix last")};
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
  op.plan_values = [](const Problem& problem, std::span<const TensorView> operands, matmul::Values& values) {
    matmul::add_values(cuda_case(problem, operands), values);
  };
  op.vary = vary;
  op.excuses = [](const Problem& problem, numerics::Family family) {
    return family == numerics::Family::kDenormals && shape_of(problem).dtype == DType::kBf16;
  };
  op.gradients = {gradient("a", gemm_grad_a_call), gradient("b", gemm_grad_b_call)};
  return op;
}

}  // namespace ops::gemm
}  // namespace ridge
