// ridgeline::gemm_fp8, which quantises what it is given and its gradient, and the products of codes below it.
//
// All three products of a step are made as a [m,k] times the transpose of b [n,k], the layout that matrix units read:
//   y  = x w^T     x along k           w [n,k] along k
//   dx = dy w      dy along n          w^T [k,n] along n      (the transposed copy of w)
//   dw = dy^T x    dy^T [n,m] along m  x^T [k,m] along m      (the transposed copies of both)
// and every copy is rounded once, from high precision.
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "convert.h"
#include "operators.h"
#include "ridge/ops/gemm_fp8.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "gemm_fp8";

Fp8Scaling scaling_of(std::string_view name) {
  constexpr std::pair<std::string_view, Fp8Scaling> kNames[] = {{"tensor", Fp8Scaling::kTensor},
                                                                {"row", Fp8Scaling::kRow},
                                                                {"block", Fp8Scaling::kBlock},
                                                                {"vector", Fp8Scaling::kVector},
                                                                {"mx", Fp8Scaling::kMx}};
  for (const auto& [known, scaling] : kNames) {
    if (name == known) return scaling;
  }
  TORCH_CHECK_VALUE(false, kOp, ": scaling \"", name, "\" is unknown; use tensor, row, block, vector or mx");
}

Fp8Sums sums_of(std::string_view name) {
  if (name == "f32") return Fp8Sums::kFp32;
  if (name == "fast") return Fp8Sums::kFast;
  TORCH_CHECK_VALUE(name == "promoted", kOp, ": sums \"", name, "\" is unknown; use f32, promoted or fast");
  return Fp8Sums::kPromoted;
}

GemmFp8Args scaled_args(const Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                        bool trans_a, bool trans_b, std::string_view scaling, std::string_view sums) {
  check_same_device(kOp, {{"a", &a}, {"b", &b}, {"scale_a", &scale_a}, {"scale_b", &scale_b}, {"c", &c}});
  GemmFp8Args args;
  args.a = matrix_view(a, trans_a, kOp, "a");
  args.b = matrix_view(b, trans_b, kOp, "b");
  args.scale_a = dense_view(scale_a, kOp, "scale_a");
  args.scale_b = dense_view(scale_b, kOp, "scale_b");
  args.c = row_major_view(c, kOp, "c");
  args.trans_a = trans_a, args.trans_b = trans_b;
  args.scaling = scaling_of(scaling), args.sums = sums_of(sums);
  return args;
}

Tensor scaled_meta(const Tensor& a, const Tensor& b, const Tensor&, const Tensor&, bool trans_a, bool trans_b,
                   at::ScalarType out_dtype, std::string_view scaling, std::string_view sums) {
  scaling_of(scaling), sums_of(sums);
  TORCH_CHECK_VALUE(a.dim() == 2 && b.dim() == 2, kOp, ": a has ", a.dim(), " dimensions and b has ", b.dim(),
                    "; give two matrices");
  TORCH_CHECK_VALUE(a.sym_size(trans_a ? 0 : 1) == b.sym_size(trans_b ? 1 : 0), kOp, ": a has shape ", a.sym_sizes(),
                    " and b has shape ", b.sym_sizes(), "; check trans_a and trans_b");
  return at::empty_symint({a.sym_size(trans_a ? 1 : 0), b.sym_size(trans_b ? 0 : 1)}, a.options().dtype(out_dtype));
}

Tensor scaled(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, bool trans_a,
              bool trans_b, at::ScalarType out_dtype, std::string_view scaling, std::string_view sums) {
  const OnDeviceOf on_device(a);
  Tensor c = scaled_meta(a, b, scale_a, scale_b, trans_a, trans_b, out_dtype, scaling, sums);
  check(ridge::gemm_fp8(scaled_args(c, a, b, scale_a, scale_b, trans_a, trans_b, scaling, sums), stream_of(a)));
  return c;
}

void scaled_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, bool trans_a,
                bool trans_b, std::string_view scaling, std::string_view sums) {
  const OnDeviceOf on_device(a);
  GemmFp8Args args = scaled_args(c, a, b, scale_a, scale_b, trans_a, trans_b, scaling, sums);
  args.accumulate = true;
  check(ridge::gemm_fp8(args, stream_of(a)));
}

