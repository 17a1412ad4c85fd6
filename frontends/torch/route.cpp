// ridgeline::route, the router of a mixture of experts, and ridgeline::route_backward.
#include "ridge/ops/route.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/route_backward.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "route";
constexpr double kEpsilon = 1e-20;  // beside the sum that weights are divided by: the contract's
constexpr std::int64_t kMostTop = 64, kMostExperts = 4096;

// What a call says beside its tensors.
struct Setting {
  bool sigmoid = false, top_first = false, renormalize = false;
  double scale = 1;

  Setting(std::string_view score, std::string_view order, bool divides, double factor)
      : sigmoid(score == "sigmoid"), top_first(order == "top_first"), renormalize(divides), scale(factor) {
    TORCH_CHECK_VALUE(sigmoid || score == "softmax", kOp, ": score=\"", score,
                      "\" is unknown; use one of softmax, sigmoid");
    TORCH_CHECK_VALUE(top_first || order == "score_first", kOp, ": order=\"", order,
                      "\" is unknown; use one of score_first, top_first");
    TORCH_CHECK_VALUE(std::isfinite(static_cast<float>(scale)), kOp, ": a scale of ", scale,
                      " is not possible; give a finite number");
  }
  [[nodiscard]] const char* score() const { return sigmoid ? "sigmoid" : "softmax"; }
  [[nodiscard]] const char* order() const { return top_first ? "top_first" : "score_first"; }
  [[nodiscard]] RouteSettings settings() const {
    RouteSettings settings;
    settings.score = sigmoid ? RouteScore::kSigmoid : RouteScore::kSoftmax;
    settings.order = top_first ? RouteOrder::kTopFirst : RouteOrder::kScoreFirst;
    settings.renormalize = renormalize;
    settings.scale = scale;
    return settings;
  }
};
struct Groups {
  std::int64_t count = 1, top = 1;
};

// ---- What a call asks of its tensors, of symbolic sizes

