#include "derivative.h"

#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>

namespace ridge::torch_frontend {
namespace {

using torch::dynamo::autograd::CompiledNodeArgs;
using torch::dynamo::autograd::PackedArgs;
using torch::dynamo::autograd::SwapSavedVariables;

struct Refusal final : torch::autograd::Node {
  std::string message;
  [[nodiscard]] std::string name() const override { return "RidgelineNoDerivative"; }
  variable_list apply(variable_list&&) override { TORCH_CHECK_NOT_IMPLEMENTED(false, message); }
};

bool any_defined(const variable_list& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) { return tensor.defined(); });
}

}  // namespace

std::vector<bool> BackwardNode::wanted() const {
  std::vector<bool> result;
  for (std::size_t i = 0; i < next_edges().size(); ++i) result.push_back(task_should_compute_output(i));
  return result;
}

variable_list BackwardNode::unpacked() {
  variable_list tensors;
  for (const auto& variable : saved) tensors.push_back(variable.unpack(getptr()));  // also of an output of the node
  return tensors;
}

variable_list BackwardNode::apply(variable_list&& grads) {
  const std::scoped_lock lock(mutex_);
  if (!any_defined(grads)) return variable_list(next_edges().size());
  variable_list result = (*gradients)(grads, unpacked(), main_grad, wanted());
  const std::string refusal = at::GradMode::is_enabled() ? gradients->refuses_second() : "";
  if (refusal.empty()) return result;
  // The gradient of one input depends on the other inputs, and on the gradient that came in.
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!result[i].defined()) continue;
    torch::autograd::edge_list edges = {torch::autograd::impl::gradient_edge(grads[0])};
    for (std::size_t other = 0; other < result.size(); ++other) {
      if (other != i) edges.push_back(next_edge(other));
    }
    refuse_derivative(result[i], std::move(edges), refusal);
  }
  return result;
}

void BackwardNode::release_variables() {
  const std::scoped_lock lock(mutex_);
  for (auto& variable : saved) variable.reset_data();
}

void BackwardNode::compiled_args(CompiledNodeArgs& args) const {
  args.collect(gradients->text());
  args.collect(saved, /*is_output=*/true);  // one of them may be an output of the node
  args.collect(main_grad);
}

variable_list BackwardNode::apply_with_saved(const variable_list& grads, SwapSavedVariables& swap) {
  using torch::dynamo::autograd::IValuePacker;
  swap.before(saved), swap.before(main_grad);
  PackedArgs packed;
  packed.pack(unpacked());
  packed.pack(variable_list{main_grad});
  packed.pack(wanted());
  const std::vector<at::IValue> args = packed.vec();
  std::vector<at::TypePtr> schema;
  for (const at::IValue& arg : args) schema.push_back(arg.type());
  const auto run = [formula = gradients](const variable_list& inputs, const std::vector<at::IValue>& values) {
    PackedArgs given(values);
    const auto tensors = given.unpack<variable_list>();
    const auto target = given.unpack<variable_list>();
    const auto which = given.unpack<std::vector<bool>>();
    if (!any_defined(inputs)) return variable_list(which.size());
    return (*formula)(inputs, tensors, target[0], which);
  };
  const auto& python = torch::dynamo::autograd::getPyCompilerInterface();
  const std::string bound = python->bind_function(swap.get_py_compiler(), gradients->text(), run, schema,
                                                  /*is_custom_function=*/true, /*is_traceable=*/false);
  variable_list result =
      python->call_function(swap.get_py_compiler(), "apply_functional", bound, grads, args,
                            IValuePacker<std::vector<std::optional<torch::autograd::InputMetadata>>>::pack(
                                torch::dynamo::autograd::get_input_metadata(next_edges())));
  swap.after(saved), swap.after(main_grad);
  return result;
}

void check_once(std::string_view op) {
  TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(), op,
                              ": main_grad takes no gradient that is to be differentiated again (create_graph=True, "
                              "torch.func); leave main_grad out");
}

void refuse_derivative(const Tensor& result, torch::autograd::edge_list edges, const std::string& message) {
  const NodePointer<Refusal> node = new_node<Refusal>();
  node->message = message;
  node->set_next_edges(std::move(edges));
  torch::autograd::set_history(result, node);
}

void refuse_derivative(const Tensor& result, std::initializer_list<Tensor> inputs, std::string_view op,
                       std::string_view why) {
  torch::autograd::edge_list edges;
  for (const Tensor& input : inputs) {
    if (torch::autograd::compute_requires_grad(input)) edges.push_back(torch::autograd::impl::gradient_edge(input));
  }
  if (edges.empty()) return;
  refuse_derivative(result, std::move(edges), std::string(op) + ": no derivative: " + std::string(why));
}

void refuse_tangents(std::string_view op, std::initializer_list<Tensor> inputs, std::string_view why) {
  for (const Tensor& input : inputs) {
    TORCH_CHECK_NOT_IMPLEMENTED(!has_tangent(input), op, ": no tangent: ", why);
  }
}

void check_no_derivative_in_place(std::string_view op, std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    TORCH_CHECK(
        !torch::autograd::compute_requires_grad(tensor) && !has_tangent(tensor), op,
        " writes in place without recording a gradient or a tangent; call it under torch.no_grad(), outside of forward "
        "mode");
  }
}

bool has_tangent(const Tensor& tensor) { return tensor.defined() && tensor._fw_grad(0).defined(); }
bool has_tangent(const std::optional<Tensor>& tensor) { return tensor && has_tangent(*tensor); }

Tensor primal_of(const Tensor& tensor) { return has_tangent(tensor) ? tensor._fw_primal(0) : tensor; }
Tensor tangent_of(const Tensor& tensor) { return tensor._fw_grad(0); }

}  // namespace ridge::torch_frontend
