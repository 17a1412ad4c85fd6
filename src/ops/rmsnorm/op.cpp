#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/rmsnorm/backward/backward.h"
#include "ops/rmsnorm/contract.h"
#include "ops/rmsnorm/rmsnorm.h"

namespace ridge::ops::rmsnorm {
namespace {

constexpr std::string_view kOp = "rmsnorm";

Status check_eps(double eps) {
  const auto stored = static_cast<float>(eps);
  if (stored >= 0 && std::isfinite(stored)) return ok_status();
  return with_hint(invalid("rmsnorm: an eps of {} is not possible", eps), "give a finite number from 0");
}

Status check_outputs(const Args& args) {
  const NamedView x{"x", &args.x}, residual{"residual", &args.residual}, weight{"weight", &args.weight},
      y{"y", &args.y}, sum{"sum", &args.sum}, rstd{"rstd", &args.rstd};
  RIDGE_CHECK_OK(check_apart(kOp, y, {x, residual, weight, sum, rstd}));
  RIDGE_CHECK_OK(check_apart(kOp, sum, {x, residual, weight, rstd}));
  return check_apart(kOp, rstd, {x, residual, weight});
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_layout(kOp, "x", args.x, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, args.x.dtype) < 0) {
    return with_hint(invalid("rmsnorm: x is {}; this dtype is not supported", args.x.describe()),
                     "give f32, bf16 or f16");
  }
  const std::int64_t shape[] = {args.x.shape[0], args.x.shape[1]};
  RIDGE_CHECK_OK(check_row_length(kOp, shape[1]));
  RIDGE_CHECK_OK(check_like_x(kOp, "y", args.y, args.x.dtype, shape));
  RIDGE_CHECK_OK(check_weight(kOp, "weight", args.weight, args.x.dtype, shape[1]));
  if (args.zero_centred && args.weight.rank == 0) return zero_centred_without_weight(kOp);
  if ((args.residual.rank != 0) != (args.sum.rank != 0)) {
    return with_hint(invalid("rmsnorm: {} is given without {}", args.sum.rank != 0 ? "sum" : "residual",
                             args.sum.rank != 0 ? "residual" : "sum"),
                     "give both, or neither");
  }
  if (args.residual.rank != 0) {
    RIDGE_CHECK_OK(check_like_x(kOp, "residual", args.residual, args.x.dtype, shape));
    RIDGE_CHECK_OK(check_like_x(kOp, "sum", args.sum, args.x.dtype, shape));
  }
  if (args.rstd.rank != 0) RIDGE_CHECK_OK(check_per_row(kOp, "rstd", args.rstd, DType::kF32, shape[0]));
  RIDGE_CHECK_OK(check_eps(args.eps));
  return check_outputs(args);
}

std::vector<record::ParamInfo> params() {
  return {{"rows", "256", "of x", {}},
          {"cols", "1024", "of x, from 1", {}},
          {"dtype", "bf16", "of x and y", {"f32", "bf16", "f16"}},
          {"weight", "same", "same: of the dtype of x; none: 1", {"none", "same", "f32"}},
          record::flag_param("zero_centred", "1: the weight counts as 1 + weight"),
          record::flag_param("residual", "1: of x + residual, which is written, too"),
          {"rstd", "1", "1: the factor of every row is written, for backward", {"0", "1"}, record::ParamKind::kFlag}};
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, params(), with_dtype_names(requested, {"dtype"})));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, s.rows, s.cols));
  if (s.zero_centred && s.weight == Weight::kNone)
    return zero_centred_without_weight(problem.problem_case.text()).error();
  const std::vector<std::int64_t> shape = {s.rows, s.cols};
  problem.operands = {{"x", s.dtype, shape}};
  if (s.residual) problem.operands.push_back({"residual", s.dtype, shape});
  if (s.weight != Weight::kNone) problem.operands.push_back({"weight", weight_dtype(s.weight, s.dtype), {s.cols}});
  problem.operands.push_back({"y", s.dtype, shape, true});
  if (s.residual) problem.operands.push_back({"sum", s.dtype, shape, true});
  if (s.rstd) problem.operands.push_back({"rstd", DType::kF32, {s.rows}, true});
  problem.scalars = {{"eps", "added to the mean of the squares", record::Scalar::f32(1e-6F), 1e-6, 0.5}};
  return problem;
}

Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  const Shape s = shape_of(problem);
  if (!s.rstd) {
    return with_hint(make_error(ErrorCode::kUnsupported, "{}: backward reads rstd, which this call does not write",
                                problem.problem_case.text()),
                     "give rstd in the forward call");
  }
  const std::size_t first_output = *problem.position("y");
  const auto gradient = [&](const char* name) {
    const auto at = problem.position(name);
    if (!at) return TensorView();
    return *at < first_output ? grad_inputs[*at] : grad_outputs[*at - first_output];
  };
  rmsnorm_backward::Args args;
  args.dy = gradient("y");
  args.x = operand(problem, forward, s.residual ? "sum" : "x");
  args.rstd = operand(problem, forward, "rstd");
  args.weight = operand(problem, forward, "weight");
  args.zero_centred = s.zero_centred;
  args.dsum = gradient("sum");
  args.dx = gradient("x");
  args.dweight = gradient("weight");
  const TensorView residual = gradient("residual");
  if (residual.rank != 0 && args.dx.rank != 0 && residual.data != args.dx.data) {
    return with_hint(
        make_error(ErrorCode::kUnsupported, "{}: the gradients of x and residual are the same numbers, made once",
                   problem.problem_case.text()),
        "ask for one of them, or give both the same memory");
  }
  if (args.dx.rank == 0) args.dx = residual;
  return rmsnorm_backward::make_call(args);
}

}  // namespace

