// ridgeline::activation_quantize and ridgeline::activation_quantize_backward.
#include "ridge/ops/activation_quantize.h"

#include "activation.h"
#include "codes.h"
#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/activation_quantize_backward.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

using activations::Inputs;
constexpr std::string_view kOp = "activation_quantize", kBackward = "activation_quantize_backward";

// What follows the operands of a call, as a schema has it.
struct Words {
  std::string_view function;
  bool packed;
  double alpha, limit;
  at::ScalarType format;
  std::string_view granularity, rule;
  bool row, column;
};

codes::Coding check_call(std::string_view op, const Inputs& in, const OptionalTensor& random, const Words& words) {
  activations::settings_of(op, words.function, words.packed, words.alpha, words.limit);
  codes::check_matrix(in.x, op, "the input");
  activations::check_inputs(op, in, words.packed);
  return codes::coding_of(op, words.format, words.granularity, words.rule, words.row, words.column, random);
}

Quantized activation_quantize_meta(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs,
                                   const OptionalTensor& mask, std::string_view function, bool packed, double alpha,
                                   double limit, at::ScalarType format, std::string_view granularity,
                                   std::string_view rule, bool row, bool column, const OptionalTensor& random) {
  const codes::Coding coding = check_call(kOp, {x, up, probs, mask}, random,
                                          {function, packed, alpha, limit, format, granularity, rule, row, column});
  return codes::empty_outputs(x, x.sym_size(0), packed ? x.sym_size(1) / 2 : x.sym_size(1), coding);
}

Quantized activation_quantize(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs,
                              const OptionalTensor& mask, std::string_view function, bool packed, double alpha,
                              double limit, at::ScalarType format, std::string_view granularity, std::string_view rule,
                              bool row, bool column, const OptionalTensor& random) {
  check_same_device(kOp, {{"the input", &x}, {"up", &up}, {"probs", &probs}, {"mask", &mask}, {"random", &random}});
  const Inputs in{x, up, probs, mask};
  const codes::Coding coding =
      check_call(kOp, in, random, {function, packed, alpha, limit, format, granularity, rule, row, column});
  const OnDeviceOf on_device(x);
  Quantized out = codes::allocated_outputs(x, x.size(0), packed ? x.size(1) / 2 : x.size(1), coding);
  ActivationQuantizeArgs args;
  args.forward = activations::arguments_of(kOp, in, activations::settings_of(kOp, function, packed, alpha, limit));
  codes::give(args, coding, out, kOp);
  check(ridge::activation_quantize(args, stream_of(x)));
  return out;
}

Quantized dispatch(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs, const OptionalTensor& mask,
                   std::string_view function, bool packed, double alpha, double limit, at::ScalarType format,
                   std::string_view granularity, std::string_view rule, bool row, bool column,
                   const OptionalTensor& random) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::activation_quantize", "").typed<decltype(dispatch)>();
  return op.call(x, up, probs, mask, function, packed, alpha, limit, format, granularity, rule, row, column, random);
}

// ridgeline.torch.activation_quantize hands gradients on to the inputs.
Quantized activation_quantize_autograd(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs,
                                       const OptionalTensor& mask, std::string_view function, bool packed, double alpha,
                                       double limit, at::ScalarType format, std::string_view granularity,
                                       std::string_view rule, bool row, bool column, const OptionalTensor& random) {
  return without_derivative(kOp, {x, up.value_or(Tensor()), probs.value_or(Tensor())}, [&] {
    return dispatch(x, up, probs, mask, function, packed, alpha, limit, format, granularity, rule, row, column, random);
  });
}

// Both gradients side by side; without a gate that of x.
c10::SymInt gradient_columns(const Inputs& in) { return given(in.up) ? in.x.sym_size(1) * 2 : in.x.sym_size(1); }

