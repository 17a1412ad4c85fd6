#include <cmath>

#include "base/error.h"
#include "ops/activation/activation.h"
#include "ops/activation/backward/backward.h"
#include "ops/arguments.h"

namespace ridge::ops::activation {
namespace {

constexpr std::string_view kOp = "activation";
constexpr DType kProbsType = DType::kF32, kMaskType = DType::kU8;

Status check_scalars(std::string_view op, const Args& args) {
  const auto alpha = static_cast<float>(args.alpha), limit = static_cast<float>(args.limit);
  if (!std::isfinite(alpha)) {
    return with_hint(invalid("{}: an alpha of {} is not possible", op, args.alpha), "give a finite number");
  }
  if (limit >= 0 && std::isfinite(limit)) return ok_status();
  return with_hint(invalid("{}: a limit of {} is not possible", op, args.limit), "give a finite number from 0");
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, params(), with_dtype_names(requested, {"dtype"})));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, s.rows, s.cols));
  add_inputs(problem);
  problem.operands.push_back({"y", s.dtype, {s.rows, s.cols}, true});
  return problem;
}

Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  const auto gradient = [&](const char* name) {
    const auto at = problem.position(name);
    return at ? grad_inputs[*at] : TensorView();
  };
  if (gradient("mask").rank != 0) {
    return with_hint(make_error(ErrorCode::kUnsupported, "{}: mask has no gradient", problem.problem_case.text()),
                     "leave it out");
  }
  activation_backward::Args args;
  args.dy = grad_outputs[0];
  args.forward.x = operand(problem, forward, "x");
  args.forward.up = operand(problem, forward, "up");
  args.forward.probs = operand(problem, forward, "probs");
  args.forward.mask = operand(problem, forward, "mask");
  args.forward.function = shape_of(problem).function;
  args.forward.alpha = forward.scalar(problem, kAlpha).real();
  args.forward.limit = forward.scalar(problem, kLimit).real();
  args.dx = gradient("x");
  args.dup = gradient("up");
  args.dprobs = gradient("probs");
  return activation_backward::make_call(args);
}

}  // namespace

std::vector<record::ParamInfo> params() {
  return {{"rows", "256", "of x", {}},
          {"cols", "1024", "of x", {}},
          {"dtype", "bf16", "of x, up and y", {"f32", "bf16", "f16"}},
          {"function", "silu", "f", {"silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"}},
          {"gated", "1", "1: times up", {"0", "1"}, record::ParamKind::kFlag},
          record::flag_param("probs", "1: times a factor of each row"),
          record::flag_param("mask", "1: rows whose mask is 0 are 0")};
}

Status check_inputs(std::string_view op, const Args& args) {
  RIDGE_CHECK_OK(check_layout(op, "x", args.x, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, args.x.dtype) < 0) {
    return with_hint(invalid("{}: x is {}; this dtype is not supported", op, args.x.describe()),
                     "give f32, bf16 or f16");
  }
  const std::int64_t shape[] = {args.x.shape[0], args.x.shape[1]};
  RIDGE_CHECK_OK(check_row_length(op, shape[1]));
  if (args.up.rank != 0) RIDGE_CHECK_OK(check_like_x(op, "up", args.up, args.x.dtype, shape));
  if (args.probs.rank != 0) RIDGE_CHECK_OK(check_per_row(op, "probs", args.probs, kProbsType, shape[0]));
  if (args.mask.rank != 0) RIDGE_CHECK_OK(check_per_row(op, "mask", args.mask, kMaskType, shape[0]));
  return check_scalars(op, args);
}

void add_inputs(Problem& problem) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> shape = {s.rows, s.cols};
  problem.operands.push_back({"x", s.dtype, shape});
  if (s.gated) problem.operands.push_back({"up", s.dtype, shape});
  if (s.probs) problem.operands.push_back({"probs", kProbsType, {s.rows}});
  if (s.mask) {
    OperandSpec mask{"mask", kMaskType, {s.rows}};
    mask.fill = {Fill::Rule::kIndices, 0, 1};
    problem.operands.push_back(mask);
  }
  problem.scalars = {{"alpha", "slope of clamped_silu", record::Scalar::f32(1.702F), 0.5, 2},
                     {"limit", "where clamped_silu cuts off", record::Scalar::f32(7.0F), 0.25, 4}};
}

Call call_of(const Args& args) {
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = args.x.shape[0];
  call.values[kCols] = args.x.shape[1];
  call.values[kDtype] = index_of(kDtypes, args.x.dtype);
  call.values[kFunction] = static_cast<std::int64_t>(args.function);
  call.values[kGated] = args.up.rank != 0 ? 1 : 0;
  call.values[kProbs] = args.probs.rank != 0 ? 1 : 0;
  call.values[kMask] = args.mask.rank != 0 ? 1 : 0;
  for (const TensorView* view : {&args.x, &args.up, &args.probs, &args.mask}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  call.scalars.push_back(record::Scalar::f32(static_cast<float>(args.alpha)));
  call.scalars.push_back(record::Scalar::f32(static_cast<float>(args.limit)));
  return call;
}

void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Shape s = shape_of(problem);
  bool follow = !s.probs && !s.mask, vectors = size_bytes(s.dtype, s.cols) % 16 == 0;
  for (const TensorView& matrix : operands) {
    if (matrix.rank != 2) continue;
    follow = follow && (s.rows <= 1 || matrix.stride[0] == s.cols);
    vectors = vectors && view_alignment(matrix) >= 16;
  }
  facts["one_row"] = follow ? 1 : 0;
  facts["vectors"] = vectors ? 1 : 0;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_inputs(kOp, args));
  RIDGE_CHECK_OK(check_like_x(kOp, "y", args.y, args.x.dtype, std::span(args.x.shape).first(2)));
  RIDGE_CHECK_OK(check_apart(kOp, {"y", &args.y},
                             {{"x", &args.x}, {"up", &args.up}, {"probs", &args.probs}, {"mask", &args.mask}}));
  Call call = call_of(args);
  call.operands.push_back(args.y);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "SiLU, GELU, ReLU and their like of every element, times a second matrix (SwiGLU, GEGLU, ReGLU)";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = plan_values;
  op.backward = Backward{"activation_backward", {"x", "up", "probs", "mask"}, backward_call, {}};
  return op;
}

}  // namespace ridge::ops::activation
