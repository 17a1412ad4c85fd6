#include "base/error.h"
#include "ops/arguments.h"
#include "scale/backward/backward.h"

namespace ridge::ops::scale_backward {
namespace {

Status check_vector(const char* name, const TensorView& v, std::int64_t n) {
  const std::int64_t shape[] = {n};
  RIDGE_CHECK_OK(check_shape("scale_backward", name, v, DType::kF32, shape, "give it the shape and dtype of dy"));
  return check_layout("scale_backward", name, v, 1, "give a contiguous vector");
}

Status check_args(const Args& args) {
  const std::int64_t n = args.dy.shape[0];
  RIDGE_CHECK_OK(check_vector("dy", args.dy, n));
  if (args.dx.rank == 0 && args.dgain.rank == 0) {
    return with_hint(invalid("scale_backward: neither dx nor dgain is given"), "give one of them, or both");
  }
  if (args.dgain.rank != 0 && args.x.rank == 0) {
    return with_hint(invalid("scale_backward: dgain is wanted but x is not given"), "save x of the forward call");
  }
  const TensorView none;
  const NamedView dy{"dy", &args.dy}, x{"x", &args.x}, gain{"gain", &args.gain}, dx{"dx", &args.dx},
      dgain{"dgain", &args.dgain};
  for (const NamedView& one : {x, gain, dx, dgain}) {
    if (one.view->rank != 0) RIDGE_CHECK_OK(check_vector(std::string(one.name).c_str(), *one.view, n));
  }
  if (args.dx.rank != 0) RIDGE_CHECK_OK(check_apart("scale_backward", dx, {dy, x, gain, dgain}));
  return args.dgain.rank != 0 ? check_apart("scale_backward", dgain, {dy, x, gain}) : ok_status();
}

std::vector<record::ParamInfo> params() {
  return {{"n", "1000", "elements", {}},
          record::real_param("alpha", "2", "the factor", -1e30, 1e30),
          record::flag_param("gain", "1: the forward has a factor for every element"),
          {"wanted", "dx", "gradients", {"dx", "dgain", "both"}}};
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params("scale_backward", params(), requested));
  const std::vector<std::int64_t> shape = {problem.values[kN]};
  const bool gain = problem.values[kGain] == 1, dx = problem.values[kWanted] != kDgain,
             dgain = problem.values[kWanted] != kDx;
  if (dgain && !gain) {
    return with_hint(invalid("{}: there is no gain to have a gradient", problem.problem_case.text()),
                     "set gain=1 or wanted=dx");
  }
  problem.operands = {{"dy", DType::kF32, shape, false, false}};
  if (dgain) problem.operands.push_back({"x", DType::kF32, shape, false, false});
  if (gain && dx)
    problem.operands.push_back({"gain", DType::kF32, shape, false, false, {Fill::Rule::kUniform, 0.5, 2}});
  if (dx) problem.operands.push_back({"dx", DType::kF32, shape, true, false});
  if (dgain) problem.operands.push_back({"dgain", DType::kF32, shape, true, false});
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  const bool dx = args.dx.rank != 0, dgain = args.dgain.rank != 0, gain = dgain || args.gain.rank != 0;
  Call call;
  call.values = {args.dy.shape[0], record::bits_of_real(args.alpha), gain ? 1 : 0,
                 dx && dgain ? kBoth
                 : dx        ? kDx
                             : kDgain};
  call.operands.push_back(args.dy);
  if (dgain) call.operands.push_back(args.x);
  if (gain && dx) call.operands.push_back(args.gain);
  if (dx) call.operands.push_back(args.dx);
  if (dgain) call.operands.push_back(args.dgain);
  return call;
}

Operator describe() {
  Operator op;
  op.name = "scale_backward";
  op.summary = "gradients of scale: dx and dgain";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = [](const Problem& problem, Variation variation, std::uint64_t seed) {
    constexpr std::size_t kSizes[] = {kN};
    return vary_sizes(problem, kSizes, 40, variation, seed);
  };
  return op;
}

}  // namespace ridge::ops::scale_backward
