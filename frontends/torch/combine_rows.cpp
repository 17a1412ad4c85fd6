// ridgeline::combine_rows, rows that are weighted sums of other rows, and the gradient of its weights. The gradient of
// x is combine_rows again, by the places that the caller gives.
#include "ridge/ops/combine_rows.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <string>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/combine_rows_backward.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "combine_rows";

// ---- What a call asks of its tensors, of symbolic sizes

void check_numbers(const Tensor& numbers, std::string_view name) {
  const auto type = numbers.scalar_type();
  TORCH_CHECK_TYPE(type == at::kInt || type == at::kLong, kOp, ": ", name, " is ", type_of(numbers),
                   "; give torch.int32 or torch.int64");
  TORCH_CHECK_VALUE(numbers.dim() == 2, kOp, ": ", name, " has shape ", numbers.sym_sizes(),
                    "; give a matrix, rows by numbers of each");
}
void check_inputs(const Tensor& x, const Tensor& sources) {
  const auto type = x.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble;
  TORCH_CHECK_TYPE(usable_type, kOp, ": x is ", type_of(x),
                   "; give torch.float32, torch.bfloat16, torch.float16 or torch.float64");
  TORCH_CHECK_VALUE(x.dim() == 2, kOp, ": x has shape ", x.sym_sizes(), "; give [rows, columns]");
  check_numbers(sources, "sources");
}
at::ScalarType weight_type(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

Tensor combine_rows_meta(const Tensor& x, const Tensor& sources, const OptionalTensor& weights,
                         const OptionalTensor& places) {
  check_inputs(x, sources);
  if (given(weights)) check_like(*weights, kOp, "weights", sources.sym_sizes(), weight_type(x));
  if (given(places)) {
    check_numbers(*places, "places");
    TORCH_CHECK_VALUE(same(places->sym_size(0), x.sym_size(0)), kOp, ": places has shape ", places->sym_sizes(),
                      " and x ", x.sym_sizes(), "; give the places of each row of x");
  }
  return at::empty_symint({sources.sym_size(0), x.sym_size(1)}, x.options());
}

Tensor combine_rows_backward_meta(const Tensor& dy, const Tensor& x, const Tensor& sources) {
  check_inputs(x, sources);
  check_like(dy, kOp, "the gradient", {sources.sym_size(0), x.sym_size(1)}, x.scalar_type());
  return at::empty_symint(sources.sym_sizes(), x.options().dtype(weight_type(x)));
}

// ---- By PyTorch's own operators: for float64, tangents, and gradients that are differentiated again

// The sources of each row, [rows, top, columns], 0 where there is none.
Tensor gathered(const Tensor& x, const Tensor& sources) {
  const auto rows = sources.sym_size(0), top = sources.sym_size(1);
  if (TORCH_GUARD_OR_FALSE(x.sym_size(0).sym_eq(0))) return at::zeros_symint({rows, top, x.sym_size(1)}, x.options());
  const Tensor there = sources >= 0;
  const Tensor taken = at::index_select(x, 0, at::clamp_min(sources, 0).reshape({-1}));
  return at::where(there.unsqueeze(-1), taken.reshape_symint({rows, top, x.sym_size(1)}), at::zeros({}, x.options()));
}
Tensor weights_gradient_by_torch(const Tensor& dy, const Tensor& x, const Tensor& sources) {
  const auto wide = weight_type(x);
  return (gathered(x, sources).to(wide) * dy.to(wide).unsqueeze(1)).sum(-1);
}

// ---- The calls

Tensor combine_rows(const Tensor& x, const Tensor& sources, const OptionalTensor& weights,
                    const OptionalTensor& places) {
  check_same_device(kOp, {{"x", &x}, {"sources", &sources}, {"weights", &weights}, {"places", &places}});
  const Tensor y = combine_rows_meta(x, sources, weights, places);
  if (x.scalar_type() == at::kDouble) return combine_rows_by_torch(x, sources, weights);
  if (y.numel() == 0) return y;
  const Tensor from = sources.contiguous(), rows = x.contiguous();
  if (from.size(1) == 0) return y.zero_();
  const Tensor by = given(weights) ? weights->contiguous() : Tensor();
  const OnDeviceOf on_device(x);
  CombineRowsArgs args;
  args.x = row_major_view(rows, kOp, "x");
  args.from = dense_view(from, kOp, "sources");
  if (by.defined()) args.weights = dense_view(by, kOp, "weights");
  args.y = row_major_view(y, kOp, "the result");
  check(ridge::combine_rows(args, stream_of(x)));
  return y;
}

Tensor combine_rows_backward(const Tensor& dy, const Tensor& x, const Tensor& sources) {
  check_same_device("combine_rows_backward", {{"the gradient", &dy}, {"x", &x}, {"sources", &sources}});
  Tensor dweights = combine_rows_backward_meta(dy, x, sources);
  if (x.scalar_type() == at::kDouble) return weights_gradient_by_torch(dy, x, sources);
  if (dweights.numel() == 0) return dweights;
  if (x.numel() == 0) return dweights.zero_();
  const Tensor from = sources.contiguous(), rows = x.contiguous(), grad = dy.contiguous();
  const OnDeviceOf on_device(x);
  CombineRowsBackwardArgs args;
  args.x = row_major_view(rows, kOp, "x");
  args.from = dense_view(from, kOp, "sources");
  args.dy = row_major_view(grad, kOp, "the gradient");
  args.dweights = dense_view(dweights, kOp, "the gradient of weights");
  check(ridge::combine_rows_backward(args, stream_of(x)));
  return dweights;
}

// ---- Derivatives

struct CombineRowsFormula final : Gradients {
  enum Input { kX, kWeights };
  enum Saved { kSavedX, kSavedSources, kSavedWeights, kSavedPlaces };

  [[nodiscard]] std::string name() const override { return "RidgelineCombineRowsBackward"; }
  [[nodiscard]] std::string text() const override { return "ridgeline_combine_rows"; }
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved, const Tensor&,
                                         const std::vector<bool>& wanted) const override {
    const Tensor &x = saved[kSavedX], &sources = saved[kSavedSources], &weights = saved[kSavedWeights];
    const Tensor dy = grads[0].contiguous();
    variable_list result(wanted.size());
    if (wanted[kX]) result[kX] = of_x(dy, sources, weights, saved[kSavedPlaces]);
    if (wanted[kWeights] && weights.defined()) {
      result[kWeights] = at::GradMode::is_enabled() ? weights_gradient_by_torch(dy, x, sources)
                                                    : call_combine_rows_backward(dy, x, sources);
    }
    return result;
  }

 private:
  // Row s of x is in the rows places / top of the result, with the weights of these places.
  static Tensor of_x(const Tensor& dy, const Tensor& sources, const Tensor& weights, const Tensor& places) {
    const Tensor rows = at::div(places, c10::Scalar(sources.sym_size(1)), "floor");
    OptionalTensor by;
    if (weights.defined()) {
      by = at::index_select(weights.reshape({-1}), 0, at::clamp_min(places, 0).reshape({-1}))
               .reshape_symint(places.sym_sizes());
    }
    return at::GradMode::is_enabled() ? combine_rows_by_torch(dy, rows, by) : call_combine_rows(dy, rows, by, {});
  }
};

