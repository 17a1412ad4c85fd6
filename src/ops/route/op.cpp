#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/route/backward/backward.h"
#include "ops/route/route.h"

namespace ridge::ops::route {
namespace {

constexpr std::string_view kOp = "route";

std::vector<record::ParamInfo> all_params() {
  std::vector<record::ParamInfo> all = params();
  all.push_back(record::flag_param("bias", "1: a number of each expert is added for the choice alone"));
  all.push_back({"groups", "1", "of experts, of equal size", {}});
  all.push_back({"group_top", "1", "groups whose experts can be chosen", {}});
  return all;
}

// Of a case and of a call, in the same words.
Status check_groups(std::string_view where, std::int64_t experts, std::int64_t top, std::int64_t groups,
                    std::int64_t group_top) {
  if (groups < 1 || experts % groups != 0) {
    return with_hint(invalid("{}: groups={} of {} experts", where, groups, experts),
                     "give a number that divides that of the experts");
  }
  if (group_top < 1 || group_top > groups) {
    return with_hint(invalid("{}: group_top={} of {} groups", where, group_top, groups),
                     "give 1 to the number of groups");
  }
  const std::int64_t left = group_top * (experts / groups);
  if (top <= left) return ok_status();
  return with_hint(invalid("{}: top={}, and {} of {} groups have {} experts", where, top, group_top, groups, left),
                   "give a larger group_top or a smaller top");
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, all_params(), with_dtype_names(requested, {"dtype"})));
  RIDGE_CHECK_OK(check_sizes(problem));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_groups(problem.problem_case.text(), s.experts, s.top, s.groups, s.group_top));
  problem.operands = {{"logits", s.dtype, {s.tokens, s.experts}}};
  if (s.bias) problem.operands.push_back({"bias", DType::kF32, {s.experts}});
  problem.operands.push_back({"weights", DType::kF32, {s.tokens, s.top}, true});
  problem.operands.push_back({"experts", DType::kI32, {s.tokens, s.top}, true});
  // Equal or wrong but where the contract leaves a row open, which the reference says by what it allows.
  problem.operands.back().check = Check::kErrorModel;
  add_scalars(problem);
  return problem;
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_logits(kOp, args.logits));
  RIDGE_CHECK_OK(check_scale(kOp, args.settings.scale));
  if (args.weights.rank != 2) {
    return with_hint(invalid("{}: weights is {}", kOp, args.weights.describe()), "give [tokens, top] of f32");
  }
  const std::int64_t experts = args.logits.shape[1], top = args.weights.shape[1];
  RIDGE_CHECK_OK(check_per_choice(kOp, "weights", args.weights, DType::kF32, args.logits, top));
  RIDGE_CHECK_OK(check_per_choice(kOp, "experts", args.experts, DType::kI32, args.logits, top));
  RIDGE_CHECK_OK(check_groups(kOp, experts, top, args.settings.groups, args.settings.group_top));
  if (args.bias.rank != 0) RIDGE_CHECK_OK(check_per_row(kOp, "bias", args.bias, DType::kF32, experts));
  RIDGE_CHECK_OK(check_apart(kOp, {"weights", &args.weights},
                             {{"logits", &args.logits}, {"bias", &args.bias}, {"experts", &args.experts}}));
  return check_apart(kOp, {"experts", &args.experts}, {{"logits", &args.logits}, {"bias", &args.bias}});
}

Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  const Shape s = shape_of(problem);
  route_backward::Args args;
  args.logits = operand(problem, forward, "logits");
  args.experts = operand(problem, forward, "experts");
  args.dweights = grad_outputs[0];
  args.dlogits = grad_inputs[0];
  args.settings.score = s.sigmoid ? RouteScore::kSigmoid : RouteScore::kSoftmax;
  args.settings.order = s.top_first ? RouteOrder::kTopFirst : RouteOrder::kScoreFirst;
  args.settings.renormalize = s.renormalize;
  args.settings.scale = forward.scalar(problem, kScale).real();
  return route_backward::make_call(args);
}

}  // namespace

std::vector<record::ParamInfo> params() {
  return {{"tokens", "256", "rows of logits", {}},
          {"experts", "64", "columns of logits, 1 to 4096", {}},
          {"top", "8", "experts of a token, 1 to 64", {}},
          {"dtype", "bf16", "of logits", {"f32", "bf16", "f16"}},
          {"score", "softmax", "of a logit", {"softmax", "sigmoid"}},
          {"order", "score_first", "scores of all experts, or of the chosen ones", {"score_first", "top_first"}},
          record::flag_param("renormalize", "1: weights are divided by their sum")};
}

