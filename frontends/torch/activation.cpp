// ridgeline::activation and ridgeline::activation_backward.
#include "activation.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/activation_backward.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace activations {
namespace {

constexpr std::array<std::string_view, 6> kFunctions = {"silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"};

void check_per_row(std::string_view op, const OptionalTensor& given_tensor, const Tensor& x, at::ScalarType type,
                   std::string_view name) {
  if (!given(given_tensor)) return;
  check_like(*given_tensor, op, name, x.sym_sizes().slice(0, static_cast<std::size_t>(x.dim() - 1)), type);
  TORCH_CHECK_VALUE(given_tensor->is_contiguous(), op, ": ", name,
                    " is not contiguous; call .contiguous() on it first");
}

// Columns first .. first + count of the rows.
TensorView columns_view(const Tensor& tensor, std::string_view op, std::string_view name, std::int64_t first,
                        std::int64_t count) {
  TensorView view = rows_view(tensor, op, name);
  view.data = static_cast<char*>(view.data) + first * tensor.element_size();
  view.shape[1] = count;
  return view;
}
TensorView row_numbers(const OptionalTensor& tensor, std::string_view op, std::string_view name) {
  if (!given(tensor)) return {};
  return TensorView::contiguous(tensor->data_ptr(), dtype_of(*tensor, op, name), {tensor->numel()});
}

}  // namespace

Settings settings_of(std::string_view op, std::string_view function, bool packed, double alpha, double limit) {
  const auto* const found = std::find(kFunctions.begin(), kFunctions.end(), function);
  TORCH_CHECK_VALUE(found != kFunctions.end(), op, ": function=\"", function,
                    "\" is unknown; use one of silu, gelu, gelu_tanh, relu, relu2, clamped_silu");
  TORCH_CHECK_VALUE(std::isfinite(static_cast<float>(alpha)), op, ": an alpha of ", alpha,
                    " is not possible; give a finite number");
  TORCH_CHECK_VALUE(static_cast<float>(limit) >= 0 && std::isfinite(static_cast<float>(limit)), op, ": a limit of ",
                    limit, " is not possible; give a finite number from 0");
  return {static_cast<ActivationFunction>(found - kFunctions.begin()), packed, alpha, limit};
}

void check_inputs(std::string_view op, const Inputs& in, bool packed) {
  const auto type = in.x.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf ||
                           (type == at::kDouble && !in.x.is_cuda());  // by_torch
  TORCH_CHECK_TYPE(usable_type, op, ": the input is ", type_of(in.x),
                   "; give torch.float32, torch.bfloat16 or torch.float16 (torch.float64: on the CPU)");
  check_rows(in.x, op, "the input");
  const c10::SymInt columns = in.x.sym_size(-1);
  TORCH_CHECK_VALUE(!TORCH_GUARD_OR_FALSE(columns.sym_eq(0)), op, ": the input of shape ", in.x.sym_sizes(),
                    " has rows without elements; give rows of at least one");
  TORCH_CHECK_VALUE(!packed || !given(in.up), op, ": a packed input holds the gate itself, and up is given, too");
  TORCH_CHECK_VALUE(!packed || !TORCH_GUARD_OR_FALSE((columns % 2).sym_eq(1)), op, ": a packed input has ", columns,
                    " columns, which are no two halves");
  if (given(in.up)) {
    check_like(*in.up, op, "up", in.x.sym_sizes(), type);
    check_rows(*in.up, op, "up");
  }
  check_per_row(op, in.probs, in.x, type == at::kDouble ? at::kDouble : at::kFloat, "probs");
  check_per_row(op, in.mask, in.x, at::kByte, "mask");
}

ActivationArgs arguments_of(std::string_view op, const Inputs& in, const Settings& s) {
  const std::int64_t columns = s.packed ? in.x.size(-1) / 2 : in.x.size(-1);
  ActivationArgs args;
  args.x = columns_view(in.x, op, "the input", 0, columns);
  if (s.packed) args.up = columns_view(in.x, op, "the input", columns, columns);
  if (given(in.up)) args.up = rows_view(*in.up, op, "up");
  args.probs = row_numbers(in.probs, op, "probs");
  args.mask = row_numbers(in.mask, op, "mask");
  args.function = s.function;
  args.alpha = s.alpha;
  args.limit = s.limit;
  return args;
}
}  // namespace activations