at::ScalarType wide_type(const Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void check_logits(const Tensor& logits) {
  const auto type = logits.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble;
  TORCH_CHECK_TYPE(usable_type, kOp, ": logits is ", type_of(logits),
                   "; give torch.float32, torch.bfloat16, torch.float16 or torch.float64");
  TORCH_CHECK_VALUE(logits.dim() == 2, kOp, ": logits has shape ", logits.sym_sizes(), "; give [tokens, experts]");
}

void check_choice(const Tensor& logits, std::int64_t top, const Groups& groups) {
  const std::int64_t experts = logits.sym_size(1).guard_int(__FILE__, __LINE__);
  TORCH_CHECK_VALUE(experts >= 1 && experts <= kMostExperts, kOp, ": logits has shape ", logits.sym_sizes(),
                    "; give [tokens, experts] with 1 to ", kMostExperts, " experts");
  TORCH_CHECK_VALUE(top >= 1 && top <= kMostTop && top <= experts, kOp, ": top is ", top, ", of ", experts,
                    " experts; give 1 to ", std::min(kMostTop, experts));
  TORCH_CHECK_VALUE(groups.count >= 1 && experts % groups.count == 0, kOp, ": groups is ", groups.count, ", of ",
                    experts, " experts; give a number that divides that of the experts");
  TORCH_CHECK_VALUE(groups.top >= 1 && groups.top <= groups.count, kOp, ": group_top is ", groups.top, ", of ",
                    groups.count, " groups; give 1 to the number of groups");
  const std::int64_t left = groups.top * (experts / groups.count);
  TORCH_CHECK_VALUE(top <= left, kOp, ": top is ", top, ", and ", groups.top, " of ", groups.count, " groups have ",
                    left, " experts; give a larger group_top or a smaller top");
}

WeightsAndExperts route_meta(const Tensor& logits, std::int64_t top, std::string_view score, std::string_view order,
                             const OptionalTensor& bias, std::int64_t groups, std::int64_t group_top, bool renormalize,
                             double scale) {
  static_cast<void>(Setting(score, order, renormalize, scale));
  check_logits(logits);
  check_choice(logits, top, {groups, group_top});
  if (given(bias)) check_like(*bias, kOp, "bias", {logits.sym_size(1)}, at::kFloat);
  const c10::SymInt sizes[] = {logits.sym_size(0), top};
  return {at::empty_symint(sizes, logits.options().dtype(wide_type(logits))),
          at::empty_symint(sizes, logits.options().dtype(at::kInt))};
}

Tensor route_backward_meta(const Tensor& dweights, const Tensor& logits, const Tensor& experts, std::string_view score,
                           std::string_view order, bool renormalize, double scale) {
  static_cast<void>(Setting(score, order, renormalize, scale));
  check_logits(logits);
  TORCH_CHECK_VALUE(experts.dim() == 2, kOp, "_backward: experts has shape ", experts.sym_sizes(),
                    "; give [tokens, top]");
  check_like(experts, kOp, "experts", {logits.sym_size(0), experts.sym_size(1)}, at::kInt);
  check_like(dweights, kOp, "the gradient", experts.sym_sizes(), wide_type(logits));
  return at::empty_symint(logits.sym_sizes(), logits.options());
}

// ---- By PyTorch's own operators: for float64, tangents, and gradients that are differentiated again

// Places along the last dimension by falling numbers: of equal ones the lower first, NaN behind all, and `closed` ones
// behind those.
Tensor falling_order(const Tensor& numbers, const Tensor& closed) {
  const Tensor none = at::isnan(numbers);
  const Tensor clean = at::masked_fill(numbers, none, -std::numeric_limits<double>::infinity()) + 0.0;  // no -0
  const Tensor order = at::argsort(clean, /*stable=*/true, -1, /*descending=*/true);
  const Tensor last = closed.defined() ? none.to(at::kInt) + closed.to(at::kInt) * 2 : none.to(at::kInt);
  const Tensor second = at::argsort(at::gather(last, -1, order), /*stable=*/true, -1, /*descending=*/false);
  return at::gather(order, -1, second);
}

// The scores that experts are compared by: as float32 has the exact ones, without the NaN of a row.
Tensor compared_scores(const Tensor& logits, const Setting& setting) {
  const Tensor x = logits.to(at::kDouble), none = at::isnan(x);
  if (setting.sigmoid) return at::sigmoid(x).to(at::kFloat);
  const Tensor most = at::amax(at::masked_fill(x, none, -std::numeric_limits<double>::infinity()), {-1}, true);
  const Tensor powers = at::exp(at::masked_fill(x - most, x == most, 0.0));
  const Tensor sum = at::sum(at::masked_fill(powers, none, 0.0), {-1}, true);
  return (powers / sum).to(at::kFloat);
}

// [tokens, experts], true where the group of an expert is not among the best ones.
Tensor closed_experts(const Tensor& numbers, const Groups& groups) {
  const auto tokens = numbers.sym_size(0);
  const std::int64_t experts = numbers.sym_size(1).guard_int(__FILE__, __LINE__), size = experts / groups.count;
  const Tensor clean = at::masked_fill(numbers, at::isnan(numbers), -std::numeric_limits<double>::infinity());
  const Tensor parts = clean.reshape_symint({tokens, groups.count, size});
  const Tensor best = std::get<0>(at::topk(parts, std::min<std::int64_t>(size, 2)));
  const Tensor marks = size == 1 ? best.select(-1, 0) : best.select(-1, 0) + best.select(-1, 1);
  const Tensor chosen = falling_order(marks, {}).slice(-1, 0, groups.top);
  const Tensor closed = at::scatter(at::ones_like(marks, at::kBool), -1, chosen, false);
  return closed.unsqueeze(-1).expand_symint({tokens, groups.count, size}).reshape_symint({tokens, experts});
}

Tensor experts_by_torch(const Tensor& given_logits, std::int64_t top, const Setting& setting,
                        const OptionalTensor& bias, const Groups& groups) {
  const Tensor logits = given_logits.detach();
  const bool by_logits = setting.top_first || (!given(bias) && groups.count == 1);
  Tensor numbers = by_logits ? logits.to(wide_type(logits)) : compared_scores(logits, setting);
  if (given(bias)) numbers = numbers + bias->detach();
  const Tensor closed = groups.top < groups.count ? closed_experts(numbers, groups) : Tensor();
  return falling_order(numbers, closed).slice(-1, 0, top).to(at::kInt);
}

// Scores of the chosen experts, and of all where softmax is over all.
struct Scores {
  Tensor all, chosen;
};
Scores scores_by_torch(const Tensor& logits, const Tensor& places, const Setting& setting) {
  const Tensor x = logits.to(wide_type(logits));
  if (setting.sigmoid) return {{}, at::sigmoid(at::gather(x, -1, places))};
  if (setting.top_first) return {{}, at::softmax(at::gather(x, -1, places), -1)};
  const Tensor all = at::softmax(x, -1);
  return {all, at::gather(all, -1, places)};
}

Tensor weights_by_torch(const Tensor& logits, const Tensor& experts, const Setting& setting) {
  Tensor weights = scores_by_torch(logits, experts.to(at::kLong), setting).chosen;
  if (setting.renormalize) weights = weights / (at::sum(weights, {-1}, true) + kEpsilon);
  return setting.scale == 1 ? weights : weights * setting.scale;
}

Tensor gradient_by_torch(const Tensor& dweights, const Tensor& logits, const Tensor& experts, const Setting& setting) {
  const Tensor places = experts.to(at::kLong);
  const auto [all, chosen] = scores_by_torch(logits, places, setting);
  Tensor gradient = dweights.to(wide_type(logits)) * setting.scale;  // of the chosen scores
  if (setting.renormalize) {
    const Tensor sum = at::sum(chosen, {-1}, true) + kEpsilon;
    gradient = (gradient - at::sum(gradient * (chosen / sum), {-1}, true)) / sum;
  }
  const auto spread = [&](const Tensor& of_chosen) {
    return at::scatter_add(at::zeros_symint(logits.sym_sizes(), of_chosen.options()), -1, places, of_chosen);
  };
  if (setting.sigmoid) return spread(gradient * chosen * (1 - chosen)).to(logits.scalar_type());
  const Tensor dot = at::sum(gradient * chosen, {-1}, true);
  if (setting.top_first) return spread(chosen * (gradient - dot)).to(logits.scalar_type());
  return (all * (spread(gradient) - dot)).to(logits.scalar_type());
}

// ---- The calls

bool by_torch(const Tensor& logits) { return logits.scalar_type() == at::kDouble; }

WeightsAndExperts route(const Tensor& logits, std::int64_t top, std::string_view score, std::string_view order,
                        const OptionalTensor& bias, std::int64_t groups, std::int64_t group_top, bool renormalize,
                        double scale) {
  check_same_device(kOp, {{"logits", &logits}, {"bias", &bias}});
  const Setting setting(score, order, renormalize, scale);
  const WeightsAndExperts made = route_meta(logits, top, score, order, bias, groups, group_top, renormalize, scale);
  if (by_torch(logits)) {
    const Tensor experts = experts_by_torch(logits, top, setting, bias, {groups, group_top});
    return {weights_by_torch(logits, experts, setting), experts};
  }
  const auto& [weights, experts] = made;
  if (weights.numel() == 0) return made;
  const Tensor rows = logits.contiguous(), numbers = given(bias) ? bias->contiguous() : Tensor();
  const OnDeviceOf on_device(logits);
  RouteArgs args;
  args.logits = row_major_view(rows, kOp, "logits");
  if (numbers.defined()) args.bias = dense_view(numbers, kOp, "bias");
  args.weights = dense_view(weights, kOp, "weights");
  args.experts = dense_view(experts, kOp, "experts");
  args.settings = setting.settings();
  args.settings.groups = groups;
  args.settings.group_top = group_top;
  check(ridge::route(args, stream_of(logits)));
  return made;
}

Tensor route_backward(const Tensor& dweights, const Tensor& logits, const Tensor& experts, std::string_view score,
                      std::string_view order, bool renormalize, double scale) {
  check_same_device("route_backward", {{"the gradient", &dweights}, {"logits", &logits}, {"experts", &experts}});
  const Setting setting(score, order, renormalize, scale);
  Tensor dlogits = route_backward_meta(dweights, logits, experts, score, order, renormalize, scale);
  if (by_torch(logits)) return gradient_by_torch(dweights, logits, experts, setting);
  if (dlogits.numel() == 0) return dlogits;
  const Tensor rows = logits.contiguous(), chosen = experts.contiguous(), gradient = dweights.contiguous();
  const OnDeviceOf on_device(logits);
  RouteBackwardArgs args;
  args.logits = row_major_view(rows, kOp, "logits");
  args.experts = dense_view(chosen, kOp, "experts");
  args.dweights = dense_view(gradient, kOp, "the gradient");
  args.dlogits = row_major_view(dlogits, kOp, "the gradient of logits");
  args.settings = setting.settings();
  check(ridge::route_backward(args, stream_of(logits)));
  return dlogits;
}

// ---- Derivatives

struct RouteFormula final : Gradients {
  explicit RouteFormula(const Setting& one) : setting(one) {}
  Setting setting;

  [[nodiscard]] std::string name() const override { return "RidgelineRouteBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_route_", setting.score(), "_", setting.order(), "_", setting.renormalize ? 1 : 0, "_",
                    exact_text(setting.scale));
  }
  // `saved` holds logits and experts.
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved, const Tensor&,
                                         const std::vector<bool>&) const override {
    const Tensor dweights = grads[0].contiguous();
    if (at::GradMode::is_enabled()) return {gradient_by_torch(dweights, saved[0], saved[1], setting)};
    return {call_route_backward(dweights, saved[0], saved[1], setting.score(), setting.order(), setting.renormalize,
                                setting.scale)};
  }
};

