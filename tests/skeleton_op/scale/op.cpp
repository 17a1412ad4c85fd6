#include "scale/scale.h"

#include "base/error.h"
#include "scale/contract.h"

namespace ridge::ops::scale {
namespace {

Status check_vector(const char* name, const TensorView& v) {
  if (v.rank != 1 || v.dtype != DType::kF32 || v.shape[0] < 0 || (v.shape[0] > 1 && v.stride[0] != 1)) {
    return with_hint(invalid("scale: {} is {}", name, v.describe()), "give a contiguous f32 vector");
  }
  if (v.data == nullptr && v.shape[0] > 0) return invalid("scale: {} is {} but null", name, v.describe());
  return ok_status();
}

std::vector<record::ParamInfo> params() {
  return {{"n", "1000", "elements", {}}, record::real_param("alpha", "2", "the factor", -1e30, 1e30)};
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params("scale", params(), requested));
  const std::int64_t n = problem.values[kN];
  problem.operands = {{"x", DType::kF32, {n}, false, false}, {"y", DType::kF32, {n}, true, false}};
  problem.scalars = {{"beta", "what is added", record::Scalar::f32(0), -2, 2}};
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_vector("x", args.x));
  RIDGE_CHECK_OK(check_vector("y", args.y));
  if (args.x.shape[0] != args.y.shape[0]) {
    return invalid("scale: x has {} elements and y {}", args.x.shape[0], args.y.shape[0]);
  }
  Call call;
  call.values.resize(kParamCount);
  call.values[kN] = args.x.shape[0];
  call.values[kAlpha] = record::bits_of_real(args.alpha);
  call.operands.push_back(args.x);
  call.operands.push_back(args.y);
  call.scalars.push_back(record::Scalar::f32(args.beta));
  return call;
}

Operator describe() {
  Operator op;
  op.name = "scale";
  op.summary = "y = alpha * x + beta: the skeleton to copy";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.gradients = {{"x", "scale",
                   [](const Problem& problem, std::span<const TensorView>, const TensorView& grad_output,
                      const TensorView& grad_input) {
                     return make_call(Args{grad_output, grad_input, problem.real(kAlpha), 0});
                   }}};
  return op;
}

}  // namespace ridge::ops::scale
