// ridgeline::gemm and ridgeline::gemm_add_.
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>

#include <algorithm>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/gemm.h"
#include "shapes.h"

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
  const auto usable_type = [](const Tensor& t) {
    const auto one = t.scalar_type();
    return one == at::kFloat || one == at::kBFloat16 || one == at::kHalf ||
           (one == at::kDouble && !t.is_cuda());  // by_torch
  };
  const char* const hint = type == at::kDouble                              ? " (float64: on the CPU only)"
                           : a.is_floating_point() && a.element_size() == 1 ? " (gemm_fp8 multiplies 8-bit floats)"
                                                                            : "";
  TORCH_CHECK_TYPE(usable_type(a) && usable_type(b), kOp, ": a is ", name_of(type), " and b is ", type_of(b),
                   "; give both the same one of torch.float32, torch.bfloat16 and torch.float16", hint);
  check_same_type(a, b, kOp);
}

bool given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

// Symbolic sizes, so that one graph serves every size.
std::vector<c10::SymInt> product_sizes(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b) {
  TORCH_CHECK_VALUE(a.dim() == b.dim() && (a.dim() == 2 || a.dim() == 3), kOp, ": a has ", a.dim(),
                    " dimensions and b has ", b.dim(),
                    "; give two matrices, or batches of matrices (x.unsqueeze(0) makes a matrix of a vector)");
  const auto m = a.sym_size(trans_a ? -1 : -2), k = a.sym_size(trans_a ? -2 : -1);
  const auto n = b.sym_size(trans_b ? -2 : -1), k_of_b = b.sym_size(trans_b ? -1 : -2);
  TORCH_CHECK_VALUE(same(k, k_of_b), kOp, ": op(a) has ", k, " columns but op(b) has ", k_of_b,
                    " rows; check trans_a and trans_b");
  check_strides(a, kOp, "a", true);
  check_strides(b, kOp, "b", true);
  if (a.dim() == 2) return {m, n};
  TORCH_CHECK_VALUE(same(a.sym_size(0), b.sym_size(0)), kOp, ": a has ", a.sym_size(0), " matrices and b has ",
                    b.sym_size(0), "; give as many of both");
  return {a.sym_size(0), m, n};
}

void check_residual(const Tensor& residual, c10::SymIntArrayRef sizes, at::ScalarType type) {
  check_like(residual, kOp, "residual", sizes, type);
  check_strides(residual, kOp, "residual", false);
}

at::ScalarType result_type(const Tensor& a, OptionalType out_dtype) {
  const auto type = out_dtype.value_or(a.scalar_type());
  if (a.scalar_type() == at::kDouble) {
    TORCH_CHECK_TYPE(type == at::kDouble, kOp, ": a is torch.float64 and out_dtype is ", name_of(type),
                     "; leave out_dtype out");
    return type;
  }
  check_result_type(type, kOp, {a.scalar_type(), at::kFloat});
  return type;
}

// What a call of gemm brings beside its factors.
struct Epilogue {
  OptionalTensor bias;
  OptionalText activation;
  OptionalTensor main_grad, residual;
};

// Whether the matrices of a batch lie one after the other; what a trace does not know is taken to be so.
bool matrices_apart(const Tensor& t) {
  const auto sizes = t.sym_sizes(), strides = t.sym_strides();
  const c10::SymInt extent = (sizes[1] - 1) * strides[1] + (sizes[2] - 1) * strides[2] + 1;
  return !TORCH_GUARD_OR_FALSE(sizes[0].sym_gt(1) & t.sym_numel().sym_gt(0) & strides[0].sym_lt(extent));
}

// Whether the kernels take the factors as they are: two matrices, or as many of both.
bool is_plain(const Tensor& a, const Tensor& b) {
  if (a.dim() == 2 && b.dim() == 2) return true;
  if (a.dim() < 2 || b.dim() < 2) return true;  // refused there
  return a.dim() == 3 && b.dim() == 3 && !TORCH_GUARD_OR_FALSE(a.sym_size(0).sym_ne(b.sym_size(0))) &&
         matrices_apart(a) && matrices_apart(b);
}

// The leading sizes of both factors, broadcast.
std::vector<c10::SymInt> leading_sizes(const Tensor& a, const Tensor& b) {
  const Tensor &longer = a.dim() < b.dim() ? b : a, &shorter = a.dim() < b.dim() ? a : b;
  const auto sizes = longer.sym_sizes(), others = shorter.sym_sizes();
  std::vector<c10::SymInt> result(sizes.begin(), sizes.end() - 2);
  const std::size_t more = sizes.size() - others.size();
  for (std::size_t i = more; i < result.size(); ++i) {
    const c10::SymInt& other = others[i - more];
    if (TORCH_GUARD_OR_FALSE(other.sym_eq(1))) continue;
    if (TORCH_GUARD_OR_FALSE(result[i].sym_eq(1))) {
      result[i] = other;
      continue;
    }
    TORCH_CHECK_VALUE(same(result[i], other), kOp, ": the leading sizes of a, of shape ", a.sym_sizes(),
                      ", and of b, of shape ", b.sym_sizes(),
                      ", do not go together; make each pair of them equal, or one of the two 1");
  }
  return result;
}

