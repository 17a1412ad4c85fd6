// ridgeline::layernorm, ridgeline::layernorm_add and ridgeline::layernorm_backward.
#include "ridge/ops/layernorm.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "convert.h"
#include "derivative.h"
#include "norms.h"
#include "operators.h"
#include "ridge/ops/layernorm_backward.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "layernorm", kBackwardOp = "layernorm_backward";

// ---- What a call asks of its tensors, of symbolic sizes

// A bias has the dtype of the weight, without one that of the input.
void check_parameters(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                      bool zero_centred) {
  norms::check_eps(eps, kOp);
  norms::check_weight(weight, x, zero_centred, kOp);
  if (given(bias)) norms::check_columns(*bias, x, (given(weight) ? *weight : x).scalar_type(), kOp, "bias");
}

Centred layernorm_meta(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                       bool zero_centred) {
  norms::check_input(x, kOp);
  check_parameters(x, weight, bias, eps, zero_centred);
  return {norms::empty_rows(x), norms::empty_statistic(x), norms::empty_statistic(x)};
}

CentredSum layernorm_add_meta(const Tensor& x, const Tensor& residual, const OptionalTensor& weight,
                              const OptionalTensor& bias, double eps, bool zero_centred) {
  norms::check_input(x, kOp);
  norms::check_same_rows(residual, x, kOp, "residual");
  check_parameters(x, weight, bias, eps, zero_centred);
  return {norms::empty_rows(x), norms::empty_rows(x), norms::empty_statistic(x), norms::empty_statistic(x)};
}

struct Wanted {
  bool dx, dweight, dbias;
};

CentredGradients layernorm_backward_meta(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                         const OptionalTensor& weight, bool zero_centred, const OptionalTensor& dsum,
                                         bool need_dx, bool need_dweight, bool need_dbias) {
  norms::check_input(x, kBackwardOp);
  norms::check_same_rows(dy, x, kBackwardOp, "the gradient");
  norms::check_statistic(mean, x, kBackwardOp, "mean");
  norms::check_statistic(rstd, x, kBackwardOp, "rstd");
  norms::check_weight(weight, x, zero_centred, kBackwardOp);
  if (given(dsum)) norms::check_same_rows(*dsum, x, kBackwardOp, "the gradient of the sum");
  TORCH_CHECK_VALUE(need_dx || need_dweight || need_dbias, kBackwardOp, ": no gradient is wanted; ask for one");
  TORCH_CHECK_VALUE(!need_dweight || given(weight), kBackwardOp,
                    ": the weight's gradient is wanted and there is no weight");
  const auto columns = [&](bool wanted) {
    if (!wanted) return norms::nothing(x);
    return at::empty_symint({x.sym_size(-1)}, (given(weight) ? *weight : x).options());
  };
  return {need_dx ? norms::empty_rows(x) : norms::nothing(x), columns(need_dweight), columns(need_dbias)};
}

// ---- The calls

// By PyTorch's own operators, which know every derivative: for float64 (gradient checks), tangents, and gradients that
// are differentiated again.
Centred by_torch(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                 bool zero_centred) {
  const Tensor wide = x.to(norms::wide_type(x)), mean = at::mean(wide, {-1}, true), centred = wide - mean;
  const Tensor rstd = at::rsqrt(at::mean(centred * centred, {-1}, true) + eps);
  Tensor y = norms::weighted(centred * rstd, weight, zero_centred);
  if (given(bias)) y = y + bias->to(wide.scalar_type());
  return {y.to(x.scalar_type()), mean.squeeze(-1), rstd.squeeze(-1)};
}

CentredSum sum_by_torch(const Tensor& x, const Tensor& residual, const OptionalTensor& weight,
                        const OptionalTensor& bias, double eps, bool zero_centred) {
  const Tensor sum = x + residual;
  auto [y, mean, rstd] = by_torch(sum, weight, bias, eps, zero_centred);
  return {y, sum, mean, rstd};
}

