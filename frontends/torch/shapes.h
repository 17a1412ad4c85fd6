// What the operators ask of shapes, dtypes and strides, said of symbolic sizes: for shape functions, so that a trace
// fails where the call is made. The kernels ask the same of what they are given (src/ops/*/op.cpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <vector>

#include "ridge/scaling.h"

namespace ridge::torch_frontend {

using at::Tensor;

// Whether two sizes are equal; recorded as an assumption of the trace where one is unknown.
bool same(const c10::SymInt& a, const c10::SymInt& b);

// ValueError unless the elements of a row are adjacent, rows do not overlap and matrices of a batch do not; with
// `or_columns` the same of columns will do.
void check_strides(const Tensor& tensor, std::string_view op, std::string_view name, bool or_columns);
// Of a stack of matrices, whose rows may lie between those of others.
void check_stack_strides(const Tensor& tensor, std::string_view op, std::string_view name);
// The same of [..., columns]; with other dimensions than two it has to be contiguous.
void check_rows(const Tensor& tensor, std::string_view op, std::string_view name);
// ValueError unless the tensor has these sizes and this dtype.
void check_like(const Tensor& tensor, std::string_view op, std::string_view name, c10::SymIntArrayRef sizes,
                at::ScalarType dtype);
// Rows that an operand stands for where an index finds them.
c10::SymInt rows_by_index(const Tensor& operand, const std::optional<Tensor>& index);
// Of an index that finds rows, [rows], or [rows, 1] as expert_order() makes it: TypeError unless it is torch.int32,
// ValueError for another shape or gaps.
void check_index(const Tensor& index, std::string_view op, std::string_view name);
// ValueError unless bias is a contiguous vector, one number for each of n columns, of the result's dtype.
void check_bias(const Tensor& bias, std::string_view op, const c10::SymInt& n, at::ScalarType type);
// ValueError unless main_grad has the shape of b and is b's dtype or float32.
void check_main_grad(const Tensor& main_grad, const Tensor& b, std::string_view op);
// TypeError for a dtype that no operator knows, ValueError for one that is not among `allowed`.
void check_result_type(at::ScalarType type, std::string_view op, std::initializer_list<at::ScalarType> allowed);

// ridge/scaling.h, of a matrix [rows, cols] with the scales along its columns.
std::vector<c10::SymInt> scale_sizes(Granularity granularity, const c10::SymInt& rows, const c10::SymInt& cols);
at::ScalarType scale_type(Granularity granularity);
void check_scales(const Tensor& scale, std::string_view op, std::string_view name, Granularity granularity,
                  const c10::SymInt& rows, const c10::SymInt& cols);

}  // namespace ridge::torch_frontend
