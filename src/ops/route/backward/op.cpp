#include "base/error.h"
#include "ops/arguments.h"
#include "ops/route/backward/backward.h"

namespace ridge::ops::route_backward {
namespace {

constexpr std::string_view kOp = "route_backward";

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, route::params(), with_dtype_names(requested, {"dtype"})));
  RIDGE_CHECK_OK(route::check_sizes(problem));
  const Shape s = shape_of(problem);
  OperandSpec experts{"experts", DType::kI32, {s.tokens, s.top}};
  experts.fill = {Fill::Rule::kIndices, 0, static_cast<double>(s.experts - 1)};
  problem.operands = {{"logits", s.dtype, {s.tokens, s.experts}},
                      std::move(experts),
                      {"dweights", DType::kF32, {s.tokens, s.top}},
                      {"dlogits", s.dtype, {s.tokens, s.experts}, true}};
  route::add_scalars(problem);
  return problem;
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(route::check_logits(kOp, args.logits));
  RIDGE_CHECK_OK(route::check_scale(kOp, args.settings.scale));
  if (args.experts.rank != 2) {
    return with_hint(invalid("{}: experts is {}", kOp, args.experts.describe()), "give [tokens, top] of i32");
  }
  const std::int64_t top = args.experts.shape[1];
  RIDGE_CHECK_OK(route::check_per_choice(kOp, "experts", args.experts, DType::kI32, args.logits, top));
  RIDGE_CHECK_OK(route::check_per_choice(kOp, "dweights", args.dweights, DType::kF32, args.logits, top));
  if (args.dlogits.rank == 0) return with_hint(invalid("{}: dlogits is not given", kOp), "give memory for it");
  RIDGE_CHECK_OK(check_like_x(kOp, "dlogits", args.dlogits, args.logits.dtype, std::span(args.logits.shape).first(2)));
  return check_apart(kOp, {"dlogits", &args.dlogits},
                     {{"logits", &args.logits}, {"experts", &args.experts}, {"dweights", &args.dweights}});
}

}  // namespace

Status check_experts(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  const TensorView& experts = arguments[kExperts];
  for (std::int64_t row = 0; row < s.tokens; ++row) {
    const auto* const chosen = static_cast<const std::int32_t*>(experts.data) + row * experts.stride[0];
    for (std::int64_t k = 0; k < s.top; ++k) {
      if (chosen[k] >= 0 && chosen[k] < s.experts) continue;
      return with_hint(invalid("{}: experts[{}, {}] is {}; there are {}", kOp, row, k, chosen[k], s.experts),
                       "give the experts as route wrote them");
    }
  }
  return ok_status();
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call = route::call_of(args.logits, args.experts.shape[1], args.settings, route::kBias);
  for (const TensorView* view : {&args.logits, &args.experts, &args.dweights, &args.dlogits}) {
    call.operands.push_back(*view);
  }
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "the gradient of a router's logits from that of its weights";
  op.params = route::params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = route::vary;
  op.plan_values = route::plan_values;
  return op;
}

}  // namespace ridge::ops::route_backward
