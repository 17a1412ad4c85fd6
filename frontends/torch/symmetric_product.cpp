// ridgeline::symmetric_product: alpha op(a) op(a)^T + beta residual + shift I.
#include "ridge/ops/symmetric_product.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>

#include <cmath>
#include <utility>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "symmetric_product";

// ---- What a call asks of its tensors, of symbolic sizes

at::ScalarType result_type(const Tensor& a, OptionalType out_dtype) {
  const auto type = out_dtype.value_or(a.scalar_type());
  check_result_type(type, kOp, {a.scalar_type(), a.scalar_type() == at::kDouble ? at::kDouble : at::kFloat});
  return type;
}

Tensor symmetric_meta(const Tensor& a, bool trans_a, OptionalType out_dtype, double alpha,
                      const OptionalTensor& residual, double beta, double shift) {
  const auto type = a.scalar_type();
  const bool usable_type =
      type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || (type == at::kDouble && !a.is_cuda());
  TORCH_CHECK_TYPE(usable_type, kOp, ": a is ", type_of(a),
                   "; give torch.float32, torch.bfloat16 or torch.float16 (torch.float64: on the CPU)");
  TORCH_CHECK_VALUE(a.dim() == 2 || a.dim() == 3, kOp, ": a has shape ", a.sym_sizes(),
                    "; give a matrix, or a batch of them");
  check_strides(a, kOp, "a", true);
  for (const auto& [name, value] : {std::pair("alpha", alpha), std::pair("beta", beta), std::pair("shift", shift)}) {
    TORCH_CHECK_VALUE(std::isfinite(static_cast<float>(value)), kOp, ": ", name, " is ", value,
                      "; give a finite number of float32");
  }
  const auto n = a.sym_size(trans_a ? -1 : -2);
  std::vector<c10::SymInt> sizes = {n, n};
  if (a.dim() == 3) sizes.insert(sizes.begin(), a.sym_size(0));
  const auto out = result_type(a, out_dtype);
  if (given(residual)) {
    check_like(*residual, kOp, "the residual", sizes, out);
    check_strides(*residual, kOp, "the residual", false);
  }
  return at::empty_symint(sizes, a.options().dtype(out));
}

// ---- The calls

// Both triangles from the upper one.
Tensor mirrored(const Tensor& matrix) { return matrix.triu() + matrix.triu(1).mT(); }

// By torch: float64, on a CPU.
Tensor by_torch(const Tensor& a, bool trans_a, double alpha, const OptionalTensor& residual, double beta,
                double shift) {
  Tensor c = alpha * (trans_a ? at::matmul(a.mT(), a) : at::matmul(a, a.mT()));
  if (given(residual)) c = c + beta * mirrored(*residual);
  c.diagonal(0, -2, -1).add_(shift);
  return c;
}

Tensor symmetric(const Tensor& a, bool trans_a, OptionalType out_dtype, double alpha, const OptionalTensor& residual,
                 double beta, double shift) {
  if (given(residual)) check_same_device(kOp, {{"a", &a}, {"the residual", &*residual}});
  Tensor c = symmetric_meta(a, trans_a, out_dtype, alpha, residual, beta, shift);
  if (a.scalar_type() == at::kDouble) return by_torch(a, trans_a, alpha, residual, beta, shift);
  const OnDeviceOf on_device(a);
  SymmetricProductArgs args;
  args.a = matrix_view(a, trans_a, kOp, "a");
  args.trans_a = trans_a;
  args.c = row_major_view(c, kOp, "the result");
  if (given(residual)) args.residual = row_major_view(*residual, kOp, "the residual");
  args.alpha = alpha, args.beta = beta, args.shift = shift;
  check(ridge::symmetric_product(args, stream_of(a)));
  return c;
}

// ---- Derivatives

struct SymmetricGradients final : Gradients {
  enum Input { kA, kResidual };
  bool trans_a = false;
  double alpha = 1, beta = 1;
  at::ScalarType inputs = at::kFloat;

  [[nodiscard]] std::string name() const override { return "RidgelineSymmetricProductBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_symmetric_product_", trans_a, "_", inputs, "_", exact_text(alpha), "_",
                    exact_text(beta));
  }
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved, const Tensor&,
                                         const std::vector<bool>& wanted) const override {
    variable_list result(2);
    if (wanted[kA]) {
      const Tensor both = usable((alpha * (grads[0] + grads[0].mT())).to(inputs));
      result[kA] = trans_a ? call_gemm(saved[0], both, false, false, {}) : call_gemm(both, saved[0], false, false, {});
    }
    // An element above the diagonal is in both triangles of the result.
    if (wanted[kResidual]) result[kResidual] = beta * (grads[0].triu() + grads[0].mT().triu(1));
    return result;
  }
};

Tensor symmetric_autograd(const Tensor& a, bool trans_a, OptionalType out_dtype, double alpha,
                          const OptionalTensor& residual, double beta, double shift) {
  const Tensor added = given(residual) ? *residual : Tensor();
  refuse_tangents(kOp, {a, added});
  NodePointer<BackwardNode> node;
  if (torch::autograd::compute_requires_grad(a, added)) {
    auto formula = std::make_shared<SymmetricGradients>();
    formula->trans_a = trans_a, formula->alpha = alpha, formula->beta = beta;
    formula->inputs = a.scalar_type();
    node = make_node(a, added);
    node->saved.resize(1);
    if (node->should_compute_output(SymmetricGradients::kA)) node->saved[0] = {a, false};
    node->gradients = std::move(formula);
  }
  Tensor c;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    c = call_symmetric_product(a, trans_a, out_dtype, alpha, residual, beta, shift);
  }
  if (node) torch::autograd::set_history(c, node);
  return c;
}

Tensor symmetric_autocast(const Tensor& a, bool trans_a, OptionalType out_dtype, double alpha,
                          const OptionalTensor& residual, double beta, double shift) {
  const auto device = a.device().type();
  const c10::impl::ExcludeDispatchKeyGuard without(
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}));
  const Tensor cast = at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), a, device);
  OptionalTensor added = residual;
  if (given(residual)) added = residual->to(out_dtype.value_or(cast.scalar_type()));
  return call_symmetric_product(cast, trans_a, out_dtype, alpha, added, beta, shift);
}

}  // namespace

Tensor call_symmetric_product(const Tensor& a, bool trans_a, OptionalType out_dtype, double alpha,
                              const OptionalTensor& residual, double beta, double shift) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::symmetric_product", "")
                             .typed<decltype(call_symmetric_product)>();
  return op.call(a, trans_a, out_dtype, alpha, residual, beta, shift);
}

void register_symmetric_product(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA: library.impl("symmetric_product", symmetric); return;
    case c10::DispatchKey::Meta: library.impl("symmetric_product", symmetric_meta); return;
    case c10::DispatchKey::Autograd: library.impl("symmetric_product", symmetric_autograd); return;
    case c10::DispatchKey::AutocastCPU:
    case c10::DispatchKey::AutocastCUDA: library.impl("symmetric_product", symmetric_autocast); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
