// ridgeline::cross_entropy, with its gradient in the same call, in place, or after it, and of a shard of the
// vocabulary.
#include "ridge/ops/cross_entropy.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <string>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/cross_entropy_backward.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "cross_entropy";

// ---- What a call asks of its tensors and numbers, of symbolic sizes

void check_settings(const LossSettings& s) {
  TORCH_CHECK_VALUE(s.label_smoothing >= 0 && s.label_smoothing <= 1, kOp, ": label_smoothing is ", s.label_smoothing,
                    "; give a number from 0 to 1");
  TORCH_CHECK_VALUE(s.z_loss >= 0 && std::isfinite(s.z_loss), kOp, ": z_loss is ", s.z_loss,
                    "; give a finite number from 0");
  TORCH_CHECK_VALUE(s.soft_cap >= 0 && std::isfinite(s.soft_cap), kOp, ": soft_cap is ", s.soft_cap,
                    "; give a finite number above 0, or none");
}

void check_inputs(const Tensor& logits, const Tensor& target, const LossSettings& s) {
  check_settings(s);
  const auto type = logits.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf ||
                           (type == at::kDouble && !logits.is_cuda());  // by torch
  TORCH_CHECK_TYPE(usable_type, kOp, ": the logits are ", type_of(logits),
                   "; give torch.float32, torch.bfloat16 or torch.float16 (torch.float64: on the CPU)");
  TORCH_CHECK_VALUE(logits.dim() == 2, kOp, ": the logits have shape ", logits.sym_sizes(),
                    "; give [tokens, vocabulary]");
  check_rows(logits, kOp, "the logits");
  TORCH_CHECK_VALUE(!TORCH_GUARD_OR_FALSE(logits.sym_size(1).sym_eq(0)), kOp, ": the logits of shape ",
                    logits.sym_sizes(), " have no columns; give at least one");
  const auto index = target.scalar_type();
  TORCH_CHECK_TYPE(index == at::kLong || index == at::kInt, kOp, ": the target is ", type_of(target),
                   "; give torch.int64 or torch.int32");
  check_like(target, kOp, "the target", {logits.sym_size(0)}, index);
  TORCH_CHECK_VALUE(target.is_contiguous(), kOp, ": the target is not contiguous; call .contiguous() on it first");
}

at::TensorOptions number_options(const Tensor& logits) {
  return logits.options().dtype(logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}
Tensor per_token(const Tensor& logits) { return at::empty_symint({logits.sym_size(0)}, number_options(logits)); }
// A factor of each token, a log-sum-exp.
void check_per_token(const Tensor& tensor, const Tensor& logits, std::string_view name) {
  check_like(tensor, kOp, name, {logits.sym_size(0)}, number_options(logits).dtype().toScalarType());
  TORCH_CHECK_VALUE(tensor.is_contiguous(), kOp, ": ", name, " is not contiguous; call .contiguous() on it first");
}

LossAndSum loss_meta(const Tensor& logits, const Tensor& target, const LossSettings& s) {
  check_inputs(logits, target, s);
  return {per_token(logits), per_token(logits)};
}
Tensor backward_meta(const Tensor& dloss, const Tensor& logits, const Tensor& target, const Tensor& lse,
                     const LossSettings& s, std::int64_t first, std::int64_t whole) {
  check_inputs(logits, target, s);
  check_per_token(dloss, logits, "the gradient");
  check_per_token(lse, logits, "lse");
  TORCH_CHECK_VALUE(first >= 0 && whole >= 0 && (whole > 0 || first == 0), kOp, ": a shard from column ", first,
                    " on of ", whole, "; give the number of all columns");
  return at::empty_symint(logits.sym_sizes(), logits.options());
}

// ---- By PyTorch's own operators, which know every derivative: for float64 (gradient checks), tangents, and gradients
// that are differentiated again

void check_targets(const Tensor& target, std::int64_t columns, std::int64_t ignored) {
  const Tensor all = target.to(at::kCPU, at::kLong).contiguous();
  const auto* const values = all.const_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < all.numel(); ++row) {
    TORCH_CHECK_VALUE((values[row] >= 0 && values[row] < columns) || values[row] == ignored, kOp, ": targets[", row,
                      "] is ", values[row], "; the vocabulary has ", columns, " columns (give numbers from 0 to ",
                      columns - 1, ", or ignore_index (", ignored, ") for rows that do not count)");
  }
}