namespace {

using namespace activations;
constexpr std::string_view kOp = "activation";

// ---- What a call asks of its tensors, of symbolic sizes

std::vector<c10::SymInt> result_sizes(const Tensor& x, bool packed) {
  std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
  if (packed) sizes.back() = sizes.back() / 2;
  return sizes;
}

Tensor activation_meta(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs,
                       const OptionalTensor& mask, std::string_view function, bool packed, double alpha, double limit) {
  settings_of(kOp, function, packed, alpha, limit);
  check_inputs(kOp, {x, up, probs, mask}, packed);
  return at::empty_symint(result_sizes(x, packed), x.options());
}

ActivationGradients activation_backward_meta(const Tensor& dy, const Tensor& x, const OptionalTensor& up,
                                             const OptionalTensor& probs, const OptionalTensor& mask,
                                             std::string_view function, bool packed, double alpha, double limit,
                                             bool need_x, bool need_up, bool need_probs) {
  settings_of(kOp, function, packed, alpha, limit);
  check_inputs(kOp, {x, up, probs, mask}, packed);
  check_like(dy, kOp, "the gradient", result_sizes(x, packed), x.scalar_type());
  check_rows(dy, kOp, "the gradient");
  TORCH_CHECK_VALUE(need_x || need_up || need_probs, "activation_backward: no gradient is wanted; ask for one");
  TORCH_CHECK_VALUE(!need_up || given(up), "activation_backward: the gradient of up is wanted and there is none");
  TORCH_CHECK_VALUE(!need_probs || given(probs), "activation_backward: that of probs is wanted and there are none");
  const auto like = [](bool wanted, const Tensor& tensor) {
    return wanted ? at::empty_symint(tensor.sym_sizes(), tensor.options()) : at::empty({0}, tensor.options());
  };
  return {like(need_x, x), like(need_up, need_up ? *up : x), like(need_probs, need_probs ? *probs : x)};
}

// ---- By PyTorch's own operators, which know every derivative: for float64 (gradient checks), tangents, and gradients
// that are differentiated again

// Values with zeros in masked rows. What the formulas are given goes through it, not what they make: the derivative of
// where() is 0 times that of the formula, and NaN where a masked row holds NaN. All of them are 0 at 0.
Tensor unmasked(const Tensor& values, const OptionalTensor& mask) {
  return given(mask) ? at::where(mask->unsqueeze(-1) != 0, values, at::zeros({}, values.options())) : values;
}
struct Parts {
  Tensor x, up;  // up is undefined without a gate
  Tensor probs;  // [..., 1]; undefined: 1
};
Parts parts_by_torch(const Inputs& in, const Settings& s) {
  const auto type = in.x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Parts parts;
  if (s.packed) {
    const c10::SymInt half = in.x.sym_size(-1) / 2;
    parts.x = in.x.narrow_symint(-1, 0, half).to(type);
    parts.up = in.x.narrow_symint(-1, half, half).to(type);
  } else {
    parts.x = in.x.to(type);
    if (given(in.up)) parts.up = in.up->to(type);
  }
  parts.x = unmasked(parts.x, in.mask);
  if (parts.up.defined()) parts.up = unmasked(parts.up, in.mask);
  if (given(in.probs)) parts.probs = unmasked(in.probs->unsqueeze(-1), in.mask);
  return parts;
}
Tensor value_by_torch(const Tensor& x, const Settings& s) {
  switch (s.function) {
    case ActivationFunction::kSilu: return at::silu(x);
    case ActivationFunction::kGelu: return at::gelu(x);
    case ActivationFunction::kGeluTanh: return at::gelu(x, "tanh");
    case ActivationFunction::kRelu: return at::relu(x);
    case ActivationFunction::kRelu2: return at::square(at::relu(x));
    case ActivationFunction::kClampedSilu: break;
  }
  const Tensor cut = at::clamp_max(x, s.limit);
  return cut * at::sigmoid(cut * s.alpha);
}
// dy f'(x)
Tensor slope_by_torch(const Tensor& dy, const Tensor& x, const Settings& s) {
  switch (s.function) {
    case ActivationFunction::kSilu: {
      const Tensor share = at::sigmoid(x);
      return dy * (share * (1 + x * (1 - share)));
    }
    case ActivationFunction::kGelu: return at::gelu_backward(dy, x);
    case ActivationFunction::kGeluTanh: return at::gelu_backward(dy, x, "tanh");
    case ActivationFunction::kRelu: return at::threshold_backward(dy, x, 0);
    case ActivationFunction::kRelu2: return dy * at::relu(x) * 2;
    case ActivationFunction::kClampedSilu: break;
  }
  const Tensor cut = at::clamp_max(x, s.limit), share = at::sigmoid(cut * s.alpha);
  const Tensor slope = share * (1 + cut * (1 - share) * s.alpha);
  return at::where(x > s.limit, at::zeros_like(x), dy * slope);
}
Tensor gate_by_torch(const Tensor& up, const Settings& s) {
  return s.function == ActivationFunction::kClampedSilu ? at::clamp(up, -s.limit, s.limit) + 1 : up;
}
Tensor by_torch(const Inputs& in, const Settings& s) {
  const Parts parts = parts_by_torch(in, s);
  Tensor y = value_by_torch(parts.x, s);
  if (parts.up.defined()) y = y * gate_by_torch(parts.up, s);
  if (parts.probs.defined()) y = y * parts.probs;
  return y.to(in.x.scalar_type());
}

ActivationGradients gradients_by_torch(const Tensor& dy, const Inputs& in, const Settings& s, bool need_x, bool need_up,
                                       bool need_probs) {
  const Parts parts = parts_by_torch(in, s);
  const Tensor wide = unmasked(dy.to(parts.x.scalar_type()), in.mask), f = value_by_torch(parts.x, s);
  const Tensor scaled = parts.probs.defined() ? wide * parts.probs : wide;
  const Tensor gate = parts.up.defined() ? gate_by_torch(parts.up, s) : Tensor();
  const auto nothing = [&] { return at::empty({0}, in.x.options()); };
  const auto finished = [&](const Tensor& gradient) { return gradient.to(in.x.scalar_type()); };
  ActivationGradients out{nothing(), nothing(), nothing()};
  Tensor dup;
  if (need_up || (s.packed && need_x)) {
    dup = scaled * f;
    if (s.function == ActivationFunction::kClampedSilu) {
      dup = at::where(at::abs(parts.up) <= s.limit, dup, at::zeros_like(dup));
    }
  }
  if (need_x) {
    const Tensor dx = slope_by_torch(gate.defined() ? scaled * gate : scaled, parts.x, s);
    std::get<0>(out) = finished(s.packed ? at::cat({dx, dup}, -1) : dx);
  }
  if (need_up) std::get<1>(out) = finished(dup);
  if (need_probs) {
    std::get<2>(out) = (wide * (gate.defined() ? f * gate : f)).sum(-1).to(in.probs->scalar_type());
  }
  return out;
}

// ---- The calls

void check_devices(std::string_view op, const Tensor* dy, const Inputs& in) {
  check_same_device(
      op, {{"the input", &in.x}, {"the gradient", dy}, {"up", &in.up}, {"probs", &in.probs}, {"mask", &in.mask}});
}

Tensor activation(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs, const OptionalTensor& mask,
                  std::string_view function, bool packed, double alpha, double limit) {
  const Inputs in{x, up, probs, mask};
  check_devices(kOp, nullptr, in);
  Tensor y = activation_meta(x, up, probs, mask, function, packed, alpha, limit);
  const Settings s = settings_of(kOp, function, packed, alpha, limit);
  if (x.scalar_type() == at::kDouble) return by_torch(in, s);
  if (x.numel() == 0) return y;
  const OnDeviceOf on_device(x);
  ActivationArgs args = arguments_of(kOp, in, s);
  args.y = rows_view(y, kOp, "the result");
  check(ridge::activation(args, stream_of(x)));
  return y;
}

ActivationGradients activation_backward(const Tensor& dy, const Tensor& x, const OptionalTensor& up,
                                        const OptionalTensor& probs, const OptionalTensor& mask,
                                        std::string_view function, bool packed, double alpha, double limit, bool need_x,
                                        bool need_up, bool need_probs) {
  const Inputs in{x, up, probs, mask};
  check_devices("activation_backward", &dy, in);
  ActivationGradients out =
      activation_backward_meta(dy, x, up, probs, mask, function, packed, alpha, limit, need_x, need_up, need_probs);
  const Settings s = settings_of(kOp, function, packed, alpha, limit);
  if (x.scalar_type() == at::kDouble) return gradients_by_torch(dy, in, s, need_x, need_up, need_probs);
  if (x.numel() == 0) return out;
  const OnDeviceOf on_device(x);
  ActivationBackwardArgs args;
  args.dy = rows_view(dy, kOp, "the gradient");
  args.forward = arguments_of(kOp, in, s);
  const Tensor& dx = std::get<0>(out);
  if (need_x) args.dx = columns_view(dx, kOp, "the input's gradient", 0, dy.size(-1));
  if (need_x && packed) args.dup = columns_view(dx, kOp, "the input's gradient", dy.size(-1), dy.size(-1));
  if (need_up) args.dup = rows_view(std::get<1>(out), kOp, "the gradient of up");
  if (need_probs) args.dprobs = row_numbers(std::get<2>(out), kOp, "the gradient of probs");
  check(ridge::activation_backward(args, stream_of(x)));
  return out;
}

// ---- Derivatives

struct ActivationFormula final : Gradients {
  enum Input { kX, kUp, kProbs };
  enum Saved { kSavedX, kSavedUp, kSavedProbs, kSavedMask };
  std::string function;
  bool packed = false;
  double alpha = 0, limit = 0;

