// ridgeline::grouped_gemm and ridgeline::grouped_gemm_add_.
#include "ridge/ops/grouped_gemm.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "grouped_gemm", kAdd = "grouped_gemm_add_";

// ---- What a call asks of its tensors, of symbolic sizes

void check_types(const Tensor& a, const Tensor& b, const Tensor& offsets, std::string_view op) {
  const auto type = a.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf ||
                           (type == at::kDouble && !a.is_cuda());  // by torch
  TORCH_CHECK_TYPE(usable_type, op, ": a is ", type_of(a),
                   "; give torch.float32, torch.bfloat16 or torch.float16 (torch.float64: on the CPU)");
  check_same_type(a, b, op);
  const auto index = offsets.scalar_type();
  TORCH_CHECK_TYPE(index == at::kInt || index == at::kLong, op, ": the offsets are ", type_of(offsets),
                   "; give torch.int32 or torch.int64");
}

void check_offsets(const Tensor& offsets, const c10::SymInt& groups, std::string_view op) {
  TORCH_CHECK_VALUE(offsets.dim() == 1 && same(offsets.sym_size(0), groups + 1), op, ": the offsets have shape ",
                    offsets.sym_sizes(), " and there are ", groups, " groups; give ", groups + 1,
                    " numbers: where each group begins, and where the last ends");
  TORCH_CHECK_VALUE(offsets.is_contiguous(), op, ": the offsets are not contiguous; call .contiguous() on them first");
}

void check_matrix(const Tensor& matrix, std::string_view name, std::string_view op) {
  TORCH_CHECK_VALUE(matrix.dim() == 2, op, ": ", name, " has shape ", matrix.sym_sizes(), "; give a matrix of rows");
  check_strides(matrix, op, name, false);
}

// Sizes of the result along rows.
std::vector<c10::SymInt> rows_sizes(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_b) {
  check_matrix(a, "a", kOp);
  TORCH_CHECK_VALUE(b.dim() == 3, kOp, ": b has shape ", b.sym_sizes(), "; give a matrix for each group");
  check_strides(b, kOp, "b", true);
  const auto k_of_b = b.sym_size(trans_b ? 2 : 1);
  TORCH_CHECK_VALUE(same(a.sym_size(1), k_of_b), kOp, ": a has ", a.sym_size(1), " columns but op(b) has ", k_of_b,
                    " rows; check trans_b");
  check_offsets(offsets, b.sym_size(0), kOp);
  return {a.sym_size(0), b.sym_size(trans_b ? 1 : 2)};
}

// Sizes of the result of sums over rows.
std::vector<c10::SymInt> sums_sizes(const Tensor& a, const Tensor& b, const Tensor& offsets, std::string_view op) {
  check_matrix(a, "a", op);
  check_matrix(b, "b", op);
  TORCH_CHECK_VALUE(same(a.sym_size(0), b.sym_size(0)), op, ": a has ", a.sym_size(0), " rows and b has ",
                    b.sym_size(0), "; sums are over the rows of both");
  const c10::SymInt groups = offsets.dim() == 1 ? offsets.sym_size(0) - 1 : c10::SymInt(0);
  TORCH_CHECK_VALUE(offsets.dim() == 1 && TORCH_GUARD_OR_TRUE(groups.sym_ge(1)), op, ": the offsets have shape ",
                    offsets.sym_sizes(), "; give where each group begins, and where the last ends");
  check_offsets(offsets, groups, op);
  return {groups, a.sym_size(1), b.sym_size(1)};
}

std::vector<c10::SymInt> result_sizes(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a,
                                      bool trans_b) {
  TORCH_CHECK_VALUE(!(trans_a && trans_b), kOp, ": trans_a sums over the rows of both; leave trans_b out");
  return trans_a ? sums_sizes(a, b, offsets, kOp) : rows_sizes(a, b, offsets, trans_b);
}

at::ScalarType result_type(const Tensor& a, OptionalType out_dtype) {
  const auto type = out_dtype.value_or(a.scalar_type());
  check_result_type(type, kOp, {a.scalar_type(), a.scalar_type() == at::kDouble ? at::kDouble : at::kFloat});
  return type;
}

Tensor grouped_meta(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                    OptionalType out_dtype, const OptionalTensor&) {
  check_types(a, b, offsets, kOp);
  const auto sizes = result_sizes(a, b, offsets, trans_a, trans_b);
  return at::empty_symint(sizes, a.options().dtype(result_type(a, out_dtype)));
}