CentredGradients gradients_by_torch(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const OptionalTensor& weight, bool zero_centred, const OptionalTensor& dsum,
                                    const Wanted& wanted) {
  const auto type = norms::wide_type(x);
  const Tensor normal = (x.to(type) - mean.unsqueeze(-1)) * rstd.unsqueeze(-1), wide = dy.to(type);
  const auto over_rows = [&](const Tensor& terms) {
    return terms.reshape_symint({-1, x.sym_size(-1)}).sum(0).to((given(weight) ? *weight : x).scalar_type());
  };
  Tensor dx;
  if (wanted.dx) {
    const Tensor g = norms::weighted(wide, weight, zero_centred);
    dx = (g - at::mean(g, {-1}, true) - normal * at::mean(g * normal, {-1}, true)) * rstd.unsqueeze(-1);
    if (given(dsum)) dx = dx + *dsum;
    dx = dx.to(x.scalar_type());
  }
  return {wanted.dx ? dx : norms::nothing(x), wanted.dweight ? over_rows(wide * normal) : norms::nothing(x),
          wanted.dbias ? over_rows(wide) : norms::nothing(x)};
}

LayernormArgs arguments(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                        bool zero_centred, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  LayernormArgs args;
  args.x = rows_view(x, kOp, "the input");
  args.y = rows_view(y, kOp, "the result");
  args.mean = norms::statistic_view(mean, kOp, "mean");
  args.rstd = norms::statistic_view(rstd, kOp, "rstd");
  args.weight = norms::columns_view(weight, kOp, "weight");
  args.bias = norms::columns_view(bias, kOp, "bias");
  args.zero_centred = zero_centred;
  args.eps = eps;
  return args;
}

Centred layernorm(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                  bool zero_centred) {
  check_same_device(kOp, {{"the input", &x}, {"weight", &weight}, {"bias", &bias}});
  Centred out = layernorm_meta(x, weight, bias, eps, zero_centred);
  if (x.scalar_type() == at::kDouble) return by_torch(x, weight, bias, eps, zero_centred);
  const OnDeviceOf on_device(x);
  const auto& [y, mean, rstd] = out;
  check(ridge::layernorm(arguments(x, weight, bias, eps, zero_centred, y, mean, rstd), stream_of(x)));
  return out;
}

CentredSum layernorm_add(const Tensor& x, const Tensor& residual, const OptionalTensor& weight,
                         const OptionalTensor& bias, double eps, bool zero_centred) {
  check_same_device(kOp, {{"the input", &x}, {"residual", &residual}, {"weight", &weight}, {"bias", &bias}});
  CentredSum out = layernorm_add_meta(x, residual, weight, bias, eps, zero_centred);
  if (x.scalar_type() == at::kDouble) return sum_by_torch(x, residual, weight, bias, eps, zero_centred);
  const OnDeviceOf on_device(x);
  const auto& [y, sum, mean, rstd] = out;
  LayernormArgs args = arguments(x, weight, bias, eps, zero_centred, y, mean, rstd);
  args.residual = rows_view(residual, kOp, "residual");
  args.sum = rows_view(sum, kOp, "the sum");
  check(ridge::layernorm(args, stream_of(x)));
  return out;
}