// The logits as the formula knows them, and what belongs to their rows.
struct Rows {
  Tensor logits;  // of rows that do not count 0
  Tensor x;
  Tensor counts;  // [tokens], bool
  Tensor target;  // [tokens, 1], of rows that do not count 0
  Tensor none;    // a zero
};
Rows rows_of(const Tensor& logits, const Tensor& target, const LossSettings& s) {
  Rows r;
  const Tensor wide = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
  r.none = at::zeros({}, wide.options());
  r.counts = target != s.ignore_index;
  r.target = at::where(r.counts, target, at::zeros({}, target.options())).to(at::kLong).unsqueeze(-1);
  r.logits = at::where(r.counts.unsqueeze(-1), wide, r.none);
  r.x = s.soft_cap > 0 ? at::tanh(r.logits / s.soft_cap) * s.soft_cap : r.logits;
  return r;
}
LossAndSum by_torch(const Tensor& logits, const Tensor& target, const LossSettings& s) {
  const Rows r = rows_of(logits, target, s);
  const Tensor lse = at::logsumexp(r.x, 1);
  Tensor loss = lse - r.x.gather(1, r.target).squeeze(-1) * (1 - s.label_smoothing);
  if (s.label_smoothing > 0) loss = loss - r.x.mean(1) * s.label_smoothing;
  if (s.z_loss > 0) loss = loss + lse * lse * s.z_loss;
  return {at::where(r.counts, loss, r.none), at::where(r.counts, lse, r.none)};
}
// `given_sum` undefined: that of these logits, through which the gradient is differentiated, too.
Tensor gradient_by_torch(const Tensor& dloss, const Tensor& logits, const Tensor& target, const Tensor& given_sum,
                         const LossSettings& s, std::int64_t first, std::int64_t whole) {
  LossSettings kept = s;
  const Rows r = rows_of(logits, target, kept);
  const Tensor lse = (given_sum.defined() ? given_sum : at::logsumexp(r.x, 1)).unsqueeze(-1);
  Tensor share = at::exp(r.x - lse);
  if (s.z_loss > 0) share = share * (1 + lse * (2 * s.z_loss));
  const std::int64_t columns = logits.size(1);
  if (s.label_smoothing > 0) share = share - s.label_smoothing / static_cast<double>(whole > 0 ? whole : columns);
  const Tensor places = at::arange(columns, r.target.options()) + first;
  share = share - (r.target == places).to(share.scalar_type()) * (1 - s.label_smoothing);
  if (s.soft_cap > 0) share = share * (1 - at::square(at::tanh(r.logits / s.soft_cap)));
  share = share * dloss.unsqueeze(-1);
  return at::where(r.counts.unsqueeze(-1), share, r.none).to(logits.scalar_type());
}

// ---- The calls

CrossEntropySettings settings_of(const LossSettings& s) {
  CrossEntropySettings settings;
  settings.label_smoothing = s.label_smoothing;
  settings.z_loss = s.z_loss;
  settings.soft_cap = s.soft_cap;
  settings.ignore_index = s.ignore_index;
  return settings;
}
TensorView numbers(const Tensor& tensor, std::string_view name) {
  return TensorView::contiguous(tensor.data_ptr(), dtype_of(tensor, kOp, name), {tensor.numel()});
}
CrossEntropyArgs arguments_of(const Tensor& logits, const Tensor& target, const LossSettings& s) {
  CrossEntropyArgs args;
  args.logits = rows_view(logits, kOp, "the logits");
  args.targets = numbers(target, "the target");
  args.settings = settings_of(s);
  return args;
}

