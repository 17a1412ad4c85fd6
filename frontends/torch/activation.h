// What activation and activation_quantize ask of their tensors, and their arguments: activation.cpp and
// activation_quantize.cpp.
#pragma once

#include "ridge/ops/activation.h"

#include <string_view>

#include "operators.h"

namespace ridge::torch_frontend::activations {

struct Settings {
  ActivationFunction function = ActivationFunction::kSilu;
  bool packed = false;
  double alpha = 0, limit = 0;
};
// Errors begin with `op`, here and below.
Settings settings_of(std::string_view op, std::string_view function, bool packed, double alpha, double limit);

// The operands of a call beside a gradient.
struct Inputs {
  const Tensor& x;
  const OptionalTensor &up, &probs, &mask;
};
// Of symbolic sizes, for shape functions.
void check_inputs(std::string_view op, const Inputs& in, bool packed);
// All but the result.
ActivationArgs arguments_of(std::string_view op, const Inputs& in, const Settings& settings);

}  // namespace ridge::torch_frontend::activations