WeightsAndExperts route_autograd(const Tensor& logits, std::int64_t top, std::string_view score, std::string_view order,
                                 const OptionalTensor& bias, std::int64_t groups, std::int64_t group_top,
                                 bool renormalize, double scale) {
  const Setting setting(score, order, renormalize, scale);
  if (any_tangent(logits)) {
    route_meta(logits, top, score, order, bias, groups, group_top, renormalize, scale);
    const Tensor experts = experts_by_torch(primal_of(logits), top, setting, bias, {groups, group_top});
    return {weights_by_torch(logits, experts, setting), experts};
  }
  NodePointer<BackwardNode> node;
  if (torch::autograd::compute_requires_grad(logits)) {
    node = make_node(logits);
    node->gradients = std::make_shared<RouteFormula>(setting);
  }
  WeightsAndExperts made;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    made = call_route(logits, top, score, order, bias, groups, group_top, renormalize, scale);
  }
  if (!node) return made;
  torch::autograd::set_history(std::get<0>(made), node);  // experts have no derivative
  node->saved.resize(2);
  node->saved[0] = {logits, false};
  node->saved[1] = {std::get<1>(made), false};
  return made;
}

Tensor route_backward_autograd(const Tensor& dweights, const Tensor& logits, const Tensor& experts,
                               std::string_view score, std::string_view order, bool renormalize, double scale) {
  if (torch::autograd::compute_requires_grad(dweights, logits) || any_tangent(dweights, logits)) {
    route_backward_meta(dweights, logits, experts, score, order, renormalize, scale);
    return gradient_by_torch(dweights, logits, experts, Setting(score, order, renormalize, scale));
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_route_backward(dweights, logits, experts, score, order, renormalize, scale);
}

}  // namespace

WeightsAndExperts call_route(const Tensor& logits, std::int64_t top, std::string_view score, std::string_view order,
                             const OptionalTensor& bias, std::int64_t groups, std::int64_t group_top, bool renormalize,
                             double scale) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::route", "").typed<decltype(call_route)>();
  return op.call(logits, top, score, order, bias, groups, group_top, renormalize, scale);
}
Tensor call_route_backward(const Tensor& dweights, const Tensor& logits, const Tensor& experts, std::string_view score,
                           std::string_view order, bool renormalize, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::route_backward", "")
                             .typed<decltype(call_route_backward)>();
  return op.call(dweights, logits, experts, score, order, renormalize, scale);
}

void register_route(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("route", route);
      library.impl("route_backward", route_backward);
      return;
    case c10::DispatchKey::Meta:
      library.impl("route", route_meta);
      library.impl("route_backward", route_backward_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("route", route_autograd);
      library.impl("route_backward", route_backward_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