Status check_sizes(const Problem& problem) {
  const Shape s = shape_of(problem);
  const std::string where = problem.problem_case.text();
  RIDGE_CHECK_OK(check_rows(problem, s.tokens, s.experts));
  if (s.experts > kMostExperts) {
    return with_hint(invalid("{}: experts={}", where, s.experts), fmt::format("give 1 to {}", kMostExperts));
  }
  if (s.top >= 1 && s.top <= std::min(kMostTop, s.experts)) return ok_status();
  return with_hint(invalid("{}: top={} of {} experts", where, s.top, s.experts),
                   fmt::format("give 1 to {}", std::min(kMostTop, s.experts)));
}

Status check_logits(std::string_view op, const TensorView& logits) {
  RIDGE_CHECK_OK(check_layout(op, "logits", logits, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, logits.dtype) < 0) {
    return with_hint(invalid("{}: logits is {}; this dtype is not supported", op, logits.describe()),
                     "give f32, bf16 or f16");
  }
  if (logits.shape[1] >= 1 && logits.shape[1] <= kMostExperts) return ok_status();
  return with_hint(invalid("{}: logits is {}", op, logits.describe()),
                   fmt::format("give [tokens, experts] with 1 to {} experts", kMostExperts));
}

Status check_scale(std::string_view op, double scale) {
  if (std::isfinite(static_cast<float>(scale))) return ok_status();
  return with_hint(invalid("{}: scale is {}", op, scale), "give a finite number");
}

Status check_per_choice(std::string_view op, std::string_view name, const TensorView& view, DType dtype,
                        const TensorView& logits, std::int64_t top) {
  const std::int64_t most = std::min(kMostTop, logits.shape[1]);
  if (top < 1 || top > most) {
    return with_hint(invalid("{}: {} is {}, of {} experts", op, name, view.describe(), logits.shape[1]),
                     fmt::format("give [tokens, top] with 1 to {} choices of a token", most));
  }
  const std::int64_t shape[] = {logits.shape[0], top};
  RIDGE_CHECK_OK(check_shape(op, name, view, dtype, shape, "give a matrix with a row for each row of logits"));
  return check_layout(op, name, view, 2, "copy it to a row-major matrix");
}

Call call_of(const TensorView& logits, std::int64_t top, const RouteSettings& settings, std::size_t params) {
  Call call;
  call.values.resize(params);
  call.values[kTokens] = logits.shape[0];
  call.values[kExperts] = logits.shape[1];
  call.values[kTop] = top;
  call.values[kDtype] = index_of(kDtypes, logits.dtype);
  call.values[kScore] = settings.score == RouteScore::kSigmoid ? 1 : 0;
  call.values[kOrder] = settings.order == RouteOrder::kTopFirst ? 1 : 0;
  call.values[kRenormalize] = settings.renormalize ? 1 : 0;
  call.scalars.push_back(record::Scalar::f32(static_cast<float>(settings.scale)));
  return call;
}

void add_scalars(Problem& problem) {
  problem.scalars = {{"scale", "times every weight", record::Scalar::f32(1), 0.25, 4}};
}

void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Shape s = shape_of(problem);
  bool vectors = size_bytes(s.dtype, s.experts) % 16 == 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string& name = problem.operands[i].name;
    const bool read_in_chunks = name == "logits" || name == "dlogits" || name == "bias";
    vectors = vectors && (!read_in_chunks || view_alignment(operands[i]) >= 16);
  }
  facts["vectors"] = vectors ? 1 : 0;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call = call_of(args.logits, args.weights.shape[1], args.settings, kParamCount);
  call.values[kBias] = args.bias.rank != 0 ? 1 : 0;
  call.values[kGroups] = args.settings.groups;
  call.values[kGroupTop] = args.settings.group_top;
  for (const TensorView* view : {&args.logits, &args.bias, &args.weights, &args.experts}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "the router of a mixture of experts: which experts a token goes to, and with which weights";
  op.params = all_params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = plan_values;
  op.backward = Backward{"route_backward", {"logits", "experts"}, backward_call, {}, {"bias"}};
  return op;
}

}  // namespace ridge::ops::route
