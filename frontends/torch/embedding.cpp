// ridgeline::embedding, rows of a table by PyTorch's own gather, whose gradient is ridgeline::embedding_backward: the
// same bits in every call, and added to main_grad where that is given.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <string>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/embedding_backward.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "embedding";

// ---- What a call asks of its tensors, of symbolic sizes

void check_ids(const Tensor& ids) {
  const auto type = ids.scalar_type();
  TORCH_CHECK_TYPE(type == at::kLong || type == at::kInt, kOp, ": the ids are ", type_of(ids),
                   "; give torch.int64 or torch.int32");
}
void check_table(const Tensor& weight) {
  const auto type = weight.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble;
  TORCH_CHECK_TYPE(usable_type, kOp, ": the weight is ", type_of(weight),
                   "; give torch.float32, torch.bfloat16, torch.float16 or torch.float64");
  TORCH_CHECK_VALUE(weight.dim() == 2, kOp, ": the weight has shape ", weight.sym_sizes(),
                    "; give [vocabulary, columns]");
}
std::vector<c10::SymInt> sizes_of(const Tensor& ids, const c10::SymInt& columns) {
  std::vector<c10::SymInt> sizes = ids.sym_sizes().vec();
  sizes.push_back(columns);
  return sizes;
}

Tensor embedding_meta(const Tensor& ids, const Tensor& weight, c10::SymInt /*padding_idx*/,
                      const OptionalTensor& main_grad) {
  check_ids(ids);
  check_table(weight);
  if (given(main_grad)) {
    check_like(*main_grad, kOp, "main_grad", weight.sym_sizes(), at::kFloat);
    check_rows(*main_grad, kOp, "main_grad");
  }
  return at::empty_symint(sizes_of(ids, weight.sym_size(1)), weight.options());
}

void check_gradient(const Tensor& dy, const Tensor& ids) {
  check_ids(ids);
  TORCH_CHECK_VALUE(dy.dim() >= 1, kOp, "_backward: the gradient has no dimension; give [..., columns]");
  check_like(dy, kOp, "the gradient", sizes_of(ids, dy.sym_size(-1)), dy.scalar_type());
}
Tensor embedding_backward_meta(const Tensor& dy, const Tensor& ids, c10::SymInt vocabulary,
                               c10::SymInt /*padding_idx*/) {
  check_gradient(dy, ids);
  return at::empty_symint({std::move(vocabulary), dy.sym_size(-1)}, dy.options());
}
void embedding_backward_add_meta(Tensor& dw, const Tensor& dy, const Tensor& ids, c10::SymInt /*padding_idx*/) {
  check_gradient(dy, ids);
  check_table(dw);
  check_like(dw, kOp, "main_grad", {dw.sym_size(0), dy.sym_size(-1)},
             dy.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  check_rows(dw, kOp, "main_grad");
}

// ---- The calls

Tensor embedding(const Tensor& ids, const Tensor& weight, c10::SymInt padding_idx, const OptionalTensor& main_grad) {
  check_same_device(kOp, {{"the ids", &ids}, {"the weight", &weight}});
  embedding_meta(ids, weight, padding_idx, main_grad);
  return at::embedding_symint(weight, ids, std::move(padding_idx), false, false);
}

// Also of no tokens, where dw is 0.
void run(const Tensor& dy, const Tensor& ids, const Tensor& dw, std::int64_t padding_idx, bool accumulate) {
  const Tensor rows = dy.reshape({-1, dy.size(-1)}).contiguous(), places = ids.reshape({-1}).contiguous();
  const OnDeviceOf on_device(dy);
  EmbeddingBackwardArgs args;
  args.dy = rows_view(rows, kOp, "the gradient");
  args.ids = TensorView::contiguous(places.data_ptr(), dtype_of(places, kOp, "the ids"), {places.numel()});
  args.dw = rows_view(dw, kOp, "the weight's gradient");
  args.padding_idx = padding_idx;
  args.accumulate = accumulate;
  check(ridge::embedding_backward(args, stream_of(dy)));
}

Tensor embedding_backward(const Tensor& dy, const Tensor& ids, c10::SymInt vocabulary, c10::SymInt padding_idx) {
  check_same_device("embedding_backward", {{"the gradient", &dy}, {"the ids", &ids}});
  Tensor dw = embedding_backward_meta(dy, ids, vocabulary, padding_idx);
  if (dw.numel() == 0) return dw;
  if (dy.scalar_type() == at::kDouble) {
    return at::embedding_dense_backward_symint(dy, ids, std::move(vocabulary), std::move(padding_idx), false);
  }
  if (dy.numel() == 0) return dw.zero_();
  run(dy, ids, dw, padding_idx.expect_int(), false);
  return dw;
}

void embedding_backward_add(Tensor& dw, const Tensor& dy, const Tensor& ids, c10::SymInt padding_idx) {
  check_same_device("embedding_backward", {{"the gradient", &dy}, {"the ids", &ids}, {"main_grad", &dw}});
  embedding_backward_add_meta(dw, dy, ids, padding_idx);
  if (dw.numel() == 0 || dy.numel() == 0) return;
  if (dy.scalar_type() == at::kDouble) {
    dw.add_(at::embedding_dense_backward_symint(dy, ids, dw.sym_size(0), std::move(padding_idx), false));
    return;
  }
  run(dy, ids, dw, padding_idx.expect_int(), true);
}

// ---- Derivatives

struct EmbeddingGradients final : Gradients {
  enum Input { kWeight };
  c10::SymInt vocabulary = 0, padding_idx = -1;
  at::ScalarType type = at::kFloat;

  [[nodiscard]] std::string name() const override { return "RidgelineEmbeddingBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_embedding_", vocabulary, "_", padding_idx, "_", static_cast<int>(type));
  }
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved,
                                         const Tensor& main_grad, const std::vector<bool>&) const override {
    const Tensor& ids = saved[0];
    const Tensor dy = grads[0].to(type).contiguous();
    if (main_grad.defined()) {
      check_once(kOp);
      Tensor sum = main_grad;
      call_embedding_backward_add(sum, dy, ids, padding_idx);
      return {Tensor()};
    }
    if (at::GradMode::is_enabled()) {  // differentiated again
      return {at::embedding_dense_backward_symint(dy, ids, vocabulary, padding_idx, false)};
    }
    return {call_embedding_backward(dy, ids, vocabulary, padding_idx)};
  }
};

