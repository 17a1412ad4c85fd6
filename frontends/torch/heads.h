// What the operators of attention ask of heads [batch, length, heads, dim], said of symbolic sizes, and their views.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "ridge/tensor.h"

namespace ridge::torch_frontend {

using at::Tensor;

// Four dimensions whose last one is adjacent in memory, and no two rows in one place.
void check_rows_of_heads(const Tensor& x, std::string_view op, std::string_view name);
// Batch, lengths and heads of k and v fit those of q; each has passed the check above.
void check_heads_of(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view op);
void check_scale(const std::optional<double>& scale, std::string_view op);
void check_window(std::int64_t left, std::int64_t right, std::string_view op);
// Of any strides.
TensorView strided_view(const Tensor& tensor, std::string_view op, std::string_view name);
// Nothing to multiply: there is no query, or no key that one could see.
inline bool is_empty(const Tensor& q, const Tensor& k) { return q.numel() == 0 || k.numel() == 0; }

}  // namespace ridge::torch_frontend