LossAndSum loss(const Tensor& logits, const Tensor& target, std::int64_t ignore_index, double label_smoothing,
                double z_loss, double soft_cap) {
  const LossSettings s{ignore_index, label_smoothing, z_loss, soft_cap};
  check_same_device(kOp, {{"the logits", &logits}, {"the target", &target}});
  LossAndSum out = loss_meta(logits, target, s);
  if (logits.scalar_type() == at::kDouble) {
    check_targets(target, logits.size(1), ignore_index);
    return by_torch(logits, target, s);
  }
  if (logits.numel() == 0) return out;
  const OnDeviceOf on_device(logits);
  CrossEntropyArgs args = arguments_of(logits, target, s);
  args.loss = numbers(std::get<0>(out), "the loss");
  args.lse = numbers(std::get<1>(out), "lse");
  check(ridge::cross_entropy(args, stream_of(logits)));
  return out;
}

Tensor backward(const Tensor& dloss, const Tensor& logits, const Tensor& target, const Tensor& lse,
                std::int64_t ignore_index, double label_smoothing, double z_loss, double soft_cap, std::int64_t first,
                std::int64_t whole) {
  const LossSettings s{ignore_index, label_smoothing, z_loss, soft_cap};
  check_same_device(kOp, {{"the logits", &logits}, {"the target", &target}, {"the gradient", &dloss}, {"lse", &lse}});
  Tensor dlogits = backward_meta(dloss, logits, target, lse, s, first, whole);
  if (logits.scalar_type() == at::kDouble) {
    check_targets(target, whole > 0 ? whole : logits.size(1), ignore_index);
    return gradient_by_torch(dloss, logits, target, lse, s, first, whole);
  }
  if (logits.numel() == 0) return dlogits;
  const OnDeviceOf on_device(logits);
  CrossEntropyBackwardArgs args;
  args.dloss = numbers(dloss, "the gradient");
  args.logits = rows_view(logits, kOp, "the logits");
  args.targets = numbers(target, "the target");
  args.lse = numbers(lse, "lse");
  args.dlogits = rows_view(dlogits, kOp, "the gradient of the logits");
  args.settings = settings_of(s);
  args.settings.first = first;
  args.settings.whole = whole;
  check(ridge::cross_entropy_backward(args, stream_of(logits)));
  return dlogits;
}

// ---- Loss and gradient in one pass

