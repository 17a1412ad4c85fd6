// ridgeline::rmsnorm, ridgeline::rmsnorm_add and ridgeline::rmsnorm_backward.
#include "ridge/ops/rmsnorm.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "convert.h"
#include "derivative.h"
#include "norms.h"
#include "operators.h"
#include "ridge/ops/rmsnorm_backward.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "rmsnorm";

// ---- What a call asks of its tensors, of symbolic sizes

Normalised rmsnorm_meta(const Tensor& x, const OptionalTensor& weight, double eps, bool zero_centred) {
  norms::check_eps(eps, kOp);
  norms::check_input(x, kOp);
  norms::check_weight(weight, x, zero_centred, kOp);
  return {norms::empty_rows(x), norms::empty_statistic(x)};
}

NormalisedSum rmsnorm_add_meta(const Tensor& x, const Tensor& residual, const OptionalTensor& weight, double eps,
                               bool zero_centred) {
  norms::check_eps(eps, kOp);
  norms::check_input(x, kOp);
  norms::check_same_rows(residual, x, kOp, "residual");
  norms::check_weight(weight, x, zero_centred, kOp);
  return {norms::empty_rows(x), norms::empty_rows(x), norms::empty_statistic(x)};
}

NormGradients rmsnorm_backward_meta(const Tensor& dy, const Tensor& x, const Tensor& rstd, const OptionalTensor& weight,
                                    bool zero_centred, const OptionalTensor& dsum, bool need_dx, bool need_dweight) {
  norms::check_input(x, kOp);
  norms::check_same_rows(dy, x, kOp, "the gradient");
  norms::check_statistic(rstd, x, kOp, "rstd");
  norms::check_weight(weight, x, zero_centred, kOp);
  if (given(dsum)) norms::check_same_rows(*dsum, x, kOp, "the gradient of the sum");
  TORCH_CHECK_VALUE(need_dx || need_dweight, "rmsnorm_backward: no gradient is wanted; ask for one");
  TORCH_CHECK_VALUE(!need_dweight || given(weight),
                    "rmsnorm_backward: the weight's gradient is wanted and there is no weight");
  return {need_dx ? norms::empty_rows(x) : norms::nothing(x),
          need_dweight ? at::empty_symint(weight->sym_sizes(), weight->options()) : norms::nothing(x)};
}

// ---- The calls

// By PyTorch's own operators, which know every derivative: for float64 (gradient checks), tangents, and gradients that
// are differentiated again.
Normalised by_torch(const Tensor& x, const OptionalTensor& weight, double eps, bool zero_centred) {
  const Tensor wide = x.to(norms::wide_type(x));
  const Tensor rstd = at::rsqrt(at::mean(wide * wide, {-1}, true) + eps);
  return {norms::weighted(wide * rstd, weight, zero_centred).to(x.scalar_type()), rstd.squeeze(-1)};
}

NormGradients gradients_by_torch(const Tensor& dy, const Tensor& x, const Tensor& rstd, const OptionalTensor& weight,
                                 bool zero_centred, const OptionalTensor& dsum, bool need_dx, bool need_dweight) {
  const auto type = norms::wide_type(x);
  const Tensor normal = x.to(type) * rstd.unsqueeze(-1), wide = dy.to(type);
  Tensor dx, dweight;
  if (need_dx) {
    const Tensor g = norms::weighted(wide, weight, zero_centred);
    dx = (g - normal * at::mean(g * normal, {-1}, true)) * rstd.unsqueeze(-1);
    if (given(dsum)) dx = dx + *dsum;
    dx = dx.to(x.scalar_type());
  }
  if (need_dweight) dweight = (wide * normal).reshape_symint({-1, x.sym_size(-1)}).sum(0).to(weight->scalar_type());
  return {dx.defined() ? dx : norms::nothing(x), dweight.defined() ? dweight : norms::nothing(x)};
}

Normalised rmsnorm(const Tensor& x, const OptionalTensor& weight, double eps, bool zero_centred) {
  check_same_device(kOp, {{"the input", &x}, {"weight", &weight}});
  Normalised out = rmsnorm_meta(x, weight, eps, zero_centred);
  if (x.scalar_type() == at::kDouble) return by_torch(x, weight, eps, zero_centred);
  const OnDeviceOf on_device(x);
  RmsnormArgs args;
  args.x = rows_view(x, kOp, "the input");
  args.y = rows_view(std::get<0>(out), kOp, "the result");
  args.rstd = norms::statistic_view(std::get<1>(out), kOp, "rstd");
  args.weight = norms::columns_view(weight, kOp, "weight");
  args.zero_centred = zero_centred;
  args.eps = eps;
  check(ridge::rmsnorm(args, stream_of(x)));
  return out;
}

