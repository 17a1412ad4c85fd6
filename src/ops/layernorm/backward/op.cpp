#include "ops/arguments.h"
#include "ops/layernorm/backward/backward.h"

namespace ridge::ops::layernorm_backward {
namespace {

std::vector<record::ParamInfo> params() {
  std::vector<record::ParamInfo> params = row_norm::backward_params();
  for (const char* name : {"dx", "dweight", "dbias"}) {
    params.push_back({name, "1", "1: written; dweight: where there is a weight", {"0", "1"}, record::ParamKind::kFlag});
  }
  return params;
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype"});
  if (canonical.get("dweight").empty() && canonical.get("weight") == "none") canonical.set("dweight", "0");
  RIDGE_TRY(problem, bind_params(kKind.op, params(), canonical));
  RIDGE_CHECK_OK(row_norm::describe_backward(kKind, shape_of(problem), problem));
  return problem;
}

}  // namespace

row_norm::BackwardShape shape_of(const Problem& problem) {
  const row_norm::Shape s = row_norm::shape_of(problem);
  const std::vector<std::int64_t>& v = problem.values;
  return {s.rows, s.cols, s.dtype, s.weight, s.zero_centred, s.residual, v[kDx] == 1, v[kDweight] == 1, v[kDbias] == 1};
}

Result<Call> make_call(const Args& args) {
  const row_norm::BackwardViews views{args.dy,   args.x,  args.mean,    args.rstd,  args.weight,
                                      args.dsum, args.dx, args.dweight, args.dbias, args.zero_centred};
  RIDGE_CHECK_OK(row_norm::check_backward(kKind, views));
  Call call = row_norm::backward_call(views, kParamCount);
  call.values[kDx] = args.dx.rank != 0 ? 1 : 0;
  call.values[kDweight] = args.dweight.rank != 0 ? 1 : 0;
  call.values[kDbias] = args.dbias.rank != 0 ? 1 : 0;
  return call;
}

Operator describe() {
  Operator op;
  op.name = kKind.op;
  op.summary = "gradients of layernorm: dx, with another gradient added, dweight and dbias";
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

}  // namespace ridge::ops::layernorm_backward