void grouped_add_meta(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& offsets) {
  check_types(a, b, offsets, kAdd);
  const auto type = c.scalar_type() == at::kFloat ? at::kFloat : a.scalar_type();
  check_like(c, kAdd, "c", sums_sizes(a, b, offsets, kAdd), type);
  check_strides(c, kAdd, "c", false);
}

// ---- The calls

// By torch's own products, group by group: float64, on a CPU.
Tensor by_torch(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b) {
  const Tensor places = offsets.to(at::kLong);
  const auto* const at = places.const_data_ptr<std::int64_t>();
  const std::int64_t groups = places.numel() - 1;
  Tensor c = trans_a ? at::zeros({groups, a.size(1), b.size(1)}, a.options())
                     : at::zeros({a.size(0), b.size(trans_b ? 1 : 2)}, a.options());
  for (std::int64_t g = 0; g < groups; ++g) {
    TORCH_CHECK_VALUE(at[g] >= 0 && at[g] <= at[g + 1] && at[g + 1] <= a.size(0), kOp, ": offset ", g + 1, " is ",
                      at[g + 1], ", after ", at[g], " and of ", a.size(0), " rows");
    const std::int64_t rows = at[g + 1] - at[g];
    const Tensor own = a.narrow(0, at[g], rows);
    if (trans_a) {
      c.select(0, g).copy_(at::mm(own.t(), b.narrow(0, at[g], rows)));
    } else {
      const Tensor matrix = b.select(0, g);
      c.narrow(0, at[g], rows).copy_(at::mm(own, trans_b ? matrix.t() : matrix));
    }
  }
  return c;
}

// `stack`: b of a product along rows may be stored the other way round.
GroupedGemmArgs arguments(const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c, bool trans_a,
                          bool trans_b, std::string_view op) {
  GroupedGemmArgs args;
  args.a = row_major_view(a, op, "a");
  args.b = trans_a ? row_major_view(b, op, "b") : matrix_view(b, trans_b, op, "b");
  args.offsets = dense_view(offsets, op, "the offsets");
  args.c = row_major_view(c, op, "the result");
  args.trans_a = trans_a, args.trans_b = trans_b;
  return args;
}

Tensor grouped(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
               OptionalType out_dtype, const OptionalTensor& main_grad) {
  check_same_device(kOp, {{"a", &a}, {"b", &b}, {"the offsets", &offsets}});
  Tensor c = grouped_meta(a, b, offsets, trans_a, trans_b, out_dtype, main_grad);
  if (a.scalar_type() == at::kDouble) return by_torch(a, b, offsets, trans_a, trans_b);
  const OnDeviceOf on_device(a);
  check(ridge::grouped_gemm(arguments(a, b, offsets, c, trans_a, trans_b, kOp), stream_of(a)));
  return c;
}

void grouped_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& offsets) {
  check_same_device(kAdd, {{"a", &a}, {"b", &b}, {"the offsets", &offsets}, {"c", &c}});
  grouped_add_meta(c, a, b, offsets);
  if (a.scalar_type() == at::kDouble) {
    c.add_(by_torch(a, b, offsets, true, false));
    return;
  }
  const OnDeviceOf on_device(a);
  GroupedGemmArgs args = arguments(a, b, offsets, c, true, false, kAdd);
  args.accumulate = true;
  check(ridge::grouped_gemm(args, stream_of(a)));
}

// ---- Derivatives, which are grouped products again

struct GroupedGradients final : Gradients {
  enum Input { kA, kB };
  enum Saved { kSavedA, kSavedB, kOffsets };
  bool trans_a = false, trans_b = false;
  at::ScalarType inputs = at::kFloat;

  [[nodiscard]] std::string name() const override { return "RidgelineGroupedGemmBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_grouped_gemm_", trans_a, trans_b, "_", inputs);
  }
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved,
                                         const Tensor& main_grad, const std::vector<bool>& wanted) const override {
    const Tensor grad = usable(grads[0].to(inputs));
    const Tensor& offsets = saved[kOffsets];
    variable_list result(3);
    if (wanted[kA]) {
      const Tensor& b = saved[kSavedB];
      // Along sums C[g] = A^T B, and a row of A's gradient is one of B times C's gradient, transposed.
      result[kA] = trans_a ? call_grouped_gemm(b, grad, offsets, false, true, {})
                           : call_grouped_gemm(grad, b, offsets, false, !trans_b, {});
    }
    if (wanted[kB]) result[kB] = grad_of_b(saved[kSavedA], grad, offsets, main_grad);
    return result;
  }

 private:
  [[nodiscard]] Tensor grad_of_b(const Tensor& a, const Tensor& grad, const Tensor& offsets, Tensor main_grad) const {
    if (trans_a) return call_grouped_gemm(a, grad, offsets, false, false, {});
    const Tensor &left = trans_b ? grad : a, &right = trans_b ? a : grad;
    if (!main_grad.defined()) return call_grouped_gemm(left, right, offsets, true, false, {});
    check_once(kOp);
    call_grouped_gemm_add(main_grad, left, right, offsets);
    return {};
  }
};

