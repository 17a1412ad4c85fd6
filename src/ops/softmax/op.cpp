#include <cmath>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/softmax/backward/backward.h"
#include "ops/softmax/softmax.h"

namespace ridge::ops::softmax {
namespace {

constexpr std::string_view kOp = "softmax";

Status check_output(const Args& args) {
  const bool sums = args.form == SoftmaxForm::kLogSumExp;
  const TensorView &wanted = sums ? args.lse : args.y, &other = sums ? args.y : args.lse;
  if (wanted.rank == 0 || other.rank != 0) {
    return with_hint(invalid("softmax: {}", wanted.rank == 0 ? "the output of its form is not given"
                                                             : "the output of another form is given, too"),
                     "give lse alone for logsumexp, and y alone for the other forms");
  }
  if (sums) {
    RIDGE_CHECK_OK(check_per_row(kOp, "lse", args.lse, DType::kF32, args.x.shape[0]));
    return check_apart(kOp, {"lse", &args.lse}, {{"x", &args.x}});
  }
  RIDGE_CHECK_OK(check_out(kOp, args.x.dtype, args.y.dtype));
  RIDGE_CHECK_OK(check_like_x(kOp, "y", args.y, args.y.dtype, std::span(args.x.shape).first(2)));
  return check_apart(kOp, {"y", &args.y}, {{"x", &args.x}});
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bound(kOp, requested));
  const Shape s = shape_of(problem);
  problem.operands = {{"x", s.dtype, {s.rows, s.cols}}};
  if (s.form == SoftmaxForm::kLogSumExp) {
    problem.operands.push_back({"lse", DType::kF32, {s.rows}, true});
  } else {
    problem.operands.push_back({"y", s.out, {s.rows, s.cols}, true});
  }
  return problem;
}

Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  softmax_backward::Args args;
  args.dy = grad_outputs[0];
  args.form = shape_of(problem).form;
  if (args.form == SoftmaxForm::kLogSumExp) {
    args.x = operand(problem, forward, "x");
    args.lse = operand(problem, forward, "lse");
  } else {
    args.y = operand(problem, forward, "y");
  }
  args.scale = forward.scalar(problem, kScale).real();
  args.dx = grad_inputs[0];
  return softmax_backward::make_call(args);
}

}  // namespace

std::vector<record::ParamInfo> params() {
  return {{"rows", "256", "of x", {}},
          {"cols", "1024", "of x, from 1", {}},
          {"dtype", "bf16", "of x", {"f32", "bf16", "f16"}},
          {"out", "bf16", "of y, dtype or f32; as dtype where it is not given", {"f32", "bf16", "f16"}},
          {"form", "softmax", "what is written of a row", {"softmax", "log_softmax", "logsumexp"}}};
}

Result<Problem> bound(std::string_view op, const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "out"});
  if (canonical.get("out").empty()) {
    const std::string dtype(canonical.get("dtype"));
    canonical.set("out", canonical.get("form") == "logsumexp" ? "f32" : dtype.empty() ? "bf16" : dtype);
  }
  RIDGE_TRY(problem, bind_params(op, params(), canonical));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, s.rows, s.cols));
  if (s.form == SoftmaxForm::kLogSumExp && s.out != DType::kF32) {
    return with_hint(invalid("{}: logsumexp is written in f32", problem.problem_case.text()), "leave out away");
  }
  RIDGE_CHECK_OK(check_out(problem.problem_case.text(), s.dtype, s.out));
  problem.scalars = {{"scale", "times x", record::Scalar::f32(1), -1, 1}};
  return problem;
}

Status check_scale(std::string_view op, double scale) {
  if (std::isfinite(static_cast<float>(scale))) return ok_status();
  return with_hint(invalid("{}: a scale of {} is not possible", op, scale), "give a finite number");
}

Status check_rows_of(std::string_view op, std::string_view name, const TensorView& view) {
  RIDGE_CHECK_OK(check_layout(op, name, view, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, view.dtype) >= 0) return check_row_length(op, view.shape[1]);
  return with_hint(invalid("{}: {} is {}; this dtype is not supported", op, name, view.describe()),
                   "give f32, bf16 or f16");
}

Status check_out(std::string_view op, DType x, DType y) {
  if (y == x || y == DType::kF32) return ok_status();
  return with_hint(invalid("{}: y is {} and x {}", op, to_string(y), to_string(x)), "give y of x's dtype, or of f32");
}

Call call_of(const TensorView& x, DType out, SoftmaxForm form, double scale) {
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = x.shape[0];
  call.values[kCols] = x.shape[1];
  call.values[kDtype] = index_of(kDtypes, x.dtype);
  call.values[kOut] = index_of(kDtypes, out);
  call.values[kForm] = static_cast<std::int64_t>(form);
  call.scalars.push_back(record::Scalar::f32(static_cast<float>(scale)));
  return call;
}

void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Shape s = shape_of(problem);
  bool vectors = size_bytes(s.dtype, s.cols) % 16 == 0;
  for (const TensorView& matrix : operands) {
    if (matrix.rank == 2) vectors = vectors && view_alignment(matrix) >= 16;
  }
  facts["vectors"] = vectors ? 1 : 0;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_rows_of(kOp, "x", args.x));
  RIDGE_CHECK_OK(check_scale(kOp, args.scale));
  RIDGE_CHECK_OK(check_output(args));
  const bool sums = args.form == SoftmaxForm::kLogSumExp;
  Call call = call_of(args.x, sums ? DType::kF32 : args.y.dtype, args.form, args.scale);
  call.operands.push_back(args.x);
  call.operands.push_back(sums ? args.lse : args.y);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "softmax, log-softmax or log-sum-exp of rows";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = plan_values;
  op.backward = Backward{"softmax_backward", {"x", "y", "lse"}, backward_call, {}};
  return op;
}

}  // namespace ridge::ops::softmax