// One batch of matrices with these leading sizes; copied where it is repeated or its matrices do not lie apart.
Tensor as_batch(const Tensor& t, std::vector<c10::SymInt> sizes) {
  sizes.push_back(t.sym_size(-2));
  sizes.push_back(t.sym_size(-1));
  const Tensor batch = t.expand_symint(sizes).flatten(0, -3);
  return matrices_apart(batch) ? batch : batch.contiguous();
}

bool is_one_matrix(const Tensor& t) {
  const auto sizes = t.sym_sizes();
  return std::all_of(sizes.begin(), sizes.end() - 2,
                     [](const c10::SymInt& n) { return TORCH_GUARD_OR_FALSE(n.sym_eq(1)); });
}

OptionalTensor view_like(const OptionalTensor& target, c10::SymIntArrayRef sizes) {
  return given(target) ? OptionalTensor(target->view_symint(sizes)) : target;
}

// Leading dimensions as in torch.matmul. A single matrix b multiplies the rows of all matrices of a in one product.
// Everything beside the product is PyTorch's, which knows its derivatives.
Tensor broadcast_product(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                         const Epilogue& e) {
  std::vector<c10::SymInt> sizes = leading_sizes(a, b), leading = sizes;
  sizes.push_back(a.sym_size(trans_a ? -1 : -2));
  sizes.push_back(b.sym_size(trans_b ? -2 : -1));
  OptionalTensor residual = e.residual;
  if (given(residual)) check_like(*residual, kOp, "residual", sizes, result_type(a, out_dtype));
  if (given(e.main_grad)) check_main_grad(*e.main_grad, b, kOp);
  if (is_one_matrix(b)) {
    const Tensor left = trans_a ? a.transpose(-1, -2) : a, right = b.dim() == 2 ? b : b.flatten(0, -2);
    if (given(residual)) residual = residual->flatten(0, -2);
    const Tensor rows = call_gemm(left.flatten(0, -2), right, false, trans_b, out_dtype, e.bias, e.activation,
                                  view_like(e.main_grad, right.sym_sizes()), residual);
    return at::_unsafe_view_symint(rows, sizes);
  }
  const Tensor left = as_batch(a, leading), right = as_batch(b, leading);
  TORCH_CHECK_NOT_IMPLEMENTED(!given(e.main_grad) || TORCH_GUARD_OR_FALSE(right.sym_numel().sym_eq(b.sym_numel())), kOp,
                              ": main_grad takes the gradient of every matrix once, and b of shape ", b.sym_sizes(),
                              " is repeated for leading sizes ", leading, "; leave main_grad out, or expand b first");
  if (given(residual)) residual = residual->flatten(0, -3);
  const Tensor c = call_gemm(left, right, trans_a, trans_b, out_dtype, e.bias, e.activation,
                             view_like(e.main_grad, right.sym_sizes()), residual);
  return at::_unsafe_view_symint(c, sizes);
}

Tensor gemm_meta(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                 const OptionalTensor& bias, OptionalText activation, const OptionalTensor& main_grad,
                 const OptionalTensor& residual) {
  activation_of(activation);
  check_types(a, b);
  if (!is_plain(a, b)) {
    return broadcast_product(a, b, trans_a, trans_b, out_dtype, {bias, activation, main_grad, residual});
  }
  const auto sizes = product_sizes(a, b, trans_a, trans_b);
  const auto type = result_type(a, out_dtype);
  if (given(bias)) check_bias(*bias, kOp, sizes.back(), type);
  if (given(residual)) check_residual(*residual, sizes, type);
  return at::empty_symint(sizes, a.options().dtype(type));
}

Tensor output_of(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype) {
  TORCH_CHECK_VALUE(a.dim() == b.dim() && (a.dim() == 2 || a.dim() == 3), kOp, ": a has shape ", a.sizes(),
                    " and b has shape ", b.sizes(),
                    "; give two matrices, or batches of matrices (x.unsqueeze(0) makes a matrix of a vector)");
  const std::int64_t sizes[] = {a.size(0), a.size(trans_a ? -1 : -2), b.size(trans_b ? -2 : -1)};
  return allocated(a, at::IntArrayRef(sizes).slice(a.dim() == 2 ? 1 : 0), out_dtype.value_or(a.scalar_type()));
}

const char* approximation(Activation activation) { return activation == Activation::kGelu ? "none" : "tanh"; }

