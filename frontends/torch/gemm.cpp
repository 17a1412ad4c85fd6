// ridgeline::gemm and ridgeline::gemm_add_.
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "convert.h"
#include "operators.h"
#include "ridge/ops/gemm.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "gemm";

const auto& gemm_handle() {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::gemm", "").typed<decltype(call_gemm)>();
  return op;
}

Activation activation_of(OptionalText name) {
  constexpr std::pair<std::string_view, Activation> kNames[] = {
      {"gelu", Activation::kGelu}, {"gelu_tanh", Activation::kGeluTanh}, {"silu", Activation::kSilu}};
  if (!name) return Activation::kNone;
  for (const auto& [known, activation] : kNames) {
    if (*name == known) return activation;
  }
  TORCH_CHECK_VALUE(false, kOp, ": activation \"", *name, "\" is unknown; use None, gelu, gelu_tanh or silu");
}

void check_types(const Tensor& a, const Tensor& b) {
  const auto type = a.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf ||
                           (type == at::kDouble && !a.is_cuda());  // by_torch
  const char* const hint = type == at::kDouble                              ? " (float64: on the CPU only)"
                           : a.is_floating_point() && a.element_size() == 1 ? " (gemm_fp8 multiplies 8-bit floats)"
                                                                            : "";
  TORCH_CHECK_TYPE(type == b.scalar_type() && usable_type, kOp, ": a is ", type, " and b is ", b.scalar_type(),
                   "; give both the same one of torch.float32, torch.bfloat16 and torch.float16", hint);
}

// Symbolic sizes, so that one graph serves every size; the operator's own checks say the rest when it runs.
Tensor gemm_meta(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                 const OptionalTensor&, OptionalText activation, const OptionalTensor&, const OptionalTensor&) {
  activation_of(activation);
  check_types(a, b);
  TORCH_CHECK_VALUE(a.dim() == b.dim() && (a.dim() == 2 || a.dim() == 3), kOp, ": a has ", a.dim(),
                    " dimensions and b has ", b.dim(), "; give two matrices, or two batches of matrices");
  const auto m = a.sym_size(trans_a ? -1 : -2), k = a.sym_size(trans_a ? -2 : -1);
  const auto n = b.sym_size(trans_b ? -2 : -1), k_of_b = b.sym_size(trans_b ? -1 : -2);
  TORCH_CHECK_VALUE(k == k_of_b, kOp, ": op(a) has ", k, " columns but op(b) has ", k_of_b,
                    " rows; check trans_a and trans_b");
  const auto options = a.options().dtype(out_dtype.value_or(a.scalar_type()));
  if (a.dim() == 2) return at::empty_symint({m, n}, options);
  return at::empty_symint({a.sym_size(0), m, n}, options);
}

Tensor output_of(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype) {
  TORCH_CHECK_VALUE(a.dim() == b.dim() && (a.dim() == 2 || a.dim() == 3), kOp, ": a has shape ", a.sizes(),
                    " and b has shape ", b.sizes(), "; give two matrices, or two batches of matrices");
  const std::int64_t sizes[] = {a.size(0), a.size(trans_a ? -1 : -2), b.size(trans_b ? -2 : -1)};
  // What at::empty ends in, without asking again which backend is meant: half a microsecond of a call.
  const c10::DispatchKeySet backend(a.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU);
  return at::_ops::empty_memory_format::redispatch(
      backend, c10::fromIntArrayRefSlow(at::IntArrayRef(sizes).slice(a.dim() == 2 ? 1 : 0)),
      out_dtype.value_or(a.scalar_type()), a.layout(), a.device(), std::nullopt, std::nullopt);
}

const char* approximation(Activation activation) { return activation == Activation::kGelu ? "none" : "tanh"; }

Tensor activate(const Tensor& z, Activation activation) {
  if (activation == Activation::kNone) return z;
  return activation == Activation::kSilu ? at::silu(z) : at::gelu(z, approximation(activation));
}

Tensor activate_backward(const Tensor& grad, const Tensor& z, Activation activation) {
  if (activation == Activation::kNone) return grad;
  return activation == Activation::kSilu ? at::silu_backward(grad, z)
                                         : at::gelu_backward(grad, z, approximation(activation));
}

bool given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

// float64 is for gradient checks, whose finite differences need it, and not for speed: no implementation of ours takes
// it, so torch's own product serves, on the CPU.
Tensor by_torch(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                const OptionalTensor& bias, Activation activation, const OptionalTensor& residual) {
  TORCH_CHECK_TYPE(out_dtype.value_or(at::kDouble) == at::kDouble, kOp, ": a is Double and out_dtype is ", *out_dtype,
                   "; leave out_dtype out");
  Tensor c = at::matmul(trans_a ? a.transpose(-1, -2) : a, trans_b ? b.transpose(-1, -2) : b);
  if (given(bias)) c = c + *bias;
  c = activate(c, activation);
  return given(residual) ? c + *residual : c;
}

