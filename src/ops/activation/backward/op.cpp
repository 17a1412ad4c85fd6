#include "base/error.h"
#include "ops/activation/backward/backward.h"
#include "ops/arguments.h"

namespace ridge::ops::activation_backward {
namespace {

constexpr std::string_view kOp = "activation_backward";

Status check_wanted(std::string_view where, const Wanted& wanted, bool gated, bool probs) {
  if (wanted.dup && !gated) {
    return with_hint(invalid("{}: dup is wanted and there is no up", where), "give up, or leave dup out");
  }
  if (wanted.dprobs && !probs) {
    return with_hint(invalid("{}: dprobs is wanted and there are no probs", where), "give probs, or leave dprobs out");
  }
  if (wanted.dx || wanted.dup || wanted.dprobs) return ok_status();
  return with_hint(invalid("{}: no gradient is wanted", where), "give one of dx, dup and dprobs");
}

Status check_args(const Args& args, const Wanted& wanted) {
  const activation::Args& forward = args.forward;
  RIDGE_CHECK_OK(activation::check_inputs(kOp, forward));
  RIDGE_CHECK_OK(check_wanted(kOp, wanted, forward.up.rank != 0, forward.probs.rank != 0));
  const std::span<const std::int64_t> shape = std::span(forward.x.shape).first(2);
  RIDGE_CHECK_OK(check_like_x(kOp, "dy", args.dy, forward.x.dtype, shape));
  if (wanted.dx) RIDGE_CHECK_OK(check_like_x(kOp, "dx", args.dx, forward.x.dtype, shape));
  if (wanted.dup) RIDGE_CHECK_OK(check_like_x(kOp, "dup", args.dup, forward.x.dtype, shape));
  if (wanted.dprobs) RIDGE_CHECK_OK(check_per_row(kOp, "dprobs", args.dprobs, DType::kF32, shape[0]));
  const NamedView dx{"dx", &args.dx}, dup{"dup", &args.dup}, dprobs{"dprobs", &args.dprobs};
  for (const NamedView& output : {dx, dup, dprobs}) {
    RIDGE_CHECK_OK(check_apart(kOp, output,
                               {{"dy", &args.dy},
                                {"x", &forward.x},
                                {"up", &forward.up},
                                {"probs", &forward.probs},
                                {"mask", &forward.mask}}));
  }
  RIDGE_CHECK_OK(check_apart(kOp, dx, {dup, dprobs}));
  return check_apart(kOp, dup, {dprobs});
}

std::vector<record::ParamInfo> all_params() {
  std::vector<record::ParamInfo> all = activation::params();
  all.push_back({"dx", "1", "1: wanted", {"0", "1"}, record::ParamKind::kFlag});
  all.push_back(record::flag_param("dup", "1: wanted; as gated where it is not given"));
  all.push_back(record::flag_param("dprobs", "1: wanted; as probs where it is not given"));
  return all;
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype"});
  const auto usual = [&](const char* name, const char* as, const char* otherwise) {
    if (!canonical.get(name).empty()) return;
    const std::string given(canonical.get(as));
    canonical.set(name, given.empty() ? otherwise : given);
  };
  usual("dup", "gated", "1");
  usual("dprobs", "probs", "0");
  RIDGE_TRY(problem, bind_params(kOp, all_params(), canonical));
  const activation::Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, s.rows, s.cols));
  const Wanted wanted = wanted_of(problem);
  RIDGE_CHECK_OK(check_wanted(problem.problem_case.text(), wanted, s.gated, s.probs));
  const std::vector<std::int64_t> shape = {s.rows, s.cols};
  problem.operands = {{"dy", s.dtype, shape}};
  activation::add_inputs(problem);
  if (wanted.dx) problem.operands.push_back({"dx", s.dtype, shape, true});
  if (wanted.dup) problem.operands.push_back({"dup", s.dtype, shape, true});
  if (wanted.dprobs) problem.operands.push_back({"dprobs", DType::kF32, {s.rows}, true});
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  const Wanted wanted{args.dx.rank != 0, args.dup.rank != 0, args.dprobs.rank != 0};
  RIDGE_CHECK_OK(check_args(args, wanted));
  const Call forward = activation::call_of(args.forward);
  Call call;
  call.values.resize(kParamCount);
  std::copy(forward.values.begin(), forward.values.end(), call.values.begin());
  call.values[kDx] = wanted.dx ? 1 : 0;
  call.values[kDup] = wanted.dup ? 1 : 0;
  call.values[kDprobs] = wanted.dprobs ? 1 : 0;
  call.scalars = forward.scalars;
  call.operands.push_back(args.dy);
  for (const TensorView& view : forward.operands) call.operands.push_back(view);
  for (const TensorView* view : {&args.dx, &args.dup, &args.dprobs}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "gradients of activation: of x, of the gate and of the factors of rows";
  op.params = all_params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = activation::vary;
  op.plan_values = activation::plan_values;
  return op;
}

}  // namespace ridge::ops::activation_backward
