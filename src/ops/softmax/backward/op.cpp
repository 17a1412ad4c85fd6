#include "base/error.h"
#include "ops/arguments.h"
#include "ops/softmax/backward/backward.h"

namespace ridge::ops::softmax_backward {
namespace {

constexpr std::string_view kOp = "softmax_backward";

Status check_form(const Args& args) {
  const bool sums = args.form == SoftmaxForm::kLogSumExp;
  const bool x = args.x.rank != 0, lse = args.lse.rank != 0, y = args.y.rank != 0;
  if (args.dx.rank == 0) return with_hint(invalid("{}: dx is not given", kOp), "give memory for it");
  if (x == sums && lse == sums && y != sums) return ok_status();
  return with_hint(
      invalid("{}: y is {}given, x {}, lse {}", kOp, y ? "" : "not ", x ? "is" : "is not", lse ? "is" : "is not"),
      "give x and lse for logsumexp, and y alone for the other forms");
}

// The gradients of rows beside y, or of the sums beside x.
Status check_inputs(const Args& args) {
  const std::span<const std::int64_t> shape = std::span(args.dx.shape).first(2);
  if (args.form == SoftmaxForm::kLogSumExp) {
    RIDGE_CHECK_OK(check_per_row(kOp, "dy", args.dy, DType::kF32, shape[0]));
    RIDGE_CHECK_OK(check_per_row(kOp, "lse", args.lse, DType::kF32, shape[0]));
    return check_like_x(kOp, "x", args.x, args.dx.dtype, shape);
  }
  RIDGE_CHECK_OK(softmax::check_out(kOp, args.dx.dtype, args.y.dtype));
  RIDGE_CHECK_OK(check_like_x(kOp, "y", args.y, args.y.dtype, shape));
  return check_like_x(kOp, "dy", args.dy, args.y.dtype, shape);
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, softmax::bound(kOp, requested));
  const softmax::Shape s = softmax::shape_of(problem);
  const std::vector<std::int64_t> matrix = {s.rows, s.cols}, vector = {s.rows};
  if (s.form == SoftmaxForm::kLogSumExp) {
    problem.operands = {{"dy", DType::kF32, vector}, {"x", s.dtype, matrix}, {"lse", DType::kF32, vector}};
    // As a forward call leaves them: lse is above every number of its row, whatever the scale.
    problem.operands[1].fill = {Fill::Rule::kUniform, -8, 8};
    problem.operands[2].fill = {Fill::Rule::kUniform, 8, 16};
  } else {
    problem.operands = {{"dy", s.out, matrix}, {"y", s.out, matrix}};
    problem.operands[1].fill =
        s.form == SoftmaxForm::kSoftmax ? Fill{Fill::Rule::kProbabilities, 0, 0} : Fill{Fill::Rule::kUniform, -16, 0};
  }
  problem.operands.push_back({"dx", s.dtype, matrix, true});
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_form(args));
  RIDGE_CHECK_OK(softmax::check_rows_of(kOp, "dx", args.dx));
  RIDGE_CHECK_OK(softmax::check_scale(kOp, args.scale));
  RIDGE_CHECK_OK(check_inputs(args));
  RIDGE_CHECK_OK(
      check_apart(kOp, {"dx", &args.dx}, {{"dy", &args.dy}, {"y", &args.y}, {"x", &args.x}, {"lse", &args.lse}}));
  const bool sums = args.form == SoftmaxForm::kLogSumExp;
  Call call = softmax::call_of(args.dx, sums ? DType::kF32 : args.y.dtype, args.form, args.scale);
  for (const TensorView* view : {&args.dy, &args.y, &args.x, &args.lse, &args.dx}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "the gradient of softmax, log-softmax or log-sum-exp of rows";
  op.params = softmax::params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = softmax::vary;
  op.plan_values = softmax::plan_values;
  return op;
}

}  // namespace ridge::ops::softmax_backward