Tensor gemm(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
            const OptionalTensor& bias, OptionalText activation, const OptionalTensor&,
            const OptionalTensor& residual) {
  check_same_device(
      kOp, {{"a", &a}, {"b", &b}, {"bias", bias ? &*bias : nullptr}, {"residual", residual ? &*residual : nullptr}});
  check_types(a, b);
  const OnDeviceOf on_device(a);
  GemmArgs args;
  args.activation = activation_of(activation);
  if (a.scalar_type() == at::kDouble) {
    return by_torch(a, b, trans_a, trans_b, out_dtype, bias, args.activation, residual);
  }
  Tensor c = output_of(a, b, trans_a, trans_b, out_dtype);
  args.a = matrix_view(a, trans_a, kOp, "a");
  args.b = matrix_view(b, trans_b, kOp, "b");
  args.c = row_major_view(c, kOp, "the result");
  args.trans_a = trans_a, args.trans_b = trans_b;
  if (given(bias)) args.bias = dense_view(*bias, kOp, "bias");
  if (given(residual)) args.residual = row_major_view(*residual, kOp, "residual");
  check(ridge::gemm(args, stream_of(a)));
  return c;
}

void gemm_add(Tensor& c, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b) {
  check_same_device("gemm_add_", {{"a", &a}, {"b", &b}, {"c", &c}});
  check_types(a, b);
  if (a.scalar_type() == at::kDouble) {
    c.add_(by_torch(a, b, trans_a, trans_b, {}, {}, Activation::kNone, {}));
    return;
  }
  const OnDeviceOf on_device(a);
  GemmArgs args;
  args.a = matrix_view(a, trans_a, "gemm_add_", "a");
  args.b = matrix_view(b, trans_b, "gemm_add_", "b");
  args.c = row_major_view(c, "gemm_add_", "c");
  args.trans_a = trans_a, args.trans_b = trans_b, args.accumulate = true;
  check(ridge::gemm(args, stream_of(a)));
}

void gemm_add_meta(Tensor& c, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b) {
  gemm_meta(a, b, trans_a, trans_b, c.scalar_type(), {}, {}, {}, {});
}

// What backward needs to know beside tensors, as one list of numbers: a call pays for every entry it stores.
struct Recorded {
  bool trans_a = false, trans_b = false, residual = false;
  at::ScalarType inputs = at::kFloat, bias = at::ScalarType::Undefined;
  Activation activation = Activation::kNone;

  [[nodiscard]] std::vector<std::int64_t> numbers() const {
    return {trans_a,
            trans_b,
            residual,
            static_cast<std::int64_t>(inputs),
            static_cast<std::int64_t>(bias),
            static_cast<std::int64_t>(activation)};
  }
  static Recorded from(const std::vector<std::int64_t>& n) {
    return {n[0] != 0,
            n[1] != 0,
            n[2] != 0,
            static_cast<at::ScalarType>(n[3]),
            static_cast<at::ScalarType>(n[4]),
            static_cast<Activation>(n[5])};
  }
};

// Saves a only for b's gradient, b only for a's, and with an activation what went into it.
struct GemmFunction : torch::autograd::Function<GemmFunction> {
  using Context = torch::autograd::AutogradContext;

  static Tensor forward(Context* ctx, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b,
                        OptionalType out_dtype, const OptionalTensor& bias, OptionalText activation,
                        const OptionalTensor& main_grad, const OptionalTensor& residual) {
    const at::AutoDispatchBelowADInplaceOrView below;
    Recorded call{trans_a, trans_b, given(residual), a.scalar_type()};
    call.activation = activation_of(activation);
    if (bias) call.bias = bias->scalar_type();
    Tensor z = call_gemm(a, b, trans_a, trans_b, out_dtype, bias, {}, {}, activation ? OptionalTensor() : residual);
    const bool need_a = a.requires_grad(), need_b = b.requires_grad();
    ctx->save_for_backward({need_b ? a : Tensor(), need_a ? b : Tensor(), activation ? z : Tensor()});
    ctx->set_materialize_grads(false);
    ctx->saved_data["call"] = call.numbers();
    // Not a saved variable: what other micro-batches add to it in between is what it is for.
    if (given(main_grad)) ctx->saved_data["main_grad"] = *main_grad;
    if (!activation) return z;
    const Tensor activated = activate(z, call.activation);
    return given(residual) ? at::add(activated, *residual) : activated;
  }