void check_factor(const OptionalTensor& grad, const Tensor& logits) {
  if (given(grad)) check_per_token(*grad, logits, "grad");
}
void run_with_gradient(const Tensor& logits, const Tensor& target, const OptionalTensor& grad, const LossSettings& s,
                       const Tensor& loss_of_tokens, const Tensor& dlogits) {
  if (logits.numel() == 0) return;
  if (logits.scalar_type() == at::kDouble) {
    check_targets(target, logits.size(1), s.ignore_index);
    loss_of_tokens.copy_(std::get<0>(by_torch(logits, target, s)));
    const Tensor ones = at::ones({logits.size(0)}, logits.options());
    dlogits.copy_(gradient_by_torch(given(grad) ? *grad : ones, logits, target, {}, s, 0, 0));
    return;
  }
  const OnDeviceOf on_device(logits);
  CrossEntropyArgs args = arguments_of(logits, target, s);
  args.loss = numbers(loss_of_tokens, "the loss");
  if (given(grad)) args.grad = numbers(*grad, "grad");
  args.dlogits = rows_view(dlogits, kOp, "the gradient of the logits");
  check(ridge::cross_entropy(args, stream_of(logits)));
}
LossAndGradient with_gradient_meta(const Tensor& logits, const Tensor& target, const OptionalTensor& grad,
                                   const LossSettings& s) {
  check_inputs(logits, target, s);
  check_factor(grad, logits);
  return {per_token(logits), at::empty_symint(logits.sym_sizes(), logits.options())};
}
void check_devices(const Tensor& logits, const Tensor& target, const OptionalTensor& grad) {
  check_same_device(kOp, {{"the logits", &logits}, {"the target", &target}, {"grad", &grad}});
}
LossAndGradient with_gradient(const Tensor& logits, const Tensor& target, const OptionalTensor& grad,
                              std::int64_t ignore_index, double label_smoothing, double z_loss, double soft_cap) {
  const LossSettings s{ignore_index, label_smoothing, z_loss, soft_cap};
  check_devices(logits, target, grad);
  LossAndGradient out = with_gradient_meta(logits, target, grad, s);
  run_with_gradient(logits, target, grad, s, std::get<0>(out), std::get<1>(out));
  return out;
}
Tensor with_gradient_in_place(Tensor& logits, const Tensor& target, const OptionalTensor& grad,
                              std::int64_t ignore_index, double label_smoothing, double z_loss, double soft_cap) {
  const LossSettings s{ignore_index, label_smoothing, z_loss, soft_cap};
  check_devices(logits, target, grad);
  check_inputs(logits, target, s);
  check_factor(grad, logits);
  Tensor out = per_token(logits);
  run_with_gradient(logits, target, grad, s, out, logits);
  return out;
}

// ---- A shard of the vocabulary

ShardStatistics shard_meta(const Tensor& logits, const Tensor& target, std::int64_t first, std::int64_t whole,
                           const LossSettings& s) {
  check_inputs(logits, target, s);
  TORCH_CHECK_VALUE(first >= 0 && whole > 0, kOp, ": a shard from column ", first, " on of ", whole,
                    "; give the number of all columns");
  return {per_token(logits), per_token(logits), per_token(logits), per_token(logits)};
}
ShardStatistics shard_by_torch(const Tensor& logits, const Tensor& target, std::int64_t first, const LossSettings& s) {
  const Rows r = rows_of(logits, target, s);
  const Tensor most = std::get<0>(r.x.max(1)), base = at::where(at::isfinite(most), most, r.none);
  const Tensor sum = at::exp(r.x - base.unsqueeze(-1)).sum(1), place = r.target - first;
  const Tensor here = (place >= 0).logical_and(place < logits.size(1));
  const Tensor picked = r.x.gather(1, at::where(here, place, at::zeros({}, place.options())));
  const auto counted = [&](const Tensor& value) { return at::where(r.counts, value, r.none); };
  return {counted(most), counted(sum), counted(at::where(here, picked, r.none).squeeze(-1)), counted(r.x.sum(1))};
}
ShardStatistics shard(const Tensor& logits, const Tensor& target, std::int64_t first, std::int64_t whole,
                      std::int64_t ignore_index, double soft_cap) {
  const LossSettings s{ignore_index, 0, 0, soft_cap};
  check_same_device(kOp, {{"the logits", &logits}, {"the target", &target}});
  ShardStatistics out = shard_meta(logits, target, first, whole, s);
  if (logits.scalar_type() == at::kDouble) {
    check_targets(target, whole, ignore_index);
    return shard_by_torch(logits, target, first, s);
  }
  if (logits.numel() == 0) return out;
  const OnDeviceOf on_device(logits);
  CrossEntropyArgs args = arguments_of(logits, target, s);
  args.settings.first = first;
  args.settings.whole = whole;
  args.shard_max = numbers(std::get<0>(out), "the statistics");
  args.shard_sum = numbers(std::get<1>(out), "the statistics");
  args.shard_target = numbers(std::get<2>(out), "the statistics");
  args.shard_logits = numbers(std::get<3>(out), "the statistics");
  check(ridge::cross_entropy(args, stream_of(logits)));
  return out;
}

