#include <cmath>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/symmetric_product/symmetric_product.h"

namespace ridge::ops::symmetric_product {
namespace {

constexpr std::string_view kOp = "symmetric_product";
constexpr std::string_view kCopy = "copy it to a row-major matrix, or pass its transpose with trans_a";

std::vector<record::ParamInfo> params() {
  return {{"n", "256", "rows and columns of C", {}},
          {"k", "256", "terms of each sum", {}},
          {"dtype", "bf16", "of A", {"f32", "bf16", "f16"}},
          {"out", "same", "dtype of C and of the residual", {"same", "f32"}},
          {"layout", "n", "of A: n as is, t stored transposed", {"n", "t"}},
          {"batch", "1", "products side by side", {}},
          record::flag_param("residual", "1: add a symmetric matrix, times beta")};
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "out"});
  if (!canonical.get("out").empty() && canonical.get("out") == canonical.get("dtype", "bf16")) {
    canonical.set("out", "same");
  }
  RIDGE_TRY(problem, bind_params(kOp, params(), canonical));
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> square = {s.batch, s.n, s.n};
  problem.operands = {
      {"a", s.dtype, s.trans_a ? std::vector{s.batch, s.k, s.n} : std::vector{s.batch, s.n, s.k}, false, false}};
  if (s.residual) problem.operands.push_back({"residual", s.out, square, false, false});
  problem.operands.push_back({"c", s.out, square, true, false});
  problem.scalars = {{"alpha", "factor of the product", record::Scalar::f32(1), -3, 3},
                     {"beta", "factor of the residual", record::Scalar::f32(1), -3, 3},
                     {"shift", "added to the diagonal", record::Scalar::f32(0), -4, 4}};
  RIDGE_CHECK_OK(check_addressable(problem));
  return problem;
}

// ---- The arguments of callers

std::string operand_text(const Args& args) {
  return fmt::format("A {}{}, C {}", args.a.describe(), args.trans_a ? " transposed" : "", args.c.describe());
}

Status check_dtypes(const Args& args) {
  if (index_of(kDtypes, args.a.dtype) < 0) {
    return with_hint(invalid("{}: {}: this dtype of A is not supported", kOp, operand_text(args)),
                     "give f32, bf16 or f16");
  }
  if (args.c.dtype == args.a.dtype || args.c.dtype == DType::kF32) return ok_status();
  return with_hint(invalid("{}: {}: C cannot be {}", kOp, operand_text(args), to_string(args.c.dtype)),
                   fmt::format("give C the dtype {} or f32", to_string(args.a.dtype)));
}

Status check_sizes(const Args& args, int rank) {
  const auto row = static_cast<std::size_t>(rank - 2);
  if (rank == 3 && args.a.shape[0] != args.c.shape[0]) {
    return with_hint(
        invalid("{}: {}: batches of {} and {} matrices", kOp, operand_text(args), args.a.shape[0], args.c.shape[0]),
        "give A and C the same first size");
  }
  const std::int64_t n = args.a.shape[row + (args.trans_a ? 1 : 0)];
  if (args.c.shape[row] == n && args.c.shape[row + 1] == n) return ok_status();
  return with_hint(invalid("{}: {}: op(A) op(A)^T is [{}, {}]", kOp, operand_text(args), n, n),
                   fmt::format("make C [{}, {}], or check trans_a", n, n));
}

Status check_scalar(const char* name, double value) {
  if (std::isfinite(static_cast<float>(value))) return ok_status();
  return with_hint(invalid("{}: {} is {}, which is not possible", kOp, name, value), "give a finite number of fp32");
}

