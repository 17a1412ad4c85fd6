// ridgeline::adamw_: a step of AdamW for a list of parameters.
#include "ridge/ops/adamw.h"

#include <span>
#include <string>
#include <vector>

#include "convert.h"
#include "derivative.h"
#include "numbers.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

using at::TensorList;

constexpr std::string_view kOp = "adamw_";

// What a call changes; masters is as long as params, or empty.
struct Lists {
  TensorList params, grads, means, squares, masters;
};

void check_length(const Lists& lists, TensorList list, std::string_view name) {
  TORCH_CHECK_VALUE(list.size() == lists.params.size(), kOp, ": ", name, " holds ", list.size(), " tensors for ",
                    lists.params.size(), " parameters; give one for each");
}

// All of a parameter lie in memory in one order, so that they can be walked together whatever it is.
void check_together(const Tensor& tensor, const Tensor& param, at::ScalarType type, std::string_view name,
                    std::size_t i) {
  check_like(tensor, kOp, c10::str(name, " ", i), param.sym_sizes(), type);
  TORCH_CHECK_VALUE(tensor.sym_strides() == param.sym_strides(), kOp, ": ", name, " ", i, " has strides ",
                    tensor.sym_strides(), ", its parameter ", param.sym_strides(), "; make it by torch.empty_like");
}

void check_lists(const Lists& lists) {
  check_length(lists, lists.grads, "grads");
  check_length(lists, lists.means, "exp_avgs");
  check_length(lists, lists.squares, "exp_avg_sqs");
  if (!lists.masters.empty()) check_length(lists, lists.masters, "masters");
  for (std::size_t i = 0; i < lists.params.size(); ++i) {
    const Tensor& param = lists.params[i];
    const at::ScalarType type = param.scalar_type(), state = lists.means[i].scalar_type();
    TORCH_CHECK_TYPE(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, kOp, ": parameter ", i, " is ",
                     type_of(param), "; give torch.float32, torch.bfloat16 or torch.float16");
    TORCH_CHECK_TYPE(state == at::kFloat || state == at::kBFloat16, kOp, ": exp_avg ", i, " is ",
                     type_of(lists.means[i]), "; give torch.float32 or torch.bfloat16");
    TORCH_CHECK_VALUE(param.is_non_overlapping_and_dense(), kOp, ": parameter ", i, " has strides ",
                      param.sym_strides(), " that leave gaps; call .contiguous() on it first");
    const bool wide = lists.grads[i].scalar_type() == at::kFloat;
    check_together(lists.grads[i], param, wide ? at::kFloat : type, "gradient", i);
    check_together(lists.means[i], param, state, "exp_avg", i);
    check_together(lists.squares[i], param, state, "exp_avg_sq", i);
    if (!lists.masters.empty()) check_together(lists.masters[i], param, at::kFloat, "master", i);
  }
}

// A dense tensor in the order of its memory.
TensorView flat(const Tensor& tensor) {
  return TensorView::contiguous(tensor.data_ptr(), dtype_of(tensor, kOp, "a tensor"), {tensor.numel()});
}

void adamw_meta(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList masters,
                const OptionalTensor& factor, const OptionalTensor& skip, double, double, double, double, double,
                double, bool) {
  check_lists({params, grads, exp_avgs, exp_avg_sqs, masters});
  check_number(factor, kOp, "factor");
  check_number(skip, kOp, "skip");
}

void adamw(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList masters,
           const OptionalTensor& factor, const OptionalTensor& skip, double lr, double beta1, double beta2, double eps,
           double weight_decay, double step, bool maximize) {
  adamw_meta(params, grads, exp_avgs, exp_avg_sqs, masters, factor, skip, lr, beta1, beta2, eps, weight_decay, step,
             maximize);
  AdamwArgs args;
  args.factor = number_view(factor);
  args.skip = number_view(skip);
  args.maximize = maximize;
  args.lr = lr, args.beta1 = beta1, args.beta2 = beta2, args.eps = eps;
  args.weight_decay = weight_decay;
  args.step = step;
  std::vector<AdamwArgs> steps(params.size(), args);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor* const master = masters.empty() ? nullptr : &masters[i];
    check_same_device(kOp, {{"the parameter", &params[i]},
                            {"the gradient", &grads[i]},
                            {"exp_avg", &exp_avgs[i]},
                            {"exp_avg_sq", &exp_avg_sqs[i]},
                            {"master", master},
                            {"factor", &factor},
                            {"skip", &skip}});
    steps[i].param = flat(params[i]);
    steps[i].grad = flat(grads[i]);
    steps[i].exp_avg = flat(exp_avgs[i]);
    steps[i].exp_avg_sq = flat(exp_avg_sqs[i]);
    if (master != nullptr) steps[i].master = flat(*master);
  }
  for (std::size_t first = 0, end = 0; first < steps.size(); first = end) {
    while (end < steps.size() && params[end].device() == params[first].device()) ++end;
    const OnDeviceOf on_device(params[first]);
    check(ridge::adamw(std::span(steps).subspan(first, end - first), stream_of(params[first])));
  }
}

void call_adamw(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList masters,
                const OptionalTensor& factor, const OptionalTensor& skip, double lr, double beta1, double beta2,
                double eps, double weight_decay, double step, bool maximize) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::adamw_", "").typed<decltype(call_adamw)>();
  op.call(params, grads, exp_avgs, exp_avg_sqs, masters, factor, skip, lr, beta1, beta2, eps, weight_decay, step,
          maximize);
}

void adamw_autograd(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                    TensorList masters, const OptionalTensor& factor, const OptionalTensor& skip, double lr,
                    double beta1, double beta2, double eps, double weight_decay, double step, bool maximize) {
  for (const TensorList list : {params, grads, exp_avgs, exp_avg_sqs, masters}) {
    for (const Tensor& tensor : list) check_no_derivative_in_place(kOp, {tensor});
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_adamw(params, grads, exp_avgs, exp_avg_sqs, masters, factor, skip, lr, beta1, beta2, eps, weight_decay, step,
               maximize);
  }
  for (const TensorList list : {params, exp_avgs, exp_avg_sqs, masters}) {
    for (const Tensor& tensor : list) {
      if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    }
  }
}

}  // namespace

void register_adamw(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA: library.impl("adamw_", adamw); return;
    case c10::DispatchKey::Meta: library.impl("adamw_", adamw_meta); return;
    case c10::DispatchKey::Autograd: library.impl("adamw_", adamw_autograd); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
