// What the operators' gradients and tangents have in common. The nodes of the backward graph are PyTorch's own kind
// (torch::autograd::Node) and not torch::autograd::Function, which functorch refuses and which has no tangents.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <charconv>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
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
  // Of the inputs that are wanted; the others stay undefined. `grads` are those of the outputs that have one, of which
  // at least one is defined; what is wanted of `saved` is, too.
  [[nodiscard]] virtual variable_list operator()(const variable_list& grads, const variable_list& saved,
                                                 const Tensor& main_grad, const std::vector<bool>& wanted) const = 0;
  // What a profile and grad_fn show.
  [[nodiscard]] virtual std::string name() const = 0;
  // Name and constants: equal texts are equal formulas.
  [[nodiscard]] virtual std::string text() const = 0;
  // Why the gradients cannot be differentiated again; empty where they can.
  [[nodiscard]] virtual std::string refuses_second() const { return {}; }
};

// A constant of a formula for its text(): the shortest form that no other number has (c10::str keeps six digits).
inline std::string exact_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

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
  [[nodiscard]] variable_list unpacked();
};

// What PyTorch holds the nodes of its graph by: a std::shared_ptr in 2.11, its own pointer in later versions.
inline constexpr bool kCountedNodes = std::is_base_of_v<c10::intrusive_ptr_target, torch::autograd::Node>;
template <class T>
using NodePointer = std::conditional_t<kCountedNodes, c10::intrusive_ptr<T>, std::shared_ptr<T>>;
template <class T>
NodePointer<T> new_node() {
  if constexpr (kCountedNodes) {
    return c10::make_intrusive<T>();
  } else {  // deleteNode keeps long graphs off the stack; later versions have none, so it is looked up by its argument
    return NodePointer<T>(new T, [](T* node) { deleteNode(node); });
  }
}

template <class... Inputs>
NodePointer<BackwardNode> make_node(const Inputs&... inputs) {
  auto node = new_node<BackwardNode>();
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

// NotImplementedError in a backward pass that shall itself be differentiated (create_graph=True, torch.func): what is
// added to main_grad leaves no graph.
void check_once(std::string_view op);

// Makes the derivative of `result`, which is computed from what `edges` lead to, an error instead of zero:
// NotImplementedError with `message` when it is asked for.
void refuse_derivative(const Tensor& result, torch::autograd::edge_list edges, const std::string& message);
// `why`: the reason and the way out.
inline constexpr std::string_view kCodesHaveNone =
    "8-bit codes have none; ridgeline.torch.quantize and gemm_fp8 hand gradients on to what was quantised, or call "
    ".detach() on the inputs";
void refuse_derivative(const Tensor& result, std::initializer_list<Tensor> inputs, std::string_view op,
                       std::string_view why);
template <class... Results>
void refuse_derivative(const std::tuple<Results...>& results, std::initializer_list<Tensor> inputs, std::string_view op,
                       std::string_view why) {
  std::apply([&](const auto&... result) { (refuse_derivative(result, inputs, op, why), ...); }, results);
}

// NotImplementedError if forward mode carries one of the inputs.
inline constexpr std::string_view kCodesHaveNoTangent =
    "8-bit codes have none; gemm_fp8 of plain tensors has, once, and gemm any number of times";
void refuse_tangents(std::string_view op, std::initializer_list<Tensor> inputs,
                     std::string_view why = kCodesHaveNoTangent);
// RuntimeError if a gradient or a tangent of what is added in place is wanted.
void check_no_derivative_in_place(std::string_view op, std::initializer_list<Tensor> tensors);

// Calls the operator `op` below autograd, with every derivative of its results refused.
template <class Call>
auto without_derivative(std::string_view op, std::initializer_list<Tensor> inputs, const Call& call,
                        std::string_view why = kCodesHaveNone, std::string_view why_no_tangent = kCodesHaveNoTangent) {
  refuse_tangents(op, inputs, why_no_tangent);
  auto results = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call();
  }();
  refuse_derivative(results, inputs, op, why);
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
