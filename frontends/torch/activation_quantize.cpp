// ridgeline::activation_quantize.
#include "ridge/ops/activation_quantize.h"

#include "activation.h"
#include "codes.h"
#include "convert.h"
#include "derivative.h"
#include "operators.h"

namespace ridge::torch_frontend {
namespace {

using activations::Inputs;
constexpr std::string_view kOp = "activation_quantize";

// What follows the operands of a call, as a schema has it.
struct Words {
  std::string_view function;
  bool packed;
  double alpha, limit;
  at::ScalarType format;
  std::string_view granularity, rule;
  bool row, column;
};

codes::Coding check_call(const Inputs& in, const OptionalTensor& random, const Words& words) {
  activations::settings_of(kOp, words.function, words.packed, words.alpha, words.limit);
  codes::check_matrix(in.x, kOp, "the input");
  activations::check_inputs(kOp, in, words.packed);
  return codes::coding_of(kOp, words.format, words.granularity, words.rule, words.row, words.column, random);
}

Quantized activation_quantize_meta(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs,
                                   const OptionalTensor& mask, std::string_view function, bool packed, double alpha,
                                   double limit, at::ScalarType format, std::string_view granularity,
                                   std::string_view rule, bool row, bool column, const OptionalTensor& random) {
  const codes::Coding coding = check_call({x, up, probs, mask}, random,
                                          {function, packed, alpha, limit, format, granularity, rule, row, column});
  return codes::empty_outputs(x, x.sym_size(0), packed ? x.sym_size(1) / 2 : x.sym_size(1), coding);
}

Quantized activation_quantize(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs,
                              const OptionalTensor& mask, std::string_view function, bool packed, double alpha,
                              double limit, at::ScalarType format, std::string_view granularity, std::string_view rule,
                              bool row, bool column, const OptionalTensor& random) {
  const auto at = [](const OptionalTensor& tensor) { return tensor ? &*tensor : nullptr; };
  check_same_device(
      kOp, {{"the input", &x}, {"up", at(up)}, {"probs", at(probs)}, {"mask", at(mask)}, {"random", at(random)}});
  const Inputs in{x, up, probs, mask};
  const codes::Coding coding =
      check_call(in, random, {function, packed, alpha, limit, format, granularity, rule, row, column});
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

}  // namespace

void register_activation_quantize(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA: library.impl("activation_quantize", activation_quantize); return;
    case c10::DispatchKey::Meta: library.impl("activation_quantize", activation_quantize_meta); return;
    case c10::DispatchKey::Autograd: library.impl("activation_quantize", activation_quantize_autograd); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