void scaled_add_meta(Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, bool, std::string_view,
                     std::string_view) {}

Tensor dispatch_scaled(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, bool trans_a,
                       bool trans_b, at::ScalarType out_dtype, std::string_view scaling, std::string_view sums) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::gemm_fp8_scaled", "").typed<decltype(scaled)>();
  return op.call(a, b, scale_a, scale_b, trans_a, trans_b, out_dtype, scaling, sums);
}

void dispatch_scaled_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                         bool trans_a, bool trans_b, std::string_view scaling, std::string_view sums) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::gemm_fp8_scaled_add_", "")
                             .typed<decltype(scaled_add)>();
  op.call(c, a, b, scale_a, scale_b, trans_a, trans_b, scaling, sums);
}

Tensor scaled_autograd(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, bool trans_a,
                       bool trans_b, at::ScalarType out_dtype, std::string_view scaling, std::string_view sums) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return dispatch_scaled(a, b, scale_a, scale_b, trans_a, trans_b, out_dtype, scaling, sums);
}

void scaled_add_autograd(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                         bool trans_a, bool trans_b, std::string_view scaling, std::string_view sums) {
  TORCH_CHECK(!at::GradMode::is_enabled() || !c.requires_grad(),
              "gemm_fp8_scaled_add_ adds into c without recording a gradient; call it under torch.no_grad()");
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    dispatch_scaled_add(c, a, b, scale_a, scale_b, trans_a, trans_b, scaling, sums);
  }
  if (!c.is_inference()) c.unsafeGetTensorImpl()->bump_version();
}

// What the words of a configuration mean for the three products.
struct Recipe {
  at::ScalarType forward_format = at::kFloat8_e4m3fn, grad_format = at::kFloat8_e4m3fn;
  std::string_view activations, weights;  // granularities of quantize
  std::string_view forward,
      weight_grad;  // scalings of the products; the data gradient is scaled as the forward product
  // Sums of the forward product. With one scale for all of k the matrix unit may add up all of it (about 14 bits),
  // which is an eighth faster on Hopper; sums of gradients, whose terms differ more in size, are promoted to fp32 on
  // the way.
  std::string_view forward_sums;
  std::string_view rule;
  bool stochastic = false;
};

Recipe recipe_of(std::string_view format, std::string_view granularity, std::string_view rule,
                 std::string_view rounding) {
  TORCH_CHECK_VALUE(format == "e4m3" || format == "e5m2" || format == "hybrid", kOp, ": format \"", format,
                    "\" is unknown; use e4m3, e5m2 or hybrid (e4m3 forward, e5m2 for gradients)");
  TORCH_CHECK_VALUE(rounding == "nearest" || rounding == "stochastic", kOp, ": rounding \"", rounding,
                    "\" is unknown; use nearest or stochastic (gradients only)");
  Recipe recipe;
  recipe.forward_format = format == "e5m2" ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
  recipe.grad_format = format == "e4m3" ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
  recipe.activations = recipe.weights = recipe.forward = recipe.weight_grad = "tensor";
  recipe.forward_sums = granularity == "tensorwise" || granularity == "rowwise" ? "fast" : "promoted";
  recipe.rule = rule;
  recipe.stochastic = rounding == "stochastic";
  if (granularity == "tensorwise") return recipe;
  if (granularity == "rowwise") {
    recipe.activations = recipe.weights = recipe.forward = recipe.weight_grad = "row";
  } else if (granularity == "blockwise") {
    recipe.activations = "1x128", recipe.weights = "128x128", recipe.forward = "block", recipe.weight_grad = "vector";
  } else {
    TORCH_CHECK_VALUE(granularity == "mx", kOp, ": granularity \"", granularity,
                      "\" is unknown; use tensorwise, rowwise, blockwise or mx");
    recipe.activations = recipe.weights = recipe.forward = recipe.weight_grad = "mx";
  }
  return recipe;
}

struct Codes {
  Tensor q, scale;
};
// x with the scales along its columns (as the left factor of a product), or the same of its transpose.
struct Copies {
  Codes along, across;
};

