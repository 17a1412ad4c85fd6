// ridgeline::quantize, ridgeline::quantize_by and ridgeline::dequantize.
#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cmath>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/dequantize.h"
#include "ridge/ops/quantize.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

template <class Value, std::size_t kCount>
Value named(const std::pair<std::string_view, Value> (&known)[kCount], std::string_view name, const char* what) {
  for (const auto& [text, value] : known) {
    if (name == text) return value;
  }
  std::string all;
  for (const auto& one : known) all += (all.empty() ? "" : ", ") + std::string(one.first);
  TORCH_CHECK_VALUE(false, "quantize: ", what, " \"", name, "\" is unknown; use one of ", all);
}

Granularity granularity_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Granularity> kNames[] = {{"tensor", Granularity::kTensor},
                                                                        {"row", Granularity::kRow},
                                                                        {"1x128", Granularity::kVector},
                                                                        {"128x128", Granularity::kBlock},
                                                                        {"mx", Granularity::kMx}};
  return named(kNames, name, "granularity");
}

ScaleRule rule_of(std::string_view name) {
  static constexpr std::pair<std::string_view, ScaleRule> kNames[] = {{"exact", ScaleRule::kExact},
                                                                      {"floor", ScaleRule::kFloor},
                                                                      {"even", ScaleRule::kEven},
                                                                      {"ceil", ScaleRule::kCeil}};
  return named(kNames, name, "rule");
}

// The outputs, empty where a copy is not wanted, by `make(sizes, type)`.
template <class Make>
Quantized outputs_of(const Tensor& x, at::ScalarType format, Granularity granularity, bool row, bool column,
                     const Make& make) {
  const c10::SymInt rows = x.sym_size(0), cols = x.sym_size(1), plain[] = {rows, cols}, turned[] = {cols, rows};
  const c10::SymInt none[] = {0};
  const auto codes = [&](bool wanted, c10::SymIntArrayRef sizes) { return make(wanted ? sizes : none, format); };
  const auto scales = [&](bool wanted, c10::SymIntArrayRef sizes) {
    if (!wanted) return make(none, at::kFloat);
    return make(scale_sizes(granularity, sizes[0], sizes[1]), scale_type(granularity));
  };
  return {codes(row, plain), scales(row, plain), codes(column, turned), scales(column, turned)};
}

void check_words(const OptionalTensor& random) {
  if (!random || !random->defined()) return;
  const auto type = random->scalar_type();
  TORCH_CHECK_TYPE(
      (type == at::kLong || type == at::kUInt64) && same(random->sym_numel(), 2), "quantize: random is ",
      type_of(*random), " of shape ", random->sym_sizes(),
      "; give two 64-bit words, seed and offset: torch.tensor([seed, offset], dtype=torch.int64), or uint64");
  TORCH_CHECK_VALUE(random->is_contiguous(),
                    "quantize: random has words that are not adjacent; call .contiguous() on it first");
}

void check_quantize(const Tensor& x, at::ScalarType format, std::string_view granularity, std::string_view rule,
                    bool row, bool column, const OptionalTensor& random) {
  TORCH_CHECK_TYPE(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf,
                   "quantize: x is ", type_of(x), "; give torch.float32, torch.bfloat16 or torch.float16");
  TORCH_CHECK_TYPE(format == at::kFloat8_e4m3fn || format == at::kFloat8_e5m2, "quantize: format is ", name_of(format),
                   "; use torch.float8_e4m3fn or torch.float8_e5m2");
  TORCH_CHECK_VALUE(row || column, "quantize: neither row nor column is asked for; set one of them, or both");
  const Granularity shared = granularity_of(granularity);
  TORCH_CHECK_VALUE(rule_of(rule) != ScaleRule::kExact || shared != Granularity::kMx,
                    "quantize: mx scales are powers of two; use rule floor, even or ceil");
  check_words(random);
  TORCH_CHECK_VALUE(x.dim() == 2, "quantize: x has ", x.dim(),
                    " dimensions; give a matrix, for instance x.flatten(0, -2)");
  check_strides(x, "quantize", "x", false);
}

Quantized quantize_meta(const Tensor& x, at::ScalarType format, std::string_view granularity, std::string_view rule,
                        bool row, bool column, const OptionalTensor& random) {
  check_quantize(x, format, granularity, rule, row, column, random);
  return outputs_of(
      x, format, granularity_of(granularity), row, column,
      [&](c10::SymIntArrayRef sizes, at::ScalarType type) { return at::empty_symint(sizes, x.options().dtype(type)); });
}

Quantized allocated_outputs(const Tensor& x, at::ScalarType format, std::string_view granularity, bool row,
                            bool column) {
  return outputs_of(x, format, granularity_of(granularity), row, column,
                    [&](c10::SymIntArrayRef sizes, at::ScalarType type) {
                      return allocated(x, C10_AS_INTARRAYREF_SLOW(sizes), type);
                    });
}

Quantized quantize(const Tensor& x, at::ScalarType format, std::string_view granularity, std::string_view rule,
                   bool row, bool column, const OptionalTensor& random) {
  check_same_device("quantize", {{"x", &x}, {"random", random ? &*random : nullptr}});
  check_quantize(x, format, granularity, rule, row, column, random);
  const OnDeviceOf on_device(x);
  Quantized out = allocated_outputs(x, format, granularity, row, column);
  QuantizeArgs args;
  args.x = row_major_view(x, "quantize", "x");
  args.granularity = granularity_of(granularity);
  args.rule = rule_of(rule);
  if (random && random->defined()) args.random = static_cast<const std::uint64_t*>(random->const_data_ptr());
  if (row) {
    args.q = row_major_view(std::get<0>(out), "quantize", "q");
    args.scale = dense_view(std::get<1>(out), "quantize", "scale");
  }
  if (column) {
    args.q_t = row_major_view(std::get<2>(out), "quantize", "q_t");
    args.scale_t = dense_view(std::get<3>(out), "quantize", "scale_t");
  }
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
  check_same_device("quantize_by", {{"x", &x}, {"amax", &amax}, {"found", found ? &*found : nullptr}});
  Quantized out = quantize_by_meta(x, amax, found, format, rule, row, column);
  const OnDeviceOf on_device(x);
  float own = 0;
  Tensor own_on_gpu;
  if (!x.is_cpu()) own_on_gpu = at::empty({1}, amax.options());
  QuantizeArgs args;
  args.x = row_major_view(x, "quantize_by", "x");
  args.granularity = Granularity::kTensor;
  args.rule = rule_of(rule);
  args.amax = amax.const_data_ptr<float>();
  args.found = x.is_cpu() ? &own : own_on_gpu.data_ptr<float>();
  if (row) {
    args.q = row_major_view(std::get<0>(out), "quantize_by", "q");
    args.scale = dense_view(std::get<1>(out), "quantize_by", "scale");
  }
  if (column) {
    args.q_t = row_major_view(std::get<2>(out), "quantize_by", "q_t");
    args.scale_t = dense_view(std::get<3>(out), "quantize_by", "scale_t");
  }
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
  check_scales(scale, "dequantize", "scale", granularity_of(granularity), q.sym_size(0), q.sym_size(1));
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
  args.granularity = granularity_of(granularity);
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
