#include "base/error.h"
#include "ops/arguments.h"
#include "scale/backward/backward.h"
#include "scale/contract.h"
#include "scale/scale.h"

namespace ridge::ops::scale {
namespace {

Status check_vector(const char* name, const TensorView& v, DType dtype, std::int64_t n) {
  if (v.rank != 1 || v.dtype != dtype || v.shape[0] != n || n < 0 || (n > 1 && v.stride[0] != 1)) {
    return with_hint(invalid("scale: {} is {}", name, v.describe()),
                     fmt::format("give a contiguous {} vector of {} elements", to_string(dtype), n));
  }
  if (v.data == nullptr && n > 0) return invalid("scale: {} is {} but null", name, v.describe());
  return ok_status();
}

Status check_args(const Args& args) {
  const std::int64_t n = args.x.shape[0];
  RIDGE_CHECK_OK(check_vector("x", args.x, DType::kF32, n));
  RIDGE_CHECK_OK(check_vector("y", args.y, DType::kF32, n));
  const TensorView none;
  const NamedView x{"x", args.y.data == args.x.data ? &none : &args.x}, y{"y", &args.y}, gain{"gain", &args.gain},
      top{"top", &args.top};
  if (args.gain.rank != 0) RIDGE_CHECK_OK(check_vector("gain", args.gain, DType::kF32, n));
  RIDGE_CHECK_OK(check_apart("scale", y, {x, gain}));
  if (args.top.rank == 0) return ok_status();
  RIDGE_CHECK_OK(check_vector("top", args.top, DType::kI64, 1));
  return check_apart("scale", top, {{"x", &args.x}, y, gain});
}

std::vector<record::ParamInfo> params() {
  return {{"n", "1000", "elements", {}},
          record::real_param("alpha", "2", "the factor", -1e30, 1e30),
          record::flag_param("gain", "1: a factor for every element"),
          record::flag_param("top", "1: also say where the largest element is")};
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params("scale", params(), requested));
  const std::int64_t n = problem.values[kN];
  problem.operands = {{"x", DType::kF32, {n}, false, false}};
  if (problem.values[kGain] == 1) {
    problem.operands.push_back({"gain", DType::kF32, {n}, false, false, {Fill::Rule::kUniform, 0.5, 2}});
  }
  problem.operands.push_back({"y", DType::kF32, {n}, true, false});
  if (problem.values[kTop] == 1) problem.operands.push_back({"top", DType::kI64, {1}, true, false});
  problem.scalars = {{"beta", "what is added", record::Scalar::f32(0), -2, 2}};
  return problem;
}

}  // namespace

Vectors vectors_of(const Problem& problem, const Arguments& arguments) {
  const auto address = [&](const char* name) -> void* {
    const auto at = problem.position(name);
    return at ? arguments[*at].data : nullptr;
  };
  Vectors v;
  v.n = problem.values[kN];
  v.alpha = static_cast<float>(problem.real(kAlpha));
  v.beta = static_cast<float>(arguments.scalar(problem, kBeta).real());
  v.x = static_cast<const float*>(address("x"));
  v.gain = static_cast<const float*>(address("gain"));
  v.y = static_cast<float*>(address("y"));
  v.top = static_cast<std::int64_t*>(address("top"));
  return v;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  call.values[kN] = args.x.shape[0];
  call.values[kAlpha] = record::bits_of_real(args.alpha);
  call.values[kGain] = args.gain.rank != 0 ? 1 : 0;
  call.values[kTop] = args.top.rank != 0 ? 1 : 0;
  call.operands.push_back(args.x);
  if (args.gain.rank != 0) call.operands.push_back(args.gain);
  call.operands.push_back(args.y);
  if (args.top.rank != 0) call.operands.push_back(args.top);
  call.scalars.push_back(record::Scalar::f32(args.beta));
  return call;
}

namespace {

Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  scale_backward::Args args;
  args.dy = grad_outputs[0];
  args.alpha = problem.real(kAlpha);
  args.dx = grad_inputs[0];
  if (const auto gain = problem.position("gain")) {
    args.gain = forward[*gain];
    args.dgain = grad_inputs[*gain];
    if (args.dgain.rank != 0) args.x = forward[0];
  }
  return scale_backward::make_call(args);
}

}  // namespace

Operator describe() {
  Operator op;
  op.name = "scale";
  op.summary = "y = alpha * gain * x + beta, and where the largest x is: the skeleton to copy";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.backward = Backward{"scale_backward", {"x", "gain"}, backward_call};
  return op;
}

}  // namespace ridge::ops::scale
