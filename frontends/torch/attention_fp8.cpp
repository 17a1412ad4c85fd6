// ridgeline::attention_fp8: attention of 8-bit codes [batch, length, heads, dim] with a scale for each head.
#include "ridge/ops/attention_fp8.h"

#include <ATen/Functions.h>

#include <limits>

#include "convert.h"
#include "derivative.h"
#include "heads.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "attention_fp8";

struct Codes {
  const Tensor &q, &k, &v, &q_scale, &k_scale, &v_scale;
};

struct Setting {
  bool causal = false;
  std::optional<double> scale;
  std::int64_t window_left = -1, window_right = -1;
};

void check_codes(const Codes& c, const Setting& setting, at::ScalarType out_dtype) {
  check_scale(setting.scale, kOp);
  check_window(setting.window_left, setting.window_right, kOp);
  check_result_type(out_dtype, kOp, {at::kBFloat16, at::kHalf});
  for (const auto& [x, name] : {std::pair{&c.q, "q"}, {&c.k, "k"}, {&c.v, "v"}}) {
    TORCH_CHECK_TYPE(x->scalar_type() == at::kFloat8_e4m3fn, kOp, ": ", name, " is ", type_of(*x),
                     "; give torch.float8_e4m3fn (quantize_heads makes it), or call attention");
    check_rows_of_heads(*x, kOp, name);
  }
  check_heads_of(c.q, c.k, c.v, kOp);
  const std::tuple<const Tensor*, std::string_view, const Tensor*> scales[] = {
      {&c.q_scale, "q_scale", &c.q}, {&c.k_scale, "k_scale", &c.k}, {&c.v_scale, "v_scale", &c.v}};
  for (const auto& [scale, name, of] : scales) {
    check_like(*scale, kOp, name, {of->sym_size(0), of->sym_size(2)}, at::kFloat);
    TORCH_CHECK_VALUE(scale->is_contiguous(), kOp, ": ", name, " is not contiguous; call .contiguous() on it first");
  }
}

AttentionAndSum meta(const Codes& c, const Setting& setting, at::ScalarType out_dtype) {
  check_codes(c, setting, out_dtype);
  c10::SymDimVector sizes(c.q.sym_sizes().begin(), c.q.sym_sizes().end());
  sizes.back() = c.v.sym_size(3);
  return {at::empty_symint(sizes, c.q.options().dtype(out_dtype)),
          at::empty_symint({c.q.sym_size(0), c.q.sym_size(2), c.q.sym_size(1)}, c.q.options().dtype(at::kFloat))};
}

AttentionAndSum attention_fp8(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_scale,
                              const Tensor& k_scale, const Tensor& v_scale, at::ScalarType out_dtype, bool causal,
                              std::optional<double> scale, std::int64_t window_left, std::int64_t window_right) {
  check_same_device(
      kOp, {{"q", &q}, {"k", &k}, {"v", &v}, {"q_scale", &q_scale}, {"k_scale", &k_scale}, {"v_scale", &v_scale}});
  AttentionAndSum out =
      meta({q, k, v, q_scale, k_scale, v_scale}, {causal, scale, window_left, window_right}, out_dtype);
  const auto& [o, lse] = out;
  if (is_empty(q, k)) {
    o.zero_();
    lse.fill_(-std::numeric_limits<double>::infinity());
    return out;
  }
  const OnDeviceOf on_device(q);
  AttentionFp8Args args;
  args.q = strided_view(q, kOp, "q");
  args.k = strided_view(k, kOp, "k");
  args.v = strided_view(v, kOp, "v");
  args.q_scale = dense_view(q_scale, kOp, "q_scale");
  args.k_scale = dense_view(k_scale, kOp, "k_scale");
  args.v_scale = dense_view(v_scale, kOp, "v_scale");
  args.o = strided_view(o, kOp, "the result");
  args.log_sum_exp = strided_view(lse, kOp, "lse");
  args.causal = causal;
  args.scale = scale;
  args.window_left = window_left;
  args.window_right = window_right;
  check(ridge::attention_fp8(args, stream_of(q)));
  return out;
}

AttentionAndSum call_attention_fp8(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_scale,
                                   const Tensor& k_scale, const Tensor& v_scale, at::ScalarType out_dtype, bool causal,
                                   std::optional<double> scale, std::int64_t window_left, std::int64_t window_right) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::attention_fp8", "").typed<decltype(attention_fp8)>();
  return op.call(q, k, v, q_scale, k_scale, v_scale, out_dtype, causal, scale, window_left, window_right);
}

AttentionAndSum autograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_scale,
                         const Tensor& k_scale, const Tensor& v_scale, at::ScalarType out_dtype, bool causal,
                         std::optional<double> scale, std::int64_t window_left, std::int64_t window_right) {
  return without_derivative(kOp, {q, k, v, q_scale, k_scale, v_scale}, [&] {
    return call_attention_fp8(q, k, v, q_scale, k_scale, v_scale, out_dtype, causal, scale, window_left, window_right);
  });
}

}  // namespace

void register_attention_fp8(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA: library.impl("attention_fp8", attention_fp8); return;
    case c10::DispatchKey::Meta:
      library.impl(
          "attention_fp8", [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_scale,
                              const Tensor& k_scale, const Tensor& v_scale, at::ScalarType out_dtype, bool causal,
                              std::optional<double> scale, std::int64_t window_left, std::int64_t window_right) {
            return meta({q, k, v, q_scale, k_scale, v_scale}, {causal, scale, window_left, window_right}, out_dtype);
          });
      return;
    case c10::DispatchKey::Autograd: library.impl("attention_fp8", autograd); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