// ---- Derivatives

struct LossFormula final : Gradients {
  enum Saved { kLogits, kTarget, kSum };
  LossSettings s;

  [[nodiscard]] std::string name() const override { return "RidgelineCrossEntropyBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_cross_entropy_", s.ignore_index, "_", exact_text(s.label_smoothing), "_",
                    exact_text(s.z_loss), "_", exact_text(s.soft_cap));
  }
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved, const Tensor&,
                                         const std::vector<bool>& wanted) const override {
    if (!wanted[0]) return {Tensor()};
    const Tensor dloss = grads[0].contiguous();
    if (at::GradMode::is_enabled()) {  // differentiated again
      return {gradient_by_torch(dloss, saved[kLogits], saved[kTarget], {}, s, 0, 0)};
    }
    return {call_cross_entropy_backward(dloss, saved[kLogits], saved[kTarget], saved[kSum], s.ignore_index,
                                        s.label_smoothing, s.z_loss, s.soft_cap, 0, 0)};
  }
};

LossAndSum loss_autograd(const Tensor& logits, const Tensor& target, std::int64_t ignore_index, double label_smoothing,
                         double z_loss, double soft_cap) {
  const LossSettings s{ignore_index, label_smoothing, z_loss, soft_cap};
  if (any_tangent(logits)) {
    loss_meta(logits, target, s);
    return by_torch(logits, target, s);
  }
  std::shared_ptr<LossFormula> formula;
  NodePointer<BackwardNode> node;
  if (torch::autograd::compute_requires_grad(logits)) {
    node = make_node(logits);
    formula = std::make_shared<LossFormula>();
    formula->s = s;
    node->gradients = formula;
    node->saved.resize(3);
  }
  LossAndSum out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_cross_entropy(logits, target, ignore_index, label_smoothing, z_loss, soft_cap);
  }
  if (!node) return out;
  node->saved[LossFormula::kLogits] = {logits, false};
  node->saved[LossFormula::kTarget] = {target, false};
  node->saved[LossFormula::kSum] = {std::get<1>(out), false};
  torch::autograd::set_history(std::get<0>(out), node);
  return out;
}

Tensor backward_autograd(const Tensor& dloss, const Tensor& logits, const Tensor& target, const Tensor& lse,
                         std::int64_t ignore_index, double label_smoothing, double z_loss, double soft_cap,
                         std::int64_t first, std::int64_t whole) {
  const LossSettings s{ignore_index, label_smoothing, z_loss, soft_cap};
  const bool recorded = torch::autograd::compute_requires_grad(dloss, logits);
  if (recorded || any_tangent(dloss, logits)) {
    TORCH_CHECK_NOT_IMPLEMENTED(whole == 0, kOp,
                                "_backward: no second derivative of a shard, whose lse is of others, too; detach what "
                                "it is made of");
    backward_meta(dloss, logits, target, lse, s, first, whole);
    return gradient_by_torch(dloss, logits, target, {}, s, 0, 0);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_cross_entropy_backward(dloss, logits, target, lse, ignore_index, label_smoothing, z_loss, soft_cap, first,
                                     whole);
}

// They are gradients themselves, or parts of one: cross_entropy is what is differentiated.
LossAndGradient with_gradient_autograd(const Tensor& logits, const Tensor& target, const OptionalTensor& grad,
                                       std::int64_t ignore_index, double label_smoothing, double z_loss,
                                       double soft_cap) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::cross_entropy_with_gradient", "")
                             .typed<decltype(with_gradient)>();
  return without_derivative("cross_entropy_with_gradient", {logits}, [&] {
    return op.call(logits, target, grad, ignore_index, label_smoothing, z_loss, soft_cap);
  });
}
Tensor with_gradient_in_place_autograd(Tensor& logits, const Tensor& target, const OptionalTensor& grad,
                                       std::int64_t ignore_index, double label_smoothing, double z_loss,
                                       double soft_cap) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::cross_entropy_with_gradient_", "")
                             .typed<decltype(with_gradient_in_place)>();
  check_no_derivative_in_place("cross_entropy_with_gradient_", {logits});
  Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = op.call(logits, target, grad, ignore_index, label_smoothing, z_loss, soft_cap);
  }
  if (!logits.is_inference()) logits.unsafeGetTensorImpl()->bump_version();
  return out;
}
ShardStatistics shard_autograd(const Tensor& logits, const Tensor& target, std::int64_t first, std::int64_t whole,
                               std::int64_t ignore_index, double soft_cap) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::cross_entropy_shard", "").typed<decltype(shard)>();
  return without_derivative("cross_entropy_shard", {logits},
                            [&] { return op.call(logits, target, first, whole, ignore_index, soft_cap); });
}

}  // namespace

