// What ridgeline::rope and ridgeline::rope_norm share: the table and where in it the tokens are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "operators.h"
#include "ridge/tensor.h"

namespace ridge::torch_frontend::turning {

// What a call reads beside q and k.
struct Angles {
  const Tensor &cos, &sin;
  const OptionalTensor& positions;
  std::int64_t offset = 0;
  bool interleaved = false, inverse = false;
};

// What a call asks of its tensors, of symbolic sizes.
void check_inputs(std::string_view op, const Tensor& q, const OptionalTensor& k, const Angles& angles);
// In the table: of tensors that can be read.
void check_positions(std::string_view op, const Angles& angles);

// By PyTorch's own operators: float64 (gradient checks) and tangents.
Tensor turned_by_torch(const Tensor& x, const Angles& angles);

TensorView strided_view(const Tensor& tensor, std::string_view op, std::string_view name);
// Expanded gradients have no rows of their own.
Tensor rows_of(const Tensor& gradient);

}  // namespace ridge::torch_frontend::turning
