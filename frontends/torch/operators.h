// The functions behind torch.ops.ridgeline.*, and how they call each other: always through PyTorch's dispatcher, so
// that autograd, autocast, tracing and functionalisation see every call.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace ridge::torch_frontend {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using OptionalType = std::optional<at::ScalarType>;
using OptionalText = std::optional<std::string_view>;

// c = f(op(a) op(b) + bias) + residual. `main_grad` is where the gradient of b is added instead of being returned.
Tensor call_gemm(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                 const OptionalTensor& bias = {}, OptionalText activation = {}, const OptionalTensor& main_grad = {},
                 const OptionalTensor& residual = {});
// c += op(a) op(b)
void call_gemm_add(Tensor& c, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b);

// 8-bit codes and scales of a matrix and, with `column`, of its transpose; what is not asked for is empty.
using Quantized = std::tuple<Tensor, Tensor, Tensor, Tensor>;
Quantized call_quantize(const Tensor& x, at::ScalarType format, std::string_view granularity, std::string_view rule,
                        bool row, bool column, const OptionalTensor& random);

// One registration a file; library.cpp calls them.
void register_gemm(torch::Library& library, c10::DispatchKey key);
void register_quantize(torch::Library& library, c10::DispatchKey key);
void register_gemm_fp8(torch::Library& library, c10::DispatchKey key);
void define_control(torch::Library& library);

}  // namespace ridge::torch_frontend
