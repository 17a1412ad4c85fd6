// ridgeline::quantize, ridgeline::quantize_by and ridgeline::dequantize.
#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cmath>

#include "codes.h"
#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/dequantize.h"
#include "ridge/ops/quantize.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

codes::Coding check_quantize(const Tensor& x, at::ScalarType format, std::string_view granularity,
                             std::string_view rule, bool row, bool column, const OptionalTensor& random) {
  codes::check_matrix(x, "quantize", "x");
  const codes::Coding coding = codes::coding_of("quantize", format, granularity, rule, row, column, random);
  check_strides(x, "quantize", "x", false);
  return coding;
}

Quantized quantize_meta(const Tensor& x, at::ScalarType format, std::string_view granularity, std::string_view rule,
                        bool row, bool column, const OptionalTensor& random) {
  const codes::Coding coding = check_quantize(x, format, granularity, rule, row, column, random);
  return codes::empty_outputs(x, x.sym_size(0), x.sym_size(1), coding);
}

Quantized quantize(const Tensor& x, at::ScalarType format, std::string_view granularity, std::string_view rule,
                   bool row, bool column, const OptionalTensor& random) {
  check_same_device("quantize", {{"x", &x}, {"random", &random}});
  const codes::Coding coding = check_quantize(x, format, granularity, rule, row, column, random);
  const OnDeviceOf on_device(x);
  Quantized out = codes::allocated_outputs(x, x.size(0), x.size(1), coding);
  QuantizeArgs args;
  args.x = row_major_view(x, "quantize", "x");
  codes::give(args, coding, out, "quantize");
  check(ridge::quantize(args, stream_of(x)));
  return out;
}

void check_magnitude(const Tensor& tensor, std::string_view name) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == at::kFloat && same(tensor.sym_numel(), 1), "quantize_by: ", name, " is ",
                   type_of(tensor), " of shape ", tensor.sym_sizes(),
                   "; give one element of torch.float32, the largest magnitude");
}

Quantized quantize_by_meta(const Tensor& x, const Tensor& amax, const OptionalTensor& found, at::ScalarType format,
                           std::string_view rule, bool row, bool column) {
  check_magnitude(amax, "amax");
  if (given(found)) check_magnitude(*found, "found");
  return quantize_meta(x, format, "tensor", rule, row, column, {});
}

// One pass over x: `amax` makes the scale (0: x's own does), and `found` becomes the larger of what it was and of x's
// own largest magnitude, unless x holds an infinity or NaN. Nothing waits for a GPU.
Quantized quantize_by(const Tensor& x, const Tensor& amax, const OptionalTensor& found, at::ScalarType format,
                      std::string_view rule, bool row, bool column) {
  check_same_device("quantize_by", {{"x", &x}, {"amax", &amax}, {"found", &found}});
  Quantized out = quantize_by_meta(x, amax, found, format, rule, row, column);
  const codes::Coding coding = codes::coding_of("quantize_by", format, "tensor", rule, row, column, {});
  const OnDeviceOf on_device(x);
  float own = 0;
  Tensor own_on_gpu;
  if (!x.is_cpu()) own_on_gpu = at::empty({1}, amax.options());
  QuantizeArgs args;
  args.x = row_major_view(x, "quantize_by", "x");
  args.amax = amax.const_data_ptr<float>();
  args.found = x.is_cpu() ? &own : own_on_gpu.data_ptr<float>();
  codes::give(args, coding, out, "quantize_by");
  check(ridge::quantize(args, stream_of(x)));
  if (!given(found)) return out;
  if (x.is_cpu()) {
    float& most = *found->data_ptr<float>();
    if (std::isfinite(own)) most = std::max(most, own);
    return out;
  }
  at::nan_to_num_(own_on_gpu, 0.0, 0.0, 0.0);
  Tensor most = found->view({1});
  at::maximum_out(most, most, own_on_gpu);
  return out;
}

