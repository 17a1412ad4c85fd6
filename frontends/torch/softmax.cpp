// ridgeline::softmax, of rows: their shares, the logarithms of these, or the logarithm of the sum; and
// ridgeline::softmax_backward.
#include "ridge/ops/softmax.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/softmax_backward.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "softmax";
constexpr std::array<std::string_view, 3> kForms = {"softmax", "log_softmax", "logsumexp"};

SoftmaxForm form_of(std::string_view form, double scale) {
  const auto* const found = std::find(kForms.begin(), kForms.end(), form);
  TORCH_CHECK_VALUE(found != kForms.end(), kOp, ": form=\"", form,
                    "\" is unknown; use one of softmax, log_softmax, logsumexp");
  TORCH_CHECK_VALUE(std::isfinite(static_cast<float>(scale)), kOp, ": a scale of ", scale,
                    " is not possible; give a finite number");
  return static_cast<SoftmaxForm>(found - kForms.begin());
}

// ---- What a call asks of its tensors, of symbolic sizes

void check_input(const Tensor& x, std::string_view name) {
  const auto type = x.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf ||
                           (type == at::kDouble && !x.is_cuda());  // by torch
  TORCH_CHECK_TYPE(usable_type, kOp, ": ", name, " is ", type_of(x),
                   "; give torch.float32, torch.bfloat16 or torch.float16 (torch.float64: on the CPU)");
  check_rows(x, kOp, name);
}

at::ScalarType wide_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }
c10::SymIntArrayRef sizes_of_rows(const Tensor& x) {
  return x.sym_sizes().slice(0, static_cast<std::size_t>(x.dim() - 1));
}

Tensor softmax_meta(const Tensor& x, std::string_view form, double scale, OptionalType out_dtype) {
  const SoftmaxForm which = form_of(form, scale);
  check_input(x, "the input");
  const auto type = x.scalar_type(), wide = wide_type(type);
  const bool sums = which == SoftmaxForm::kLogSumExp;
  const auto out = out_dtype.value_or(sums ? wide : type);
  check_result_type(out, kOp, sums ? std::initializer_list<at::ScalarType>{wide} : std::initializer_list{type, wide});
  return at::empty_symint(sums ? sizes_of_rows(x) : x.sym_sizes(), x.options().dtype(out));
}

// `saved` is y, or x of logsumexp.
Tensor softmax_backward_meta(const Tensor& dy, const Tensor& saved, const OptionalTensor& lse, std::string_view form,
                             double scale, at::ScalarType dtype) {
  const SoftmaxForm which = form_of(form, scale);
  const bool sums = which == SoftmaxForm::kLogSumExp;
  check_input(saved, sums ? "the input" : "the result");
  TORCH_CHECK_VALUE(given(lse) == sums, kOp, "_backward: lse is ", sums ? "not given" : "given",
                    "; it is of logsumexp alone");
  const auto type = saved.scalar_type(), wide = wide_type(type);
  if (sums) {
    check_like(dy, kOp, "the gradient", sizes_of_rows(saved), wide);
    check_like(*lse, kOp, "lse", sizes_of_rows(saved), wide);
    TORCH_CHECK_VALUE(dy.is_contiguous() && lse->is_contiguous(), kOp,
                      ": the gradient or lse is not contiguous; call .contiguous() on it first");
    check_result_type(dtype, kOp, {type});
  } else {
    check_like(dy, kOp, "the gradient", saved.sym_sizes(), type);
    check_rows(dy, kOp, "the gradient");
    if (type == at::kFloat) {
      check_result_type(dtype, kOp, {at::kFloat, at::kBFloat16, at::kHalf});
    } else {
      check_result_type(dtype, kOp, {type});
    }
  }
  return at::empty_symint(saved.sym_sizes(), saved.options().dtype(dtype));
}

// ---- By PyTorch's own operators, which know every derivative: for float64 (gradient checks), tangents, and gradients
// that are differentiated again

Tensor scaled(const Tensor& x, double scale) {
  const Tensor wide = x.to(wide_type(x.scalar_type()));
  return scale == 1 ? wide : wide * scale;
}
Tensor by_torch(const Tensor& x, SoftmaxForm form, double scale, OptionalType out_dtype) {
  const Tensor z = scaled(x, scale);
  if (form == SoftmaxForm::kLogSumExp) return at::logsumexp(z, -1);
  const Tensor y = form == SoftmaxForm::kSoftmax ? at::softmax(z, -1) : at::log_softmax(z, -1);
  return y.to(out_dtype.value_or(x.scalar_type()));
}
Tensor gradient_by_torch(const Tensor& dy, const Tensor& saved, const OptionalTensor& lse, SoftmaxForm form,
                         double scale, at::ScalarType dtype) {
  const auto wide = wide_type(saved.scalar_type());
  const Tensor slope = dy.to(wide);
  Tensor dx;
  if (form == SoftmaxForm::kLogSumExp) {
    dx = at::exp(scaled(saved, scale) - lse->unsqueeze(-1)) * slope.unsqueeze(-1);
  } else {
    const Tensor y = saved.to(wide);
    dx = form == SoftmaxForm::kSoftmax ? y * (slope - at::sum(slope * y, {-1}, true))
                                       : slope - at::exp(y) * at::sum(slope, {-1}, true);
  }
  return (scale == 1 ? dx : dx * scale).to(dtype);
}

// ---- The calls

TensorView numbers(const Tensor& tensor, std::string_view name) {
  return TensorView::contiguous(tensor.data_ptr(), dtype_of(tensor, kOp, name), {tensor.numel()});
}

