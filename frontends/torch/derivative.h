// What the operators' gradients and tangents have in common. The nodes of the backward graph are PyTorch's own kind
// (torch::autograd::Node) and not torch::autograd::Function, which functorch refuses and which has no tangents.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace ridge::torch_frontend {

using at::Tensor;
using torch::autograd::variable_list;

// The formula of an operator's gradients: one for each differentiable input. It holds no tensor, so that compiled
// autograd can keep it.
struct Gradients {
  Gradients() = default;
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;
  virtual ~Gradients() = default;
  // Of the inputs that are wanted; the others stay undefined. `grad` and what is wanted of `saved` are defined.
  [[nodiscard]] virtual variable_list operator()(const Tensor& grad, const variable_list& saved,
                                                 const Tensor& main_grad, const std::vector<bool>& wanted) const = 0;
  // What a profile and grad_fn show.
  [[nodiscard]] virtual std::string name() const = 0;
  // Name and constants: equal texts are equal formulas.
  [[nodiscard]] virtual std::string text() const = 0;
  // Why the gradients cannot be differentiated again; empty where they can.
  [[nodiscard]] virtual std::string refuses_second() const { return {}; }
};

class BackwardNode final : public torch::autograd::Node {
 public:
  std::shared_ptr<const Gradients> gradients;
  std::vector<torch::autograd::SavedVariable> saved;
  Tensor main_grad;  // not a saved variable: what other micro-batches add to it in between is what it is for

  [[nodiscard]] std::string name() const override { return gradients->name(); }
  variable_list apply(variable_list&& grads) override;
  void release_variables() override;
  // For torch._dynamo.compiled_autograd.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override;
  variable_list apply_with_saved(const variable_list& grads,
                                 torch::dynamo::autograd::SwapSavedVariables& swap) override;

 private:
  [[nodiscard]] std::vector<bool> wanted() const;
  [[nodiscard]] variable_list unpacked() const;
};

template <class... Inputs>
std::shared_ptr<BackwardNode> make_node(const Inputs&... inputs) {
  auto node = std::shared_ptr<BackwardNode>(new BackwardNode, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

// NotImplementedError in a backward pass that shall itself be differentiated (create_graph=True, torch.func): what is
// added to main_grad leaves no graph.
void check_once(std::string_view op);

// Makes the derivative of `result`, which is computed from what `edges` lead to, an error instead of zero:
// NotImplementedError with `message` when it is asked for.
void refuse_derivative(const Tensor& result, torch::autograd::edge_list edges, const std::string& message);
void refuse_derivative(const Tensor& result, std::initializer_list<Tensor> inputs, std::string_view op);
template <class... Results>
void refuse_derivative(const std::tuple<Results...>& results, std::initializer_list<Tensor> inputs,
                       std::string_view op) {
  std::apply([&](const auto&... result) { (refuse_derivative(result, inputs, op), ...); }, results);
}

// NotImplementedError if forward mode carries one of the inputs.
void refuse_tangents(std::string_view op, std::initializer_list<Tensor> inputs);
// RuntimeError if a gradient or a tangent of what is added in place is wanted.
void check_no_derivative_in_place(std::string_view op, std::initializer_list<Tensor> tensors);

// Calls the operator `op` below autograd, with every derivative of its results refused.
template <class Call>
auto without_derivative(std::string_view op, std::initializer_list<Tensor> inputs, const Call& call) {
  refuse_tangents(op, inputs);
  auto results = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call();
  }();
  refuse_derivative(results, inputs, op);
  return results;
}

bool has_tangent(const Tensor& tensor);
bool has_tangent(const std::optional<Tensor>& tensor);
template <class... Tensors>
bool any_tangent(const Tensors&... tensors) {
  return (has_tangent(tensors) || ...);
}
// Of a tensor that forward mode carries: its value alone, and its tangent.
Tensor primal_of(const Tensor& tensor);
Tensor tangent_of(const Tensor& tensor);

}  // namespace ridge::torch_frontend
