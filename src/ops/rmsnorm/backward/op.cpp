#include "ops/arguments.h"
#include "ops/rmsnorm/backward/backward.h"

namespace ridge::ops::rmsnorm_backward {
namespace {

std::vector<record::ParamInfo> params() {
  std::vector<record::ParamInfo> params = row_norm::backward_params();
  params.push_back({"wanted", "both", "gradients", {"dx", "dweight", "both"}});
  return params;
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype"});
  if (canonical.get("wanted").empty() && canonical.get("weight") == "none") canonical.set("wanted", "dx");
  RIDGE_TRY(problem, bind_params(kKind.op, params(), canonical));
  RIDGE_CHECK_OK(row_norm::describe_backward(kKind, shape_of(problem), problem));
  return problem;
}

}  // namespace

row_norm::BackwardShape shape_of(const Problem& problem) {
  const row_norm::Shape s = row_norm::shape_of(problem);
  const std::int64_t wanted = problem.values[kWanted];
  return {s.rows, s.cols, s.dtype, s.weight, s.zero_centred, s.residual, wanted != kDweight, wanted != kDx, false};
}

Result<Call> make_call(const Args& args) {
  const row_norm::BackwardViews views{args.dy,   args.x,  {},           args.rstd, args.weight,
                                      args.dsum, args.dx, args.dweight, {},        args.zero_centred};
  RIDGE_CHECK_OK(row_norm::check_backward(kKind, views));
  Call call = row_norm::backward_call(views, kParamCount);
  const bool dx = args.dx.rank != 0, dweight = args.dweight.rank != 0;
  call.values[kWanted] = dx && dweight ? kBoth : dx ? kDx : kDweight;
  return call;
}

Operator describe() {
  Operator op;
  op.name = kKind.op;
  op.summary = "gradients of rmsnorm: dx, with another gradient added, and dweight";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = row_norm::vary;
  op.plan_values = row_norm::vector_facts;
  return op;
}

}  // namespace ridge::ops::rmsnorm_backward