NormalisedSum rmsnorm_add(const Tensor& x, const Tensor& residual, const OptionalTensor& weight, double eps,
                          bool zero_centred) {
  check_same_device(kOp, {{"the input", &x}, {"residual", &residual}, {"weight", &weight}});
  NormalisedSum out = rmsnorm_add_meta(x, residual, weight, eps, zero_centred);
  if (x.scalar_type() == at::kDouble) {
    const Tensor sum = x + residual;
    auto [y, rstd] = by_torch(sum, weight, eps, zero_centred);
    return {y, sum, rstd};
  }
  const OnDeviceOf on_device(x);
  RmsnormArgs args;
  args.x = rows_view(x, kOp, "the input");
  args.residual = rows_view(residual, kOp, "residual");
  args.y = rows_view(std::get<0>(out), kOp, "the result");
  args.sum = rows_view(std::get<1>(out), kOp, "the sum");
  args.rstd = norms::statistic_view(std::get<2>(out), kOp, "rstd");
  args.weight = norms::columns_view(weight, kOp, "weight");
  args.zero_centred = zero_centred;
  args.eps = eps;
  check(ridge::rmsnorm(args, stream_of(x)));
  return out;
}

NormGradients rmsnorm_backward(const Tensor& dy, const Tensor& x, const Tensor& rstd, const OptionalTensor& weight,
                               bool zero_centred, const OptionalTensor& dsum, bool need_dx, bool need_dweight) {
  check_same_device("rmsnorm_backward", {{"the input", &x},
                                         {"the gradient", &dy},
                                         {"rstd", &rstd},
                                         {"weight", &weight},
                                         {"the gradient of the sum", &dsum}});
  NormGradients out = rmsnorm_backward_meta(dy, x, rstd, weight, zero_centred, dsum, need_dx, need_dweight);
  if (x.scalar_type() == at::kDouble) {
    return gradients_by_torch(dy, x, rstd, weight, zero_centred, dsum, need_dx, need_dweight);
  }
  const OnDeviceOf on_device(x);
  RmsnormBackwardArgs args;
  args.dy = rows_view(dy, kOp, "the gradient");
  args.x = rows_view(x, kOp, "the input");
  args.rstd = norms::statistic_view(rstd, kOp, "rstd");
  args.weight = norms::columns_view(weight, kOp, "weight");
  args.zero_centred = zero_centred;
  if (given(dsum)) args.dsum = rows_view(*dsum, kOp, "the gradient of the sum");
  if (need_dx) args.dx = rows_view(std::get<0>(out), kOp, "the input's gradient");
  if (need_dweight) args.dweight = dense_view(std::get<1>(out), kOp, "the weight's gradient");
  check(ridge::rmsnorm_backward(args, stream_of(x)));
  return out;
}

// ---- Derivatives

// Of x (and of residual, whose gradient is the same) and weight, from the gradients of y and of the sum.
struct RmsnormGradients final : Gradients {
  enum Input { kX, kWeight, kResidual };
  enum Saved { kSavedX, kSavedRstd, kSavedWeight };
  double eps = 0;
  bool zero_centred = false;

  [[nodiscard]] std::string name() const override { return "RidgelineRmsnormBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_rmsnorm_", zero_centred, "_", exact_text(eps));
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
    NormGradients found;
    if (at::GradMode::is_enabled()) {  // differentiated again: the statistic follows from x
      const Tensor rstd = std::get<1>(by_torch(x, {}, eps, false));
      found = gradients_by_torch(dy, x, rstd, factor, zero_centred, dsum, need_dx, wanted[kWeight]);
    } else {
      found = call_rmsnorm_backward(dy, x, saved[kSavedRstd], factor, zero_centred, dsum, need_dx, wanted[kWeight]);
    }
    variable_list result(wanted.size());
    if (wanted[kX]) result[kX] = std::get<0>(found);
    if (residual && wanted[kResidual]) result[kResidual] = std::get<0>(found);
    if (wanted[kWeight]) result[kWeight] = std::get<1>(found);
    return result;
  }
};

NodePointer<BackwardNode> backward_node(const NodePointer<BackwardNode>& node, double eps, bool zero_centred) {
  auto formula = std::make_shared<RmsnormGradients>();
  formula->eps = eps, formula->zero_centred = zero_centred;
  node->gradients = std::move(formula);
  node->saved.resize(3);
  return node;
}