Quantized dispatch_quantize_by(const Tensor& x, const Tensor& amax, const OptionalTensor& found, at::ScalarType format,
                               std::string_view rule, bool row, bool column) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::quantize_by", "").typed<decltype(quantize_by)>();
  return op.call(x, amax, found, format, rule, row, column);
}

Quantized quantize_by_autograd(const Tensor& x, const Tensor& amax, const OptionalTensor& found, at::ScalarType format,
                               std::string_view rule, bool row, bool column) {
  if (given(found)) check_no_derivative_in_place("quantize_by", {*found});
  Quantized out = without_derivative("quantize_by", {x},
                                     [&] { return dispatch_quantize_by(x, amax, found, format, rule, row, column); });
  if (given(found) && !found->is_inference()) found->unsafeGetTensorImpl()->bump_version();
  return out;
}

Tensor dequantize_meta(const Tensor& q, const Tensor& scale, std::string_view granularity, at::ScalarType out_dtype) {
  TORCH_CHECK_VALUE(q.dim() == 2, "dequantize: q has ", q.dim(), " dimensions; give a matrix");
  TORCH_CHECK_VALUE(q.scalar_type() == at::kFloat8_e4m3fn || q.scalar_type() == at::kFloat8_e5m2, "dequantize: q is ",
                    type_of(q), "; give torch.float8_e4m3fn or torch.float8_e5m2");
  check_strides(q, "dequantize", "q", false);
  check_scales(scale, "dequantize", "scale", codes::granularity_of("dequantize", granularity), q.sym_size(0),
               q.sym_size(1));
  check_result_type(out_dtype, "dequantize", {at::kFloat, at::kBFloat16, at::kHalf});
  return at::empty_symint(q.sym_sizes(), q.options().dtype(out_dtype));
}

Tensor dequantize(const Tensor& q, const Tensor& scale, std::string_view granularity, at::ScalarType out_dtype) {
  check_same_device("dequantize", {{"q", &q}, {"scale", &scale}});
  Tensor y = dequantize_meta(q, scale, granularity, out_dtype);
  const OnDeviceOf on_device(q);
  DequantizeArgs args;
  args.q = row_major_view(q, "dequantize", "q");
  args.scale = dense_view(scale, "dequantize", "scale");
  args.y = row_major_view(y, "dequantize", "the result");
  args.granularity = codes::granularity_of("dequantize", granularity);
  check(ridge::dequantize(args, stream_of(q)));
  return y;
}

Tensor call_dequantize(const Tensor& q, const Tensor& scale, std::string_view granularity, at::ScalarType out_dtype) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::dequantize", "").typed<decltype(call_dequantize)>();
  return op.call(q, scale, granularity, out_dtype);
}

// Codes and what they stand for have no gradient of their own; gemm_fp8 and ridgeline.torch.quantize pass gradients
// past them.
Quantized quantize_autograd(const Tensor& x, at::ScalarType format, std::string_view granularity, std::string_view rule,
                            bool row, bool column, const OptionalTensor& random) {
  return without_derivative("quantize", {x},
                            [&] { return call_quantize(x, format, granularity, rule, row, column, random); });
}

Tensor dequantize_autograd(const Tensor& q, const Tensor& scale, std::string_view granularity,
                           at::ScalarType out_dtype) {
  return without_derivative("dequantize", {q, scale},
                            [&] { return call_dequantize(q, scale, granularity, out_dtype); });
}

}  // namespace

Quantized call_quantize(const Tensor& x, at::ScalarType format, std::string_view granularity, std::string_view rule,
                        bool row, bool column, const OptionalTensor& random) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::quantize", "").typed<decltype(call_quantize)>();
  return op.call(x, format, granularity, rule, row, column, random);
}

void register_quantize(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("quantize", quantize);
      library.impl("quantize_by", quantize_by);
      library.impl("dequantize", dequantize);
      return;
    case c10::DispatchKey::Meta:
      library.impl("quantize", quantize_meta);
      library.impl("quantize_by", quantize_by_meta);
      library.impl("dequantize", dequantize_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("quantize", quantize_autograd);
      library.impl("quantize_by", quantize_by_autograd);
      library.impl("dequantize", dequantize_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