Tensor combine_rows_autograd(const Tensor& x, const Tensor& sources, const OptionalTensor& weights,
                             const OptionalTensor& places) {
  if (any_tangent(x, weights)) {
    combine_rows_meta(x, sources, weights, places);
    return combine_rows_by_torch(x, sources, weights);
  }
  NodePointer<BackwardNode> node;
  if (torch::autograd::compute_requires_grad(x, weights)) {
    TORCH_CHECK_VALUE(!x.requires_grad() || given(places), kOp,
                      ": x needs a gradient, which is read by the places of each row of x; give places");
    node = make_node(x, weights);
    node->gradients = std::make_shared<CombineRowsFormula>();
    node->saved.resize(4);
  }
  Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    y = call_combine_rows(x, sources, weights, places);
  }
  if (!node) return y;
  const bool of_weights = given(weights) && weights->requires_grad();
  node->saved[CombineRowsFormula::kSavedX] = {of_weights ? x : Tensor(), false};
  node->saved[CombineRowsFormula::kSavedSources] = {sources, false};
  node->saved[CombineRowsFormula::kSavedWeights] = {given(weights) ? *weights : Tensor(), false};
  node->saved[CombineRowsFormula::kSavedPlaces] = {given(places) ? *places : Tensor(), false};
  torch::autograd::set_history(y, node);
  return y;
}

Tensor combine_rows_backward_autograd(const Tensor& dy, const Tensor& x, const Tensor& sources) {
  if (torch::autograd::compute_requires_grad(dy, x) || any_tangent(dy, x)) {
    combine_rows_backward_meta(dy, x, sources);
    return weights_gradient_by_torch(dy, x, sources);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_combine_rows_backward(dy, x, sources);
}

}  // namespace

Tensor combine_rows_by_torch(const Tensor& x, const Tensor& sources, const OptionalTensor& weights) {
  const Tensor terms = gathered(x, sources).to(weight_type(x));
  return (given(weights) ? terms * weights->unsqueeze(-1) : terms).sum(1).to(x.scalar_type());
}
Tensor call_combine_rows(const Tensor& x, const Tensor& sources, const OptionalTensor& weights,
                         const OptionalTensor& places) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::combine_rows", "")
                             .typed<decltype(call_combine_rows)>();
  return op.call(x, sources, weights, places);
}
Tensor call_combine_rows_backward(const Tensor& dy, const Tensor& x, const Tensor& sources) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::combine_rows_backward", "")
                             .typed<decltype(call_combine_rows_backward)>();
  return op.call(dy, x, sources);
}

void register_combine_rows(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("combine_rows", combine_rows);
      library.impl("combine_rows_backward", combine_rows_backward);
      return;
    case c10::DispatchKey::Meta:
      library.impl("combine_rows", combine_rows_meta);
      library.impl("combine_rows_backward", combine_rows_backward_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("combine_rows", combine_rows_autograd);
      library.impl("combine_rows_backward", combine_rows_backward_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