Tensor activate(const Tensor& z, Activation activation) {
  if (activation == Activation::kNone) return z;
  return activation == Activation::kSilu ? at::silu(z) : at::gelu(z, approximation(activation));
}

// float64 is for gradient checks, whose finite differences need it, and not for speed: no implementation of ours takes
// it, so torch's own product serves, on the CPU.
Tensor by_torch(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, const OptionalTensor& bias,
                Activation activation, const OptionalTensor& residual) {
  Tensor c = at::matmul(trans_a ? a.transpose(-1, -2) : a, trans_b ? b.transpose(-1, -2) : b);
  if (given(bias)) c = c + *bias;
  c = activate(c, activation);
  return given(residual) ? c + *residual : c;
}

Tensor gemm(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
            const OptionalTensor& bias, OptionalText activation, const OptionalTensor& main_grad,
            const OptionalTensor& residual) {
  check_same_device(kOp, {{"a", &a}, {"b", &b}, {"bias", &bias}, {"residual", &residual}});
  check_types(a, b);
  if (!is_plain(a, b)) {  // in inference mode, which leaves gemm_autograd out
    return broadcast_product(a, b, trans_a, trans_b, out_dtype, {bias, activation, main_grad, residual});
  }
  const OnDeviceOf on_device(a);
  GemmArgs args;
  args.activation = activation_of(activation);
  if (a.scalar_type() == at::kDouble) {
    gemm_meta(a, b, trans_a, trans_b, out_dtype, bias, activation, {}, residual);  // what our kernels would refuse
    return by_torch(a, b, trans_a, trans_b, bias, args.activation, residual);
  }
  Tensor c = output_of(a, b, trans_a, trans_b, out_dtype);
  bool swap_a = trans_a, swap_b = trans_b;
  args.a = matrix_view(a, swap_a, kOp, "a");
  args.b = matrix_view(b, swap_b, kOp, "b");
  args.c = row_major_view(c, kOp, "the result");
  args.trans_a = swap_a, args.trans_b = swap_b;
  if (given(bias)) args.bias = dense_view(*bias, kOp, "bias");
  if (given(residual)) args.residual = row_major_view(*residual, kOp, "residual");
  const Status status = ridge::gemm(args, stream_of(a));
  if (!status) {
    gemm_meta(a, b, trans_a, trans_b, out_dtype, bias, activation, main_grad, residual);  // says it in Python's words
    raise(status.error());
  }
  return c;
}

void gemm_add_meta(Tensor& c, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b) {
  check_types(a, b);
  check_like(c, "gemm_add_", "c", product_sizes(a, b, trans_a, trans_b), result_type(a, c.scalar_type()));
  check_strides(c, "gemm_add_", "c", false);
}

void gemm_add(Tensor& c, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b) {
  check_same_device("gemm_add_", {{"a", &a}, {"b", &b}, {"c", &c}});
  check_types(a, b);
  if (a.scalar_type() == at::kDouble) {
    gemm_add_meta(c, a, b, trans_a, trans_b);
    c.add_(by_torch(a, b, trans_a, trans_b, {}, Activation::kNone, {}));
    return;
  }
  const OnDeviceOf on_device(a);
  GemmArgs args;
  bool swap_a = trans_a, swap_b = trans_b;
  args.a = matrix_view(a, swap_a, "gemm_add_", "a");
  args.b = matrix_view(b, swap_b, "gemm_add_", "b");
  args.c = row_major_view(c, "gemm_add_", "c");
  args.trans_a = swap_a, args.trans_b = swap_b, args.accumulate = true;
  const Status status = ridge::gemm(args, stream_of(a));
  if (!status) {
    gemm_add_meta(c, a, b, trans_a, trans_b);
    raise(status.error());
  }
}

// The gradients of a product with bias and residual. Saved are a only for b's, b only for a's.
struct GemmGradients final : Gradients {
  enum Input { kA, kB, kBias, kResidual };
  bool trans_a = false, trans_b = false;
  at::ScalarType inputs = at::kFloat, bias = at::kFloat;

