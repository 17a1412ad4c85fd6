#include "base/error.h"
#include "ops/arguments.h"
#include "ops/cross_entropy/backward/backward.h"

namespace ridge::ops::cross_entropy_backward {
namespace {

constexpr std::string_view kOp = "cross_entropy_backward";

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(cross_entropy::check_inputs(kOp, args.logits, args.targets, args.settings));
  const std::int64_t tokens = args.logits.shape[0];
  RIDGE_CHECK_OK(check_per_row(kOp, "dloss", args.dloss, DType::kF32, tokens));
  RIDGE_CHECK_OK(check_per_row(kOp, "lse", args.lse, DType::kF32, tokens));
  if (args.dlogits.rank == 0) return with_hint(invalid("{}: dlogits is not given", kOp), "give memory for it");
  RIDGE_CHECK_OK(cross_entropy::check_gradient(kOp, args.dlogits, args.logits));
  return check_apart(kOp, {"dlogits", &args.dlogits},
                     {{"dloss", &args.dloss}, {"targets", &args.targets}, {"lse", &args.lse}});
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, cross_entropy::params(), with_dtype_names(requested, {"dtype", "index"})));
  const cross_entropy::Shape s = cross_entropy::shape_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, s.tokens, s.vocabulary));
  const std::vector<std::int64_t> matrix = {s.tokens, s.vocabulary}, vector = {s.tokens};
  problem.operands = {{"dloss", DType::kF32, vector},
                      {"logits", s.dtype, matrix},
                      cross_entropy::targets_of(problem),
                      {"lse", DType::kF32, vector},
                      {"dlogits", s.dtype, matrix, true}};
  // As a forward call leaves them: lse is above every logit, so that no exponential is larger than 1.
  problem.operands[1].fill = {Fill::Rule::kUniform, -8, 8};
  problem.operands[3].fill = {Fill::Rule::kUniform, 8, 16};
  cross_entropy::add_scalars(problem);
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call = cross_entropy::call_of(args.logits, args.targets, args.settings, cross_entropy::kCommonParams);
  for (const TensorView* view : {&args.dloss, &args.logits, &args.targets, &args.lse, &args.dlogits}) {
    call.operands.push_back(*view);
  }
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "the gradient of the logits of cross_entropy, from the log-sum-exp of its rows";
  op.params = cross_entropy::params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = cross_entropy::vary;
  op.plan_values = cross_entropy::plan_values;
  return op;
}

}  // namespace ridge::ops::cross_entropy_backward