NodePointer<BackwardNode> backward_of(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a,
                                      bool trans_b, const OptionalTensor& main_grad) {
  auto formula = std::make_shared<GroupedGradients>();
  formula->trans_a = trans_a, formula->trans_b = trans_b;
  formula->inputs = a.scalar_type();
  auto node = make_node(a, b, offsets);
  node->saved.resize(3);
  if (node->should_compute_output(GroupedGradients::kB)) node->saved[GroupedGradients::kSavedA] = {a, false};
  if (node->should_compute_output(GroupedGradients::kA)) node->saved[GroupedGradients::kSavedB] = {b, false};
  node->saved[GroupedGradients::kOffsets] = {offsets, false};
  node->gradients = std::move(formula);
  if (given(main_grad)) {
    TORCH_CHECK_VALUE(!trans_a, kOp, ": main_grad takes the gradient of a stack of matrices; leave trans_a out");
    check_main_grad(*main_grad, b, kOp);
    node->main_grad = *main_grad;
  }
  return node;
}

// c' = op(a') op(b) + op(a) op(b')
Tensor tangent_of_grouped(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                          at::ScalarType type) {
  Tensor sum;
  const auto product = [&](const Tensor& left, const Tensor& right) {
    const Tensor one = call_grouped_gemm(left, right, offsets, trans_a, trans_b, type);
    sum = sum.defined() ? sum + one : one;
  };
  if (has_tangent(a)) product(usable(tangent_of(a)), primal_of(b));
  if (has_tangent(b)) product(primal_of(a), usable(tangent_of(b)));
  return sum;
}

Tensor grouped_autograd(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                        OptionalType out_dtype, const OptionalTensor& main_grad) {
  const auto node =
      torch::autograd::compute_requires_grad(a, b) ? backward_of(a, b, offsets, trans_a, trans_b, main_grad) : nullptr;
  Tensor c;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    c = call_grouped_gemm(a, b, offsets, trans_a, trans_b, out_dtype);
  }
  if (node) torch::autograd::set_history(c, node);
  if (any_tangent(a, b)) {
    c._set_fw_grad(tangent_of_grouped(a, b, offsets, trans_a, trans_b, c.scalar_type()), 0, false);
  }
  return c;
}

void grouped_add_autograd(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& offsets) {
  check_no_derivative_in_place(kAdd, {c, a, b});
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_grouped_gemm_add(c, a, b, offsets);
  }
  if (!c.is_inference()) c.unsafeGetTensorImpl()->bump_version();
}

Tensor grouped_autocast(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                        OptionalType out_dtype, const OptionalTensor& main_grad) {
  const auto device = a.device().type();
  const c10::impl::ExcludeDispatchKeyGuard without(
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}));
  const auto type = at::autocast::get_autocast_dtype(device);
  const auto cast = [&](const Tensor& t) { return at::autocast::cached_cast(type, t, device); };
  return call_grouped_gemm(cast(a), cast(b), offsets, trans_a, trans_b, out_dtype, main_grad);
}

}  // namespace

Tensor call_grouped_gemm(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                         OptionalType out_dtype, const OptionalTensor& main_grad) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::grouped_gemm", "")
                             .typed<decltype(call_grouped_gemm)>();
  return op.call(a, b, offsets, trans_a, trans_b, out_dtype, main_grad);
}

void call_grouped_gemm_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& offsets) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::grouped_gemm_add_", "")
                             .typed<decltype(call_grouped_gemm_add)>();
  op.call(c, a, b, offsets);
}

void register_grouped_gemm(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("grouped_gemm", grouped);
      library.impl("grouped_gemm_add_", grouped_add);
      return;
    case c10::DispatchKey::Meta:
      library.impl("grouped_gemm", grouped_meta);
      library.impl("grouped_gemm_add_", grouped_add_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("grouped_gemm", grouped_autograd);
      library.impl("grouped_gemm_add_", grouped_add_autograd);
      return;
    case c10::DispatchKey::AutocastCPU:
    case c10::DispatchKey::AutocastCUDA: library.impl("grouped_gemm", grouped_autocast); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
