#include "base/error.h"
#include "ops/activation/quantize/backward/backward.h"
#include "ops/arguments.h"

namespace ridge::ops::activation_quantize_backward {
namespace {

constexpr std::string_view kOp = "activation_quantize_backward";

std::vector<record::ParamInfo> all_params() {
  std::vector<record::ParamInfo> all = activation::params();
  coding::add_params(all, "1x128");
  return all;
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "format"});
  coding::complete(canonical);
  RIDGE_TRY(problem, bind_params(kOp, all_params(), canonical));
  const activation::Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, s.rows, s.cols));
  problem.operands = {{"dy", s.dtype, {s.rows, s.cols}}};
  activation::add_inputs(problem);
  RIDGE_CHECK_OK(coding::add_operands(problem, coding_of(problem)));
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  const activation::Args& forward = args.forward;
  RIDGE_CHECK_OK(activation::check_inputs(kOp, forward));
  RIDGE_CHECK_OK(check_like_x(kOp, "dy", args.dy, forward.x.dtype, std::span(forward.x.shape).first(2)));
  TensorView gradient = forward.x;  // of its shape, with both side by side
  if (forward.up.rank != 0) gradient.shape[1] *= 2;
  const coding::Views views = coding::views_of(args);
  const NamedView inputs[] = {
      {"dy", &args.dy}, {"x", &forward.x}, {"up", &forward.up}, {"probs", &forward.probs}, {"mask", &forward.mask}};
  RIDGE_CHECK_OK(coding::check(kOp, views, gradient, inputs, "the gradient"));
  const Call inner = activation::call_of(forward);
  Call call;
  call.values = inner.values;
  call.scalars = inner.scalars;
  call.operands.push_back(args.dy);
  for (const TensorView& view : inner.operands) call.operands.push_back(view);
  coding::add_to(call, views);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "gradients of activation in 8-bit floats with scales, and of their transpose, without storing them";
  op.params = all_params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    return spot_check_by_reference(problem, arguments, reference);
  };
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = activation::vary;
  return op;
}

}  // namespace ridge::ops::activation_quantize_backward