Copies copies_of(const Tensor& x, bool transposed, at::ScalarType format, std::string_view granularity,
                 std::string_view rule, bool want_along, bool want_across, const OptionalTensor& random = {}) {
  const bool row = transposed ? want_across : want_along, column = transposed ? want_along : want_across;
  if (!row && !column) return {};
  auto [q, scale, q_t, scale_t] = call_quantize(x, format, granularity, rule, row, column, random);
  if (transposed) return {{q_t, scale_t}, {q, scale}};
  return {{q, scale}, {q_t, scale_t}};
}

// Where a matrix is column-major it is quantised as its transpose, without a copy.
Tensor stored(const Tensor& x, bool& transposed) {
  if (x.is_contiguous() || !x.transpose(-1, -2).is_contiguous()) return x;
  transposed = !transposed;
  return x.transpose(-1, -2);
}

void check_matrices(const Tensor& a, const Tensor& b) {
  TORCH_CHECK_VALUE(a.dim() == 2 && b.dim() == 2, kOp, ": a has ", a.dim(), " dimensions and b has ", b.dim(),
                    "; give two matrices, for instance a.flatten(0, -2)");
  TORCH_CHECK_TYPE(a.scalar_type() == b.scalar_type(), kOp, ": a is ", a.scalar_type(), " and b is ", b.scalar_type(),
                   "; give both the same dtype");
  check_same_device(kOp, {{"a", &a}, {"b", &b}});
}

// a [m,k] times the transpose of b [n,k].
Tensor multiply(const Codes& a, const Codes& b, at::ScalarType out, std::string_view scaling,
                std::string_view sums = "promoted") {
  return dispatch_scaled(a.q, b.q, a.scale, b.scale, false, true, out, scaling, sums);
}

Tensor gemm_fp8(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                std::string_view format, std::string_view granularity, std::string_view rule, std::string_view rounding,
                const OptionalTensor&) {
  const Recipe r = recipe_of(format, granularity, rule, rounding);
  check_matrices(a, b);
  const Tensor left = stored(a, trans_a), right = stored(b, trans_b);
  const Copies x = copies_of(left, trans_a, r.forward_format, r.activations, r.rule, true, false);
  const Copies w = copies_of(right, !trans_b, r.forward_format, r.weights, r.rule, true, false);
  return multiply(x.along, w.along, out_dtype.value_or(a.scalar_type()), r.forward, r.forward_sums);
}

// Saves 8-bit copies: of a's transpose for b's gradient, of b's for a's.
struct GemmFp8Function : torch::autograd::Function<GemmFp8Function> {
  using Context = torch::autograd::AutogradContext;