  [[nodiscard]] std::string name() const override { return "RidgelineGemmBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_gemm_", trans_a, trans_b, "_", inputs, "_", bias);
  }

  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved,
                                         const Tensor& main_grad, const std::vector<bool>& wanted) const override {
    const Tensor& given = grads[0];
    variable_list result(4);
    if (wanted[kResidual]) result[kResidual] = given;
    if (wanted[kBias]) result[kBias] = grad_of_bias(given);
    const Tensor grad = usable(given.to(inputs));
    if (wanted[kA]) {
      const Tensor& b = saved[kB];
      result[kA] = trans_a ? call_gemm(b, grad, trans_b, true, {}) : call_gemm(grad, b, false, !trans_b, {});
    }
    if (wanted[kB]) result[kB] = grad_of_b(saved[kA], grad, main_grad);
    return result;
  }

 private:
  [[nodiscard]] Tensor grad_of_bias(const Tensor& grad) const {
    constexpr std::int64_t kRows[] = {0, 1};
    return at::sum(grad, at::IntArrayRef(kRows, static_cast<std::size_t>(grad.dim() - 1)), false, bias);
  }

  [[nodiscard]] Tensor grad_of_b(const Tensor& a, const Tensor& grad, Tensor main_grad) const {
    const Tensor &left = trans_b ? grad : a, &right = trans_b ? a : grad;
    const bool trans_left = trans_b || !trans_a, trans_right = trans_b && trans_a;
    if (!main_grad.defined()) return call_gemm(left, right, trans_left, trans_right, {});
    check_once(kOp);
    call_gemm_add(main_grad, left, right, trans_left, trans_right);
    return {};
  }
};

NodePointer<BackwardNode> backward_of(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b,
                                      const OptionalTensor& bias, const OptionalTensor& main_grad,
                                      const OptionalTensor& residual) {
  auto formula = std::make_shared<GemmGradients>();
  formula->trans_a = trans_a, formula->trans_b = trans_b;
  formula->inputs = a.scalar_type();
  if (given(bias)) formula->bias = bias->scalar_type();
  auto node = make_node(a, b, bias, residual);
  node->saved.resize(2);
  if (node->should_compute_output(GemmGradients::kB)) node->saved[GemmGradients::kA] = {a, false};
  if (node->should_compute_output(GemmGradients::kA)) node->saved[GemmGradients::kB] = {b, false};
  node->gradients = std::move(formula);
  if (given(main_grad)) {
    check_main_grad(*main_grad, b, kOp);
    node->main_grad = *main_grad;
  }
  return node;
}

// c' = op(a') op(b) + op(a) op(b') + bias' + residual'; what has no tangent adds nothing.
Tensor tangent_of_gemm(const Tensor& c, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b,
                       const OptionalTensor& bias, const OptionalTensor& residual) {
  Tensor sum;
  const auto product = [&](const Tensor& left, const Tensor& right) {
    sum = call_gemm(left, right, trans_a, trans_b, c.scalar_type(), {}, {}, {}, sum);
  };
  if (has_tangent(a)) product(usable(tangent_of(a)), primal_of(b));
  if (has_tangent(b)) product(primal_of(a), usable(tangent_of(b)));
  for (const OptionalTensor& term : {bias, residual}) {
    if (has_tangent(term))
      sum = sum.defined() ? sum + tangent_of(*term) : tangent_of(*term).expand_symint(c.sym_sizes());
  }
  return sum.contiguous();
}

// The product with its gradients and tangents; an activation is PyTorch's own, after it.
Tensor differentiable_product(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b,
                              OptionalType out_dtype, const OptionalTensor& bias, const OptionalTensor& main_grad,
                              const OptionalTensor& residual) {
  const auto node = torch::autograd::compute_requires_grad(a, b, bias, residual)
                        ? backward_of(a, b, trans_a, trans_b, bias, main_grad, residual)
                        : nullptr;
  Tensor c;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    c = gemm_handle().redispatch(keys & c10::after_ADInplaceOrView_keyset, a, b, trans_a, trans_b, out_dtype, bias, {},
                                 {}, residual);
  }
  if (node) torch::autograd::set_history(c, node);
  if (any_tangent(a, b, bias, residual)) {
    c._set_fw_grad(tangent_of_gemm(c, a, b, trans_a, trans_b, bias, residual), 0, false);
  }
  return c;
}

Tensor gemm_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b,
                     OptionalType out_dtype, const OptionalTensor& bias, OptionalText activation,
                     const OptionalTensor& main_grad, const OptionalTensor& residual) {
  if (!is_plain(a, b)) {
    check_types(a, b);
    return broadcast_product(a, b, trans_a, trans_b, out_dtype, {bias, activation, main_grad, residual});
  }
  if (!torch::autograd::compute_requires_grad(a, b, bias, residual) && !any_tangent(a, b, bias, residual)) {
    return gemm_handle().redispatch(keys & c10::after_ADInplaceOrView_keyset, a, b, trans_a, trans_b, out_dtype, bias,
                                    activation, main_grad, residual);
  }
  if (!activation) return differentiable_product(keys, a, b, trans_a, trans_b, out_dtype, bias, main_grad, residual);
  const Tensor z = differentiable_product(keys, a, b, trans_a, trans_b, out_dtype, bias, main_grad, {});
  const Tensor activated = activate(z, activation_of(activation));
  if (!given(residual)) return activated;
  check_residual(*residual, z.sym_sizes(), z.scalar_type());
  return at::add(activated, *residual);
}

void gemm_add_autograd(Tensor& c, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b) {
  check_no_derivative_in_place("gemm_add_", {c, a, b});
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