CentredGradients layernorm_backward(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const OptionalTensor& weight, bool zero_centred, const OptionalTensor& dsum,
                                    bool need_dx, bool need_dweight, bool need_dbias) {
  check_same_device(kBackwardOp, {{"the input", &x},
                                  {"the gradient", &dy},
                                  {"mean", &mean},
                                  {"rstd", &rstd},
                                  {"weight", &weight},
                                  {"the gradient of the sum", &dsum}});
  CentredGradients out =
      layernorm_backward_meta(dy, x, mean, rstd, weight, zero_centred, dsum, need_dx, need_dweight, need_dbias);
  if (x.scalar_type() == at::kDouble) {
    return gradients_by_torch(dy, x, mean, rstd, weight, zero_centred, dsum, {need_dx, need_dweight, need_dbias});
  }
  const OnDeviceOf on_device(x);
  LayernormBackwardArgs args;
  args.dy = rows_view(dy, kBackwardOp, "the gradient");
  args.x = rows_view(x, kBackwardOp, "the input");
  args.mean = norms::statistic_view(mean, kBackwardOp, "mean");
  args.rstd = norms::statistic_view(rstd, kBackwardOp, "rstd");
  args.weight = norms::columns_view(weight, kBackwardOp, "weight");
  args.zero_centred = zero_centred;
  if (given(dsum)) args.dsum = rows_view(*dsum, kBackwardOp, "the gradient of the sum");
  if (need_dx) args.dx = rows_view(std::get<0>(out), kBackwardOp, "the input's gradient");
  if (need_dweight) args.dweight = dense_view(std::get<1>(out), kBackwardOp, "the weight's gradient");
  if (need_dbias) args.dbias = dense_view(std::get<2>(out), kBackwardOp, "the bias's gradient");
  check(ridge::layernorm_backward(args, stream_of(x)));
  return out;
}

// ---- Derivatives

// Of x (and of residual, whose gradient is the same), weight and bias, from the gradients of y and of the sum.
struct LayernormGradients final : Gradients {
  enum Input { kX, kWeight, kBias, kResidual };
  enum Saved { kSavedX, kSavedMean, kSavedRstd, kSavedWeight };
  double eps = 0;
  bool zero_centred = false;

  [[nodiscard]] std::string name() const override { return "RidgelineLayernormBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_layernorm_", zero_centred, "_", exact_text(eps));
  }

  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved, const Tensor&,
                                         const std::vector<bool>& wanted) const override {
    const bool residual = wanted.size() > kResidual;
    const bool need_dx = wanted[kX] || (residual && wanted[kResidual]);
    const Tensor &x = saved[kSavedX], &weight = saved[kSavedWeight];
    const OptionalTensor factor = weight.defined() ? OptionalTensor(weight) : OptionalTensor();
    const Tensor dy = norms::rows_of_gradient(grads[0], x);
    OptionalTensor dsum;
    if (need_dx && grads.size() > 1 && grads[1].defined()) dsum = grads[1].contiguous();
    CentredGradients found;
    if (at::GradMode::is_enabled()) {  // differentiated again: the statistics follow from x
      const auto [y, mean, rstd] = by_torch(x, {}, {}, eps, false);
      found =
          gradients_by_torch(dy, x, mean, rstd, factor, zero_centred, dsum, {need_dx, wanted[kWeight], wanted[kBias]});
    } else {
      found = call_layernorm_backward(dy, x, saved[kSavedMean], saved[kSavedRstd], factor, zero_centred, dsum, need_dx,
                                      wanted[kWeight], wanted[kBias]);
    }
    variable_list result(wanted.size());
    if (wanted[kX]) result[kX] = std::get<0>(found);
    if (residual && wanted[kResidual]) result[kResidual] = std::get<0>(found);
    if (wanted[kWeight]) result[kWeight] = std::get<1>(found);
    if (wanted[kBias]) result[kBias] = std::get<2>(found);
    return result;
  }
};

NodePointer<BackwardNode> backward_node(const NodePointer<BackwardNode>& node, double eps, bool zero_centred) {
  auto formula = std::make_shared<LayernormGradients>();
  formula->eps = eps, formula->zero_centred = zero_centred;
  node->gradients = std::move(formula);
  node->saved.resize(4);
  return node;
}

void save(const NodePointer<BackwardNode>& node, const Tensor& mean, const Tensor& rstd, const OptionalTensor& weight) {
  node->saved[LayernormGradients::kSavedMean] = {mean, false};
  node->saved[LayernormGradients::kSavedRstd] = {rstd, false};
  if (given(weight)) node->saved[LayernormGradients::kSavedWeight] = {*weight, false};
}