  static torch::autograd::variable_list backward(Context* ctx, torch::autograd::variable_list grads) {
    torch::autograd::variable_list result(9);  // one for each argument of forward
    if (!grads[0].defined()) return result;
    const Recorded call = Recorded::from(ctx->saved_data["call"].toIntVector());
    const auto saved = ctx->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1];
    if (call.residual) result[8] = grads[0];
    Tensor grad = activate_backward(grads[0], saved[2], call.activation);
    if (call.bias != at::ScalarType::Undefined && ctx->needs_input_grad(2)) {
      constexpr std::int64_t kRows[] = {0, 1};
      const at::IntArrayRef rows(kRows, static_cast<std::size_t>(grad.dim() - 1));
      result[5] = at::sum(grad, rows, false, call.bias);
    }
    grad = usable(grad.to(call.inputs));
    if (ctx->needs_input_grad(0)) {
      result[0] =
          call.trans_a ? call_gemm(b, grad, call.trans_b, true, {}) : call_gemm(grad, b, false, !call.trans_b, {});
    }
    if (ctx->needs_input_grad(1)) grad_of_b(ctx, a, grad, call, result[1]);
    return result;
  }

  static void grad_of_b(Context* ctx, const Tensor& a, const Tensor& grad, const Recorded& call, Tensor& result) {
    const Tensor &left = call.trans_b ? grad : a, &right = call.trans_b ? a : grad;
    const bool trans_left = call.trans_b || !call.trans_a, trans_right = call.trans_b && call.trans_a;
    if (const auto found = ctx->saved_data.find("main_grad"); found != ctx->saved_data.end()) {
      Tensor target = found->second.toTensor();
      call_gemm_add(target, left, right, trans_left, trans_right);
    } else {
      result = call_gemm(left, right, trans_left, trans_right, {});
    }
  }
};

bool wants_gradient(const Tensor& a, const Tensor& b, const OptionalTensor& bias, const OptionalTensor& residual) {
  const auto wants = [](const OptionalTensor& t) { return given(t) && t->requires_grad(); };
  return at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad() || wants(bias) || wants(residual));
}

Tensor gemm_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b,
                     OptionalType out_dtype, const OptionalTensor& bias, OptionalText activation,
                     const OptionalTensor& main_grad, const OptionalTensor& residual) {
  if (wants_gradient(a, b, bias, residual)) {
    return GemmFunction::apply(a, b, trans_a, trans_b, out_dtype, bias, activation, main_grad, residual);
  }
  return gemm_handle().redispatch(keys & c10::after_ADInplaceOrView_keyset, a, b, trans_a, trans_b, out_dtype, bias,
                                  activation, main_grad, residual);
}

void gemm_add_autograd(Tensor& c, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b) {
  TORCH_CHECK(!at::GradMode::is_enabled() || !(c.requires_grad() || a.requires_grad() || b.requires_grad()),
              "gemm_add_ adds into c without recording a gradient; call it under torch.no_grad()");
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_gemm_add(c, a, b, trans_a, trans_b);
  }
  if (!c.is_inference()) c.unsafeGetTensorImpl()->bump_version();
}

Tensor gemm_autocast(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                     const OptionalTensor& bias, OptionalText activation, const OptionalTensor& main_grad,
                     const OptionalTensor& residual) {
  const auto device = a.device().type();
  const c10::impl::ExcludeDispatchKeyGuard without(
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}));
  const auto type = at::autocast::get_autocast_dtype(device);
  const auto cast = [&](const Tensor& t, at::ScalarType to) { return at::autocast::cached_cast(to, t, device); };
  const auto as_result = [&](const OptionalTensor& t) {
    return given(t) ? OptionalTensor(cast(*t, out_dtype.value_or(type))) : OptionalTensor();
  };
  return call_gemm(cast(a, type), cast(b, type), trans_a, trans_b, out_dtype, as_result(bias), activation, main_grad,
                   as_result(residual));
}

}  // namespace

Tensor call_gemm(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                 const OptionalTensor& bias, OptionalText activation, const OptionalTensor& main_grad,
                 const OptionalTensor& residual) {
  return gemm_handle().call(a, b, trans_a, trans_b, out_dtype, bias, activation, main_grad, residual);
}

void call_gemm_add(Tensor& c, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::gemm_add_", "").typed<decltype(call_gemm_add)>();
  op.call(c, a, b, trans_a, trans_b);
}

void register_gemm(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("gemm", gemm);
      library.impl("gemm_add_", gemm_add);
      return;
    case c10::DispatchKey::Meta:
      library.impl("gemm", gemm_meta);
      library.impl("gemm_add_", gemm_add_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("gemm", gemm_autograd);
      library.impl("gemm_add_", gemm_add_autograd);
      return;
    case c10::DispatchKey::AutocastCPU:
    case c10::DispatchKey::AutocastCUDA: library.impl("gemm", gemm_autocast); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