  [[nodiscard]] std::string name() const override { return "RidgelineActivationBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_activation_", function, packed, "_", exact_text(alpha), "_", exact_text(limit));
  }
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved, const Tensor&,
                                         const std::vector<bool>& wanted) const override {
    const auto optional = [&](Saved at) { return saved[at].defined() ? OptionalTensor(saved[at]) : OptionalTensor(); };
    const OptionalTensor up = optional(kSavedUp), probs = optional(kSavedProbs), mask = optional(kSavedMask);
    const Tensor dy = grads[0].contiguous();
    const bool need_up = wanted[kUp] && up, need_probs = wanted[kProbs] && probs;
    ActivationGradients found;
    if (at::GradMode::is_enabled()) {  // differentiated again
      found = gradients_by_torch(dy, {saved[kSavedX], up, probs, mask},
                                 settings_of(kOp, function, packed, alpha, limit), wanted[kX], need_up, need_probs);
    } else {
      found = call_activation_backward(dy, saved[kSavedX], up, probs, mask, function, packed, alpha, limit, wanted[kX],
                                       need_up, need_probs);
    }
    variable_list result(wanted.size());
    if (wanted[kX]) result[kX] = std::get<0>(found);
    if (need_up) result[kUp] = std::get<1>(found);
    if (need_probs) result[kProbs] = std::get<2>(found);
    return result;
  }
};