Normalised rmsnorm_autograd(const Tensor& x, const OptionalTensor& weight, double eps, bool zero_centred) {
  if (any_tangent(x, weight)) {
    rmsnorm_meta(x, weight, eps, zero_centred);
    return by_torch(x, weight, eps, zero_centred);
  }
  const auto node = torch::autograd::compute_requires_grad(x, weight)
                        ? backward_node(make_node(x, weight), eps, zero_centred)
                        : nullptr;
  Normalised out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_rmsnorm(x, weight, eps, zero_centred);
  }
  if (!node) return out;
  node->saved[RmsnormGradients::kSavedX] = {x, false};
  node->saved[RmsnormGradients::kSavedRstd] = {std::get<1>(out), false};
  if (given(weight)) node->saved[RmsnormGradients::kSavedWeight] = {*weight, false};
  torch::autograd::set_history(std::get<0>(out), node);
  return out;
}

NormalisedSum rmsnorm_add_autograd(const Tensor& x, const Tensor& residual, const OptionalTensor& weight, double eps,
                                   bool zero_centred) {
  if (any_tangent(x, residual, weight)) {
    rmsnorm_add_meta(x, residual, weight, eps, zero_centred);
    const Tensor sum = x + residual;
    auto [y, rstd] = by_torch(sum, weight, eps, zero_centred);
    return {y, sum, rstd};
  }
  const auto node = torch::autograd::compute_requires_grad(x, residual, weight)
                        ? backward_node(make_node(x, weight, residual), eps, zero_centred)
                        : nullptr;
  NormalisedSum out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_rmsnorm_add(x, residual, weight, eps, zero_centred);
  }
  if (!node) return out;
  torch::autograd::set_history(std::get<0>(out), node);
  torch::autograd::set_history(std::get<1>(out), node);
  node->saved[RmsnormGradients::kSavedX] = {std::get<1>(out), true};
  node->saved[RmsnormGradients::kSavedRstd] = {std::get<2>(out), false};
  if (given(weight)) node->saved[RmsnormGradients::kSavedWeight] = {*weight, false};
  return out;
}

NormGradients rmsnorm_backward_autograd(const Tensor& dy, const Tensor& x, const Tensor& rstd,
                                        const OptionalTensor& weight, bool zero_centred, const OptionalTensor& dsum,
                                        bool need_dx, bool need_dweight) {
  const bool recorded = torch::autograd::compute_requires_grad(dy, x, rstd, weight, dsum);
  if (recorded || any_tangent(dy, x, rstd, weight, dsum)) {
    rmsnorm_backward_meta(dy, x, rstd, weight, zero_centred, dsum, need_dx, need_dweight);
    return gradients_by_torch(dy, x, rstd, weight, zero_centred, dsum, need_dx, need_dweight);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_rmsnorm_backward(dy, x, rstd, weight, zero_centred, dsum, need_dx, need_dweight);
}

}  // namespace

Normalised call_rmsnorm(const Tensor& x, const OptionalTensor& weight, double eps, bool zero_centred) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::rmsnorm", "").typed<decltype(call_rmsnorm)>();
  return op.call(x, weight, eps, zero_centred);
}
NormalisedSum call_rmsnorm_add(const Tensor& x, const Tensor& residual, const OptionalTensor& weight, double eps,
                               bool zero_centred) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::rmsnorm_add", "").typed<decltype(call_rmsnorm_add)>();
  return op.call(x, residual, weight, eps, zero_centred);
}
NormGradients call_rmsnorm_backward(const Tensor& dy, const Tensor& x, const Tensor& rstd, const OptionalTensor& weight,
                                    bool zero_centred, const OptionalTensor& dsum, bool need_dx, bool need_dweight) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::rmsnorm_backward", "")
                             .typed<decltype(call_rmsnorm_backward)>();
  return op.call(dy, x, rstd, weight, zero_centred, dsum, need_dx, need_dweight);
}

void register_rmsnorm(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("rmsnorm", rmsnorm);
      library.impl("rmsnorm_add", rmsnorm_add);
      library.impl("rmsnorm_backward", rmsnorm_backward);
      return;
    case c10::DispatchKey::Meta:
      library.impl("rmsnorm", rmsnorm_meta);
      library.impl("rmsnorm_add", rmsnorm_add_meta);
      library.impl("rmsnorm_backward", rmsnorm_backward_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("rmsnorm", rmsnorm_autograd);
      library.impl("rmsnorm_add", rmsnorm_add_autograd);
      library.impl("rmsnorm_backward", rmsnorm_backward_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