Centred layernorm_autograd(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                           bool zero_centred) {
  if (any_tangent(x, weight, bias)) {
    layernorm_meta(x, weight, bias, eps, zero_centred);
    return by_torch(x, weight, bias, eps, zero_centred);
  }
  const auto node = torch::autograd::compute_requires_grad(x, weight, bias)
                        ? backward_node(make_node(x, weight, bias), eps, zero_centred)
                        : nullptr;
  Centred out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_layernorm(x, weight, bias, eps, zero_centred);
  }
  if (!node) return out;
  node->saved[LayernormGradients::kSavedX] = {x, false};
  save(node, std::get<1>(out), std::get<2>(out), weight);
  torch::autograd::set_history(std::get<0>(out), node);
  return out;
}

CentredSum layernorm_add_autograd(const Tensor& x, const Tensor& residual, const OptionalTensor& weight,
                                  const OptionalTensor& bias, double eps, bool zero_centred) {
  if (any_tangent(x, residual, weight, bias)) {
    layernorm_add_meta(x, residual, weight, bias, eps, zero_centred);
    return sum_by_torch(x, residual, weight, bias, eps, zero_centred);
  }
  const auto node = torch::autograd::compute_requires_grad(x, residual, weight, bias)
                        ? backward_node(make_node(x, weight, bias, residual), eps, zero_centred)
                        : nullptr;
  CentredSum out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_layernorm_add(x, residual, weight, bias, eps, zero_centred);
  }
  if (!node) return out;
  torch::autograd::set_history(std::get<0>(out), node);
  torch::autograd::set_history(std::get<1>(out), node);
  node->saved[LayernormGradients::kSavedX] = {std::get<1>(out), true};
  save(node, std::get<2>(out), std::get<3>(out), weight);
  return out;
}

CentredGradients layernorm_backward_autograd(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                             const OptionalTensor& weight, bool zero_centred,
                                             const OptionalTensor& dsum, bool need_dx, bool need_dweight,
                                             bool need_dbias) {
  const bool recorded = torch::autograd::compute_requires_grad(dy, x, mean, rstd, weight, dsum);
  if (recorded || any_tangent(dy, x, mean, rstd, weight, dsum)) {
    layernorm_backward_meta(dy, x, mean, rstd, weight, zero_centred, dsum, need_dx, need_dweight, need_dbias);
    return gradients_by_torch(dy, x, mean, rstd, weight, zero_centred, dsum, {need_dx, need_dweight, need_dbias});
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_layernorm_backward(dy, x, mean, rstd, weight, zero_centred, dsum, need_dx, need_dweight, need_dbias);
}

}  // namespace

Centred call_layernorm(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                       bool zero_centred) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::layernorm", "").typed<decltype(call_layernorm)>();
  return op.call(x, weight, bias, eps, zero_centred);
}
CentredSum call_layernorm_add(const Tensor& x, const Tensor& residual, const OptionalTensor& weight,
                              const OptionalTensor& bias, double eps, bool zero_centred) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::layernorm_add", "")
                             .typed<decltype(call_layernorm_add)>();
  return op.call(x, residual, weight, bias, eps, zero_centred);
}
CentredGradients call_layernorm_backward(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                         const OptionalTensor& weight, bool zero_centred, const OptionalTensor& dsum,
                                         bool need_dx, bool need_dweight, bool need_dbias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::layernorm_backward", "")
                             .typed<decltype(call_layernorm_backward)>();
  return op.call(dy, x, mean, rstd, weight, zero_centred, dsum, need_dx, need_dweight, need_dbias);
}

void register_layernorm(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("layernorm", layernorm);
      library.impl("layernorm_add", layernorm_add);
      library.impl("layernorm_backward", layernorm_backward);
      return;
    case c10::DispatchKey::Meta:
      library.impl("layernorm", layernorm_meta);
      library.impl("layernorm_add", layernorm_add_meta);
      library.impl("layernorm_backward", layernorm_backward_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("layernorm", layernorm_autograd);
      library.impl("layernorm_add", layernorm_add_autograd);
      library.impl("layernorm_backward", layernorm_backward_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