Tensor activation_autograd(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs,
                           const OptionalTensor& mask, std::string_view function, bool packed, double alpha,
                           double limit) {
  if (any_tangent(x, up, probs)) {
    activation_meta(x, up, probs, mask, function, packed, alpha, limit);
    return by_torch({x, up, probs, mask}, settings_of(kOp, function, packed, alpha, limit));
  }
  std::shared_ptr<BackwardNode> node;
  if (torch::autograd::compute_requires_grad(x, up, probs)) {
    node = make_node(x, up, probs);
    auto formula = std::make_shared<ActivationFormula>();
    formula->function = function, formula->packed = packed, formula->alpha = alpha, formula->limit = limit;
    node->gradients = std::move(formula);
    node->saved.resize(4);
  }
  Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    y = call_activation(x, up, probs, mask, function, packed, alpha, limit);
  }
  if (!node) return y;
  node->saved[ActivationFormula::kSavedX] = {x, false};
  if (given(up)) node->saved[ActivationFormula::kSavedUp] = {*up, false};
  if (given(probs)) node->saved[ActivationFormula::kSavedProbs] = {*probs, false};
  if (given(mask)) node->saved[ActivationFormula::kSavedMask] = {*mask, false};
  torch::autograd::set_history(y, node);
  return y;
}

ActivationGradients activation_backward_autograd(const Tensor& dy, const Tensor& x, const OptionalTensor& up,
                                                 const OptionalTensor& probs, const OptionalTensor& mask,
                                                 std::string_view function, bool packed, double alpha, double limit,
                                                 bool need_x, bool need_up, bool need_probs) {
  const bool recorded = torch::autograd::compute_requires_grad(dy, x, up, probs);
  if (recorded || any_tangent(dy, x, up, probs)) {
    activation_backward_meta(dy, x, up, probs, mask, function, packed, alpha, limit, need_x, need_up, need_probs);
    return gradients_by_torch(dy, {x, up, probs, mask}, settings_of(kOp, function, packed, alpha, limit), need_x,
                              need_up, need_probs);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_activation_backward(dy, x, up, probs, mask, function, packed, alpha, limit, need_x, need_up, need_probs);
}

}  // namespace

Tensor call_activation(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs,
                       const OptionalTensor& mask, std::string_view function, bool packed, double alpha, double limit) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::activation", "").typed<decltype(call_activation)>();
  return op.call(x, up, probs, mask, function, packed, alpha, limit);
}
ActivationGradients call_activation_backward(const Tensor& dy, const Tensor& x, const OptionalTensor& up,
                                             const OptionalTensor& probs, const OptionalTensor& mask,
                                             std::string_view function, bool packed, double alpha, double limit,
                                             bool need_x, bool need_up, bool need_probs) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::activation_backward", "")
                             .typed<decltype(call_activation_backward)>();
  return op.call(dy, x, up, probs, mask, function, packed, alpha, limit, need_x, need_up, need_probs);
}

void register_activation(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("activation", activation);
      library.impl("activation_backward", activation_backward);
      return;
    case c10::DispatchKey::Meta:
      library.impl("activation", activation_meta);
      library.impl("activation_backward", activation_backward_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("activation", activation_autograd);
      library.impl("activation_backward", activation_backward_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