Tensor softmax(const Tensor& x, std::string_view form, double scale, OptionalType out_dtype) {
  Tensor out = softmax_meta(x, form, scale, out_dtype);
  const SoftmaxForm which = form_of(form, scale);
  const bool sums = which == SoftmaxForm::kLogSumExp;
  if (x.numel() == 0) return sums ? out.fill_(-std::numeric_limits<double>::infinity()) : out;
  if (x.scalar_type() == at::kDouble) return by_torch(x, which, scale, out_dtype);
  const OnDeviceOf on_device(x);
  SoftmaxArgs args;
  args.x = rows_view(x, kOp, "the input");
  (sums ? args.lse : args.y) = sums ? numbers(out, "lse") : rows_view(out, kOp, "the result");
  args.form = which;
  args.scale = scale;
  check(ridge::softmax(args, stream_of(x)));
  return out;
}

Tensor softmax_backward(const Tensor& dy, const Tensor& saved, const OptionalTensor& lse, std::string_view form,
                        double scale, at::ScalarType dtype) {
  check_same_device("softmax_backward", {{"the gradient", &dy}, {"what was saved", &saved}, {"lse", &lse}});
  Tensor dx = softmax_backward_meta(dy, saved, lse, form, scale, dtype);
  const SoftmaxForm which = form_of(form, scale);
  if (saved.numel() == 0) return dx;
  if (saved.scalar_type() == at::kDouble) return gradient_by_torch(dy, saved, lse, which, scale, dtype);
  const OnDeviceOf on_device(saved);
  SoftmaxBackwardArgs args;
  if (which == SoftmaxForm::kLogSumExp) {
    args.dy = numbers(dy, "the gradient");
    args.x = rows_view(saved, kOp, "the input");
    args.lse = numbers(*lse, "lse");
  } else {
    args.dy = rows_view(dy, kOp, "the gradient");
    args.y = rows_view(saved, kOp, "the result");
  }
  args.dx = rows_view(dx, kOp, "the input's gradient");
  args.form = which;
  args.scale = scale;
  check(ridge::softmax_backward(args, stream_of(saved)));
  return dx;
}

// ---- Derivatives

struct SoftmaxFormula final : Gradients {
  SoftmaxForm form = SoftmaxForm::kSoftmax;
  double scale = 1;
  at::ScalarType type = at::kFloat;  // of x

  [[nodiscard]] std::string name() const override { return "RidgelineSoftmaxBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_softmax_", static_cast<int>(form), "_", exact_text(scale), "_", static_cast<int>(type));
  }
  // `saved` holds y, or x and lse.
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved, const Tensor&,
                                         const std::vector<bool>&) const override {
    const OptionalTensor lse = saved.size() > 1 ? OptionalTensor(saved[1]) : OptionalTensor();
    const Tensor dy = grads[0].contiguous();
    if (at::GradMode::is_enabled()) return {gradient_by_torch(dy, saved[0], lse, form, scale, type)};
    return {call_softmax_backward(dy, saved[0], lse, kForms[static_cast<std::size_t>(form)], scale, type)};
  }
};

Tensor softmax_autograd(const Tensor& x, std::string_view form, double scale, OptionalType out_dtype) {
  const SoftmaxForm which = form_of(form, scale);
  if (any_tangent(x)) {
    softmax_meta(x, form, scale, out_dtype);
    return by_torch(x, which, scale, out_dtype);
  }
  NodePointer<BackwardNode> node;
  if (torch::autograd::compute_requires_grad(x)) {
    node = make_node(x);
    auto formula = std::make_shared<SoftmaxFormula>();
    formula->form = which, formula->scale = scale, formula->type = x.scalar_type();
    node->gradients = std::move(formula);
  }
  Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_softmax(x, form, scale, out_dtype);
  }
  if (!node) return out;
  torch::autograd::set_history(out, node);
  node->saved.resize(which == SoftmaxForm::kLogSumExp ? 2 : 1);
  if (which == SoftmaxForm::kLogSumExp) node->saved[0] = {x, false};
  node->saved.back() = {out, true};
  return out;
}

Tensor softmax_backward_autograd(const Tensor& dy, const Tensor& saved, const OptionalTensor& lse,
                                 std::string_view form, double scale, at::ScalarType dtype) {
  if (torch::autograd::compute_requires_grad(dy, saved, lse) || any_tangent(dy, saved, lse)) {
    softmax_backward_meta(dy, saved, lse, form, scale, dtype);
    return gradient_by_torch(dy, saved, lse, form_of(form, scale), scale, dtype);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_softmax_backward(dy, saved, lse, form, scale, dtype);
}

}  // namespace

Tensor call_softmax(const Tensor& x, std::string_view form, double scale, OptionalType out_dtype) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::softmax", "").typed<decltype(call_softmax)>();
  return op.call(x, form, scale, out_dtype);
}
Tensor call_softmax_backward(const Tensor& dy, const Tensor& saved, const OptionalTensor& lse, std::string_view form,
                             double scale, at::ScalarType dtype) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::softmax_backward", "")
                             .typed<decltype(call_softmax_backward)>();
  return op.call(dy, saved, lse, form, scale, dtype);
}

void register_softmax(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("softmax", softmax);
      library.impl("softmax_backward", softmax_backward);
      return;
    case c10::DispatchKey::Meta:
      library.impl("softmax", softmax_meta);
      library.impl("softmax_backward", softmax_backward_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("softmax", softmax_autograd);
      library.impl("softmax_backward", softmax_backward_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
