// What the norms of rows ask of their tensors, and the views of these: rmsnorm.cpp and layernorm.cpp.
#pragma once

#include <string_view>

#include "operators.h"
#include "ridge/tensor.h"

namespace ridge::torch_frontend::norms {

// Of symbolic sizes, for shape functions; errors begin with `op`.
void check_eps(double eps, std::string_view op);
void check_input(const Tensor& x, std::string_view op);
void check_weight(const OptionalTensor& weight, const Tensor& x, bool zero_centred, std::string_view op);
// One number for each column, contiguous.
void check_columns(const Tensor& vector, const Tensor& x, at::ScalarType type, std::string_view op,
                   std::string_view name);
// Of x's shape and dtype.
void check_same_rows(const Tensor& other, const Tensor& x, std::string_view op, std::string_view name);
// One number for each row.
void check_statistic(const Tensor& statistic, const Tensor& x, std::string_view op, std::string_view name);

Tensor empty_rows(const Tensor& x);
Tensor empty_statistic(const Tensor& x);
// Of no elements: a gradient that is not wanted.
Tensor nothing(const Tensor& like);

TensorView statistic_view(const Tensor& statistic, std::string_view op, std::string_view name);
// Of rank 0 where there is none.
TensorView columns_view(const OptionalTensor& vector, std::string_view op, std::string_view name);

// In which PyTorch's own operators compute: float32, of float64 that.
at::ScalarType wide_type(const Tensor& x);
// x times the weight as a norm uses it, both of the wide type.
Tensor weighted(const Tensor& x, const OptionalTensor& weight, bool zero_centred);

// A gradient that arrives at rows like x: zeros where none does.
Tensor rows_of_gradient(const Tensor& grad, const Tensor& x);

}  // namespace ridge::torch_frontend::norms