Tensor embedding_autograd(const Tensor& ids, const Tensor& weight, c10::SymInt padding_idx,
                          const OptionalTensor& main_grad) {
  if (any_tangent(weight)) {
    embedding_meta(ids, weight, padding_idx, main_grad);
    return at::embedding_symint(weight, ids, std::move(padding_idx), false, false);
  }
  NodePointer<BackwardNode> node;
  if (torch::autograd::compute_requires_grad(weight)) {
    node = make_node(weight);
    auto formula = std::make_shared<EmbeddingGradients>();
    formula->vocabulary = weight.sym_size(0), formula->padding_idx = padding_idx;
    formula->type = weight.scalar_type();
    node->gradients = std::move(formula);
    node->saved.resize(1);
    node->saved[0] = {ids, false};
    if (given(main_grad)) node->main_grad = *main_grad;
  }
  Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_embedding(ids, weight, std::move(padding_idx), main_grad);
  }
  if (node) torch::autograd::set_history(out, node);
  return out;
}

Tensor embedding_backward_autograd(const Tensor& dy, const Tensor& ids, c10::SymInt vocabulary,
                                   c10::SymInt padding_idx) {
  if (torch::autograd::compute_requires_grad(dy) || any_tangent(dy)) {
    embedding_backward_meta(dy, ids, vocabulary, padding_idx);
    return at::embedding_dense_backward_symint(dy, ids, std::move(vocabulary), std::move(padding_idx), false);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_embedding_backward(dy, ids, std::move(vocabulary), std::move(padding_idx));
}

void embedding_backward_add_autograd(Tensor& dw, const Tensor& dy, const Tensor& ids, c10::SymInt padding_idx) {
  check_no_derivative_in_place("embedding_backward_add_", {dw, dy});
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_embedding_backward_add(dw, dy, ids, std::move(padding_idx));
  }
  if (!dw.is_inference()) dw.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

Tensor call_embedding(const Tensor& ids, const Tensor& weight, c10::SymInt padding_idx,
                      const OptionalTensor& main_grad) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::embedding", "").typed<decltype(call_embedding)>();
  return op.call(ids, weight, std::move(padding_idx), main_grad);
}
Tensor call_embedding_backward(const Tensor& dy, const Tensor& ids, c10::SymInt vocabulary, c10::SymInt padding_idx) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::embedding_backward", "")
                             .typed<decltype(call_embedding_backward)>();
  return op.call(dy, ids, std::move(vocabulary), std::move(padding_idx));
}
void call_embedding_backward_add(Tensor& dw, const Tensor& dy, const Tensor& ids, c10::SymInt padding_idx) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::embedding_backward_add_", "")
                             .typed<decltype(call_embedding_backward_add)>();
  op.call(dw, dy, ids, std::move(padding_idx));
}

void register_embedding(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("embedding", embedding);
      library.impl("embedding_backward", embedding_backward);
      library.impl("embedding_backward_add_", embedding_backward_add);
      return;
    case c10::DispatchKey::Meta:
      library.impl("embedding", embedding_meta);
      library.impl("embedding_backward", embedding_backward_meta);
      library.impl("embedding_backward_add_", embedding_backward_add_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("embedding", embedding_autograd);
      library.impl("embedding_backward", embedding_backward_autograd);
      library.impl("embedding_backward_add_", embedding_backward_add_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