Status check_weight(std::string_view op, const char* name, const TensorView& view, DType dtype, std::int64_t cols) {
  if (view.rank == 0) return ok_status();
  const std::int64_t shape[] = {cols};
  const DType own = view.dtype == DType::kF32 ? DType::kF32 : dtype;
  RIDGE_CHECK_OK(check_shape(op, name, view, own, shape, "one number for each column, of the dtype of x or f32"));
  return check_layout(op, name, view, 1, "give a contiguous vector");
}

Status zero_centred_without_weight(std::string_view where) {
  return with_hint(invalid("{}: zero_centred is about the weight, and there is none", where),
                   "give a weight, or leave zero_centred out");
}

void vector_facts(const Problem& problem, std::span<const TensorView> operands,
                  std::map<std::string, std::int64_t>& facts) {
  bool vectors = size_bytes(operands[0].dtype, operands[0].shape[1]) % 16 == 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (problem.operands[i].name != "rstd") vectors = vectors && view_alignment(operands[i]) >= 16;
  }
  facts["vectors"] = vectors ? 1 : 0;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = args.x.shape[0];
  call.values[kCols] = args.x.shape[1];
  call.values[kDtype] = index_of(kDtypes, args.x.dtype);
  call.values[kWeight] = weight_param(args.weight, args.x.dtype);
  call.values[kZeroCentred] = args.zero_centred ? 1 : 0;
  call.values[kResidual] = args.residual.rank != 0 ? 1 : 0;
  call.values[kRstd] = args.rstd.rank != 0 ? 1 : 0;
  for (const TensorView* view : {&args.x, &args.residual, &args.weight, &args.y, &args.sum, &args.rstd}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  call.scalars.push_back(record::Scalar::f32(static_cast<float>(args.eps)));
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "rows divided by the root of their mean square, times a weight; with a residual added first";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = vector_facts;
  op.backward = Backward{"rmsnorm_backward", {"x", "sum", "weight", "rstd"}, backward_call, {"rstd"}};
  return op;
}

}  // namespace ridge::ops::rmsnorm