LossAndSum call_cross_entropy(const Tensor& logits, const Tensor& target, std::int64_t ignore_index,
                              double label_smoothing, double z_loss, double soft_cap) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::cross_entropy", "")
                             .typed<decltype(call_cross_entropy)>();
  return op.call(logits, target, ignore_index, label_smoothing, z_loss, soft_cap);
}
Tensor call_cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target, const Tensor& lse,
                                   std::int64_t ignore_index, double label_smoothing, double z_loss, double soft_cap,
                                   std::int64_t first, std::int64_t whole) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::cross_entropy_backward", "")
                             .typed<decltype(call_cross_entropy_backward)>();
  return op.call(dloss, logits, target, lse, ignore_index, label_smoothing, z_loss, soft_cap, first, whole);
}

void register_cross_entropy(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("cross_entropy", loss);
      library.impl("cross_entropy_backward", backward);
      library.impl("cross_entropy_with_gradient", with_gradient);
      library.impl("cross_entropy_with_gradient_", with_gradient_in_place);
      library.impl("cross_entropy_shard", shard);
      return;
    case c10::DispatchKey::Meta:
      library.impl("cross_entropy", [](const Tensor& logits, const Tensor& target, std::int64_t ignored,
                                       double smoothing, double z, double cap) {
        return loss_meta(logits, target, {ignored, smoothing, z, cap});
      });
      library.impl("cross_entropy_backward", [](const Tensor& dloss, const Tensor& logits, const Tensor& target,
                                                const Tensor& lse, std::int64_t ignored, double smoothing, double z,
                                                double cap, std::int64_t first, std::int64_t whole) {
        return backward_meta(dloss, logits, target, lse, {ignored, smoothing, z, cap}, first, whole);
      });
      library.impl("cross_entropy_with_gradient",
                   [](const Tensor& logits, const Tensor& target, const OptionalTensor& grad, std::int64_t ignored,
                      double smoothing, double z, double cap) {
                     return with_gradient_meta(logits, target, grad, {ignored, smoothing, z, cap});
                   });
      library.impl("cross_entropy_with_gradient_", [](Tensor& logits, const Tensor& target, const OptionalTensor& grad,
                                                      std::int64_t ignored, double smoothing, double z, double cap) {
        return std::get<0>(with_gradient_meta(logits, target, grad, {ignored, smoothing, z, cap}));
      });
      library.impl("cross_entropy_shard", [](const Tensor& logits, const Tensor& target, std::int64_t first,
                                             std::int64_t whole, std::int64_t ignored, double cap) {
        return shard_meta(logits, target, first, whole, {ignored, 0, 0, cap});
      });
      return;
    case c10::DispatchKey::Autograd:
      library.impl("cross_entropy", loss_autograd);
      library.impl("cross_entropy_backward", backward_autograd);
      library.impl("cross_entropy_with_gradient", with_gradient_autograd);
      library.impl("cross_entropy_with_gradient_", with_gradient_in_place_autograd);
      library.impl("cross_entropy_shard", shard_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