codes::Coding check_backward(const Tensor& dy, const Inputs& in, const OptionalTensor& random, const Words& words) {
  const codes::Coding coding = check_call(kBackward, in, random, words);
  const c10::SymInt columns = words.packed ? in.x.sym_size(1) / 2 : in.x.sym_size(1);
  check_like(dy, kBackward, "the gradient", {in.x.sym_size(0), columns}, in.x.scalar_type());
  check_rows(dy, kBackward, "the gradient");
  return coding;
}

Quantized activation_quantize_backward_meta(const Tensor& dy, const Tensor& x, const OptionalTensor& up,
                                            const OptionalTensor& probs, const OptionalTensor& mask,
                                            std::string_view function, bool packed, double alpha, double limit,
                                            at::ScalarType format, std::string_view granularity, std::string_view rule,
                                            bool row, bool column, const OptionalTensor& random) {
  const Inputs in{x, up, probs, mask};
  const codes::Coding coding =
      check_backward(dy, in, random, {function, packed, alpha, limit, format, granularity, rule, row, column});
  return codes::empty_outputs(x, x.sym_size(0), gradient_columns(in), coding);
}

Quantized activation_quantize_backward(const Tensor& dy, const Tensor& x, const OptionalTensor& up,
                                       const OptionalTensor& probs, const OptionalTensor& mask,
                                       std::string_view function, bool packed, double alpha, double limit,
                                       at::ScalarType format, std::string_view granularity, std::string_view rule,
                                       bool row, bool column, const OptionalTensor& random) {
  check_same_device(
      kBackward,
      {{"the input", &x}, {"the gradient", &dy}, {"up", &up}, {"probs", &probs}, {"mask", &mask}, {"random", &random}});
  const Inputs in{x, up, probs, mask};
  const codes::Coding coding =
      check_backward(dy, in, random, {function, packed, alpha, limit, format, granularity, rule, row, column});
  const OnDeviceOf on_device(x);
  Quantized out = codes::allocated_outputs(x, x.size(0), gradient_columns(in).expect_int(), coding);
  ActivationQuantizeBackwardArgs args;
  args.dy = rows_view(dy, kBackward, "the gradient");
  args.forward =
      activations::arguments_of(kBackward, in, activations::settings_of(kBackward, function, packed, alpha, limit));
  codes::give(args, coding, out, kBackward);
  check(ridge::activation_quantize_backward(args, stream_of(x)));
  return out;
}

Quantized dispatch_backward(const Tensor& dy, const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs,
                            const OptionalTensor& mask, std::string_view function, bool packed, double alpha,
                            double limit, at::ScalarType format, std::string_view granularity, std::string_view rule,
                            bool row, bool column, const OptionalTensor& random) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::activation_quantize_backward", "")
                             .typed<decltype(dispatch_backward)>();
  return op.call(dy, x, up, probs, mask, function, packed, alpha, limit, format, granularity, rule, row, column,
                 random);
}

Quantized activation_quantize_backward_autograd(const Tensor& dy, const Tensor& x, const OptionalTensor& up,
                                                const OptionalTensor& probs, const OptionalTensor& mask,
                                                std::string_view function, bool packed, double alpha, double limit,
                                                at::ScalarType format, std::string_view granularity,
                                                std::string_view rule, bool row, bool column,
                                                const OptionalTensor& random) {
  return without_derivative(kBackward, {dy, x, up.value_or(Tensor()), probs.value_or(Tensor())}, [&] {
    return dispatch_backward(dy, x, up, probs, mask, function, packed, alpha, limit, format, granularity, rule, row,
                             column, random);
  });
}

}  // namespace

void register_activation_quantize(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("activation_quantize", activation_quantize);
      library.impl("activation_quantize_backward", activation_quantize_backward);
      return;
    case c10::DispatchKey::Meta:
      library.impl("activation_quantize", activation_quantize_meta);
      library.impl("activation_quantize_backward", activation_quantize_backward_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("activation_quantize", activation_quantize_autograd);
      library.impl("activation_quantize_backward", activation_quantize_backward_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
