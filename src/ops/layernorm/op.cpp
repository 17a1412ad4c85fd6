#include "ops/layernorm/layernorm.h"

#include "ops/layernorm/backward/backward.h"
#include "ops/layernorm/contract.h"

namespace ridge::ops::layernorm {
namespace {

Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  RIDGE_TRY(views, row_norm::backward_views(problem, forward, grad_outputs, grad_inputs));
  return layernorm_backward::make_call({views.dy, views.x, views.mean, views.rstd, views.weight, views.zero_centred,
                                        views.dsum, views.dx, views.dweight, views.dbias});
}

}  // namespace

Result<Call> make_call(const Args& args) {
  return row_norm::forward_call(kKind, {args.x, args.residual, args.weight, args.bias, args.y, args.sum, args.mean,
                                        args.rstd, args.zero_centred, args.eps});
}

Operator describe() {
  Operator op;
  op.name = kKind.op;
  op.summary =
      "rows less their mean, divided by their deviation, times a weight, plus a bias; with a residual added first";
  op.params = row_norm::forward_params(kKind);
  op.bind = [](const record::Case& requested) { return row_norm::bind_forward(kKind, requested); };
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = row_norm::vary;
  op.plan_values = row_norm::vector_facts;
  op.backward = Backward{"layernorm_backward", {"x", "sum", "weight", "mean", "rstd"}, backward_call, {"mean", "rstd"}};
  return op;
}

}  // namespace ridge::ops::layernorm
