#include "ops/rmsnorm/backward/backward.h"
#include "ops/rmsnorm/contract.h"
#include "ops/rmsnorm/rmsnorm.h"

namespace ridge::ops::rmsnorm {
namespace {

Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  RIDGE_TRY(views, row_norm::backward_views(problem, forward, grad_outputs, grad_inputs));
  return rmsnorm_backward::make_call(
      {views.dy, views.x, views.rstd, views.weight, views.zero_centred, views.dsum, views.dx, views.dweight});
}

}  // namespace

Result<Call> make_call(const Args& args) {
  return row_norm::forward_call(
      kKind, {args.x, args.residual, args.weight, {}, args.y, args.sum, {}, args.rstd, args.zero_centred, args.eps});
}

Operator describe() {
  Operator op;
  op.name = kKind.op;
  op.summary = "rows divided by the root of their mean square, times a weight; with a residual added first";
  op.params = row_norm::forward_params(kKind);
  op.bind = [](const record::Case& requested) { return row_norm::bind_forward(kKind, requested); };
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = row_norm::vary;
  op.plan_values = row_norm::vector_facts;
  op.backward = Backward{"rmsnorm_backward", {"x", "sum", "weight", "rstd"}, backward_call, {"rstd"}};
  return op;
}

}  // namespace ridge::ops::rmsnorm