Status check_args(const Args& args) {
  const int rank = args.a.rank == 3 ? 3 : 2;
  RIDGE_CHECK_OK(check_layout(kOp, "A", args.a, rank, kCopy));
  RIDGE_CHECK_OK(check_layout(kOp, "C", args.c, rank, kCopy));
  RIDGE_CHECK_OK(check_dtypes(args));
  RIDGE_CHECK_OK(check_sizes(args, rank));
  const TensorView none;
  if (args.residual.rank != 0) {
    const std::span<const std::int64_t> shape(args.c.shape.data(), static_cast<std::size_t>(rank));
    RIDGE_CHECK_OK(check_shape(kOp, "residual", args.residual, args.c.dtype, shape, "give it C's shape and dtype"));
    RIDGE_CHECK_OK(check_layout(kOp, "residual", args.residual, rank, "copy it to a row-major matrix"));
  }
  RIDGE_CHECK_OK(check_scalar("alpha", args.alpha));
  RIDGE_CHECK_OK(check_scalar("beta", args.beta));
  RIDGE_CHECK_OK(check_scalar("shift", args.shift));
  return check_apart(kOp, {"C", &args.c},
                     {{"A", &args.a}, {"residual", args.residual.rank != 0 ? &args.residual : &none}});
}

// One matrix as a batch of one.
TensorView stack_of(const TensorView& view) {
  if (view.rank == 3) return view;
  TensorView stack = view;
  stack.rank = 3;
  stack.shape = {1, view.shape[0], view.shape[1]};
  stack.stride = {view.shape[0] * view.stride[0], view.stride[0], view.stride[1]};
  return stack;
}

// Launch plans name the residual's memory of every case: strides of nothing are 0.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Shape s = shape_of(problem);
  const bool known = s.residual && !operands.empty();
  const std::int64_t rows = s.residual ? s.n : 0;
  facts["row_residual"] = known ? operands[s.residual_at()].stride[1] : rows;
  facts["matrix_residual"] = known ? operands[s.residual_at()].stride[0] : rows * rows;
  facts["align_residual"] = known        ? view_alignment(operands[s.residual_at()])
                            : s.residual ? operand_alignment(problem, s.residual_at())
                                         : 16;
}

}  // namespace

Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  const DType dtype = kDtypes[v[kDtype]];
  return {v[kN],
          v[kK],
          v[kBatch],
          dtype,
          v[kOut] == kOutF32 ? DType::kF32 : dtype,
          v[kLayout] == kTransposed,
          v[kResidual] == 1};
}

Factors factors_of(const Problem& problem, const Arguments& arguments) {
  const auto given = [&](Scalar at) { return static_cast<float>(arguments.scalar(problem, at).real()); };
  return {given(kAlpha), given(kBeta), given(kShift)};
}

TensorView matrix_of(const TensorView& stack, std::int64_t index) {
  TensorView matrix;
  matrix.data = stack.data;
  if (stack.element_count() != 0) {  // else there may be no memory to point into
    matrix.data = static_cast<char*>(stack.data) + size_bytes(stack.dtype, index * stack.stride[0]);
  }
  matrix.dtype = stack.dtype;
  matrix.rank = 2;
  matrix.shape = {stack.shape[1], stack.shape[2]};
  matrix.stride = {stack.stride[1], stack.stride[2]};
  return matrix;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  const TensorView a = stack_of(args.a);
  Call call;
  call.values.resize(kParamCount);
  call.values[kN] = args.c.shape[static_cast<std::size_t>(args.c.rank - 1)];
  call.values[kK] = a.shape[args.trans_a ? 1 : 2];
  call.values[kDtype] = index_of(kDtypes, args.a.dtype);
  call.values[kOut] = args.c.dtype == args.a.dtype ? kOutSame : kOutF32;
  call.values[kLayout] = args.trans_a ? kTransposed : kAsIs;
  call.values[kBatch] = a.shape[0];
  call.values[kResidual] = args.residual.rank != 0 ? 1 : 0;
  call.operands.push_back(a);
  if (args.residual.rank != 0) call.operands.push_back(stack_of(args.residual));
  call.operands.push_back(stack_of(args.c));
  for (const double scalar : {args.alpha, args.beta, args.shift}) {
    call.scalars.push_back(record::Scalar::f32(static_cast<float>(scalar)));
  }
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "C = alpha A A^T + beta R + shift I: half of the products, both triangles";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = plan_values;
  op.excuses = [](const Problem& problem, numerics::Family family) {
    return family == numerics::Family::kDenormals && shape_of(problem).dtype == DType::kBf16;
  };
  return op;
}

}  // namespace ridge::ops::symmetric_product