  static Tensor forward(Context* ctx, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b,
                        OptionalType out_dtype, std::string_view format, std::string_view granularity,
                        std::string_view rule, std::string_view rounding, const OptionalTensor& main_grad) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Recipe r = recipe_of(format, granularity, rule, rounding);
    check_matrices(a, b);
    auto& data = ctx->saved_data;
    data["a"] = a.scalar_type(), data["trans_a"] = trans_a, data["trans_b"] = trans_b;
    data["format"] = std::string(format), data["granularity"] = std::string(granularity);
    data["rule"] = std::string(rule), data["rounding"] = std::string(rounding);
    if (main_grad && main_grad->defined()) data["main_grad"] = *main_grad;
    const Tensor left = stored(a, trans_a), right = stored(b, trans_b);
    const Copies x = copies_of(left, trans_a, r.forward_format, r.activations, r.rule, true, b.requires_grad());
    const Copies w = copies_of(right, !trans_b, r.forward_format, r.weights, r.rule, true, a.requires_grad());
    ctx->save_for_backward({x.across.q, x.across.scale, w.across.q, w.across.scale});
    ctx->set_materialize_grads(false);
    return multiply(x.along, w.along, out_dtype.value_or(a.scalar_type()), r.forward, r.forward_sums);
  }

  static torch::autograd::variable_list backward(Context* ctx, torch::autograd::variable_list grads) {
    torch::autograd::variable_list result(10);  // one for each argument of forward
    if (!grads[0].defined()) return result;
    auto& data = ctx->saved_data;
    const Recipe r = recipe_of(data["format"].toStringView(), data["granularity"].toStringView(),
                               data["rule"].toStringView(), data["rounding"].toStringView());
    const auto saved = ctx->get_saved_variables();
    const auto type = data["a"].toScalarType();
    const bool need_a = ctx->needs_input_grad(0), need_b = ctx->needs_input_grad(1);
    bool transposed = false;
    const Tensor grad = stored(usable(grads[0].to(type)), transposed);
    OptionalTensor random;
    if (r.stochastic) random = at::randint(std::int64_t{1} << 62, {2}, grad.options().dtype(at::kLong));
    const Copies dy = copies_of(grad, transposed, r.grad_format, r.activations, r.rule, need_a, need_b, random);
    if (need_a) {
      const Codes w_t{saved[2], saved[3]};
      result[0] = data["trans_a"].toBool() && r.forward != "block" ? multiply(w_t, dy.along, type, r.forward)
                                                                   : multiply(dy.along, w_t, type, r.forward);
      if (data["trans_a"].toBool() && r.forward == "block") result[0] = result[0].t();
    }
    if (need_b) grad_of_b(data, dy.across, {saved[0], saved[1]}, r, result[1]);
    return result;
  }

  template <class Data>
  static void grad_of_b(Data& data, const Codes& dy_t, const Codes& x_t, const Recipe& r, Tensor& result) {
    const bool trans_b = data["trans_b"].toBool();
    const Codes &left = trans_b ? dy_t : x_t, &right = trans_b ? x_t : dy_t;
    if (const auto found = data.find("main_grad"); found != data.end()) {
      Tensor target = found->second.toTensor();
      dispatch_scaled_add(target, left.q, right.q, left.scale, right.scale, false, true, r.weight_grad, "promoted");
    } else {
      result = multiply(left, right, data["a"].toScalarType(), r.weight_grad);
    }
  }
};

Tensor call_gemm_fp8(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                     std::string_view format, std::string_view granularity, std::string_view rule,
                     std::string_view rounding, const OptionalTensor& main_grad) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::gemm_fp8", "").typed<decltype(gemm_fp8)>();
  return op.call(a, b, trans_a, trans_b, out_dtype, format, granularity, rule, rounding, main_grad);
}

Tensor gemm_fp8_autograd(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                         std::string_view format, std::string_view granularity, std::string_view rule,
                         std::string_view rounding, const OptionalTensor& main_grad) {
  if (at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad())) {
    return GemmFp8Function::apply(a, b, trans_a, trans_b, out_dtype, format, granularity, rule, rounding, main_grad);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_gemm_fp8(a, b, trans_a, trans_b, out_dtype, format, granularity, rule, rounding, main_grad);
}

Tensor gemm_fp8_autocast(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                         std::string_view format, std::string_view granularity, std::string_view rule,
                         std::string_view rounding, const OptionalTensor& main_grad) {
  const auto device = a.device().type();
  const c10::impl::ExcludeDispatchKeyGuard without(
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}));
  const auto type = at::autocast::get_autocast_dtype(device);
  return call_gemm_fp8(at::autocast::cached_cast(type, a, device), at::autocast::cached_cast(type, b, device), trans_a,
                       trans_b, out_dtype, format, granularity, rule, rounding, main_grad);
}

}  // namespace

void register_gemm_fp8(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("gemm_fp8_scaled", scaled);
      library.impl("gemm_fp8_scaled_add_", scaled_add);
      return;
    case c10::DispatchKey::Meta:
      library.impl("gemm_fp8_scaled", scaled_meta);
      library.impl("gemm_fp8_scaled_add_", scaled_add_meta);
      return;
    case c10::DispatchKey::CompositeExplicitAutograd: library.impl("gemm_fp8", gemm_fp8); return;
    case c10::DispatchKey::Autograd:
      library.impl("gemm_fp8", gemm_fp8_autograd);
      library.impl("gemm_fp8_scaled", scaled_autograd);
      library.impl("gemm_fp8_scaled_add_", scaled_add_autograd);
      return;
    case c10::DispatchKey::AutocastCPU:
    case c10::DispatchKey::AutocastCUDA: library.impl("gemm_fp8", gemm_fp8_autocast); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
