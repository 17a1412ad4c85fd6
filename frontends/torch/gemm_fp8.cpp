// ridgeline::gemm_fp8, which quantises what it is given and its gradient, and the products of codes below it.
//
// All three products of a step are made as a [m,k] times the transpose of b [n,k], the layout that matrix units read:
//   y  = x w^T     x along k           w [n,k] along k
//   dx = dy w      dy along n          w^T [k,n] along n      (the transposed copy of w)
//   dw = dy^T x    dy^T [n,m] along m  x^T [k,m] along m      (the transposed copies of both)
// and every copy is rounded once, from high precision.
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>

#include <array>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "ridge/ops/gemm_fp8.h"
#include "shapes.h"

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

std::pair<Granularity, Granularity> granularities_of(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kTensor: return {Granularity::kTensor, Granularity::kTensor};
    case Fp8Scaling::kRow: return {Granularity::kRow, Granularity::kRow};
    case Fp8Scaling::kBlock: return {Granularity::kVector, Granularity::kBlock};
    case Fp8Scaling::kVector: return {Granularity::kVector, Granularity::kVector};
    case Fp8Scaling::kMx: return {Granularity::kMx, Granularity::kMx};
  }
  TORCH_CHECK(false, kOp, ": unknown scaling");
}

bool are_codes(const Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat8_e4m3fn || tensor.scalar_type() == at::kFloat8_e5m2;
}

// [m, n] of the product, with everything checked that the kernels ask of its operands.
std::array<c10::SymInt, 2> check_scaled(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                        bool trans_a, bool trans_b, std::string_view scaling, std::string_view sums) {
  const auto [granularity_a, granularity_b] = granularities_of(scaling_of(scaling));
  sums_of(sums);
  TORCH_CHECK_VALUE(a.dim() == 2 && b.dim() == 2, kOp, ": a has ", a.dim(), " dimensions and b has ", b.dim(),
                    "; give two matrices");
  TORCH_CHECK_VALUE(same(a.sym_size(trans_a ? 0 : 1), b.sym_size(trans_b ? 1 : 0)), kOp, ": a has shape ",
                    a.sym_sizes(), " and b has shape ", b.sym_sizes(), "; check trans_a and trans_b");
  TORCH_CHECK_VALUE(are_codes(a) && are_codes(b), kOp, ": a is ", type_of(a), " and b is ", type_of(b),
                    "; give torch.float8_e4m3fn or torch.float8_e5m2");
  check_strides(a, kOp, "a", true);
  check_strides(b, kOp, "b", true);
  const c10::SymInt m = a.sym_size(trans_a ? 1 : 0), k = a.sym_size(trans_a ? 0 : 1), n = b.sym_size(trans_b ? 0 : 1);
  check_scales(scale_a, kOp, "scale_a", granularity_a, m, k);
  check_scales(scale_b, kOp, "scale_b", granularity_b, n, k);
  return {m, n};
}

void check_out(at::ScalarType type) { check_result_type(type, kOp, {at::kBFloat16, at::kHalf, at::kFloat}); }

std::array<c10::SymInt, 2> scaled_sizes(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                        bool trans_a, bool trans_b, at::ScalarType out_dtype, std::string_view scaling,
                                        std::string_view sums, const OptionalTensor& bias) {
  check_out(out_dtype);
  auto sizes = check_scaled(a, b, scale_a, scale_b, trans_a, trans_b, scaling, sums);
  if (bias && bias->defined()) check_bias(*bias, kOp, sizes[1], out_dtype);
  return sizes;
}

Tensor scaled_meta(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, bool trans_a,
                   bool trans_b, at::ScalarType out_dtype, std::string_view scaling, std::string_view sums,
                   const OptionalTensor& bias) {
  return at::empty_symint(scaled_sizes(a, b, scale_a, scale_b, trans_a, trans_b, out_dtype, scaling, sums, bias),
                          a.options().dtype(out_dtype));
}

Tensor scaled(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, bool trans_a,
              bool trans_b, at::ScalarType out_dtype, std::string_view scaling, std::string_view sums,
              const OptionalTensor& bias) {
  check_same_device(kOp, {{"a", &a}, {"b", &b}, {"scale_a", &scale_a}, {"scale_b", &scale_b}, {"bias", &bias}});
  const OnDeviceOf on_device(a);
  const auto sizes = scaled_sizes(a, b, scale_a, scale_b, trans_a, trans_b, out_dtype, scaling, sums, bias);
  const Tensor c = allocated(a, {sizes[0].expect_int(), sizes[1].expect_int()}, out_dtype);
  GemmFp8Args args = scaled_args(c, a, b, scale_a, scale_b, trans_a, trans_b, scaling, sums);
  if (bias && bias->defined()) args.bias = dense_view(*bias, kOp, "bias");
  check(ridge::gemm_fp8(args, stream_of(a)));
  return c;
}

void scaled_add_meta(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                     bool trans_a, bool trans_b, std::string_view scaling, std::string_view sums) {
  check_out(c.scalar_type());
  check_like(c, kOp, "c", check_scaled(a, b, scale_a, scale_b, trans_a, trans_b, scaling, sums), c.scalar_type());
  check_strides(c, kOp, "c", false);
}

void scaled_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, bool trans_a,
                bool trans_b, std::string_view scaling, std::string_view sums) {
  scaled_add_meta(c, a, b, scale_a, scale_b, trans_a, trans_b, scaling, sums);
  check_same_device(kOp, {{"a", &a}, {"b", &b}, {"scale_a", &scale_a}, {"scale_b", &scale_b}, {"c", &c}});
  const OnDeviceOf on_device(a);
  GemmFp8Args args = scaled_args(c, a, b, scale_a, scale_b, trans_a, trans_b, scaling, sums);
  args.accumulate = true;
  check(ridge::gemm_fp8(args, stream_of(a)));
}

Tensor dispatch_scaled(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, bool trans_a,
                       bool trans_b, at::ScalarType out_dtype, std::string_view scaling, std::string_view sums,
                       const OptionalTensor& bias) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::gemm_fp8_scaled", "").typed<decltype(scaled)>();
  return op.call(a, b, scale_a, scale_b, trans_a, trans_b, out_dtype, scaling, sums, bias);
}

void dispatch_scaled_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                         bool trans_a, bool trans_b, std::string_view scaling, std::string_view sums) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::gemm_fp8_scaled_add_", "")
                             .typed<decltype(scaled_add)>();
  op.call(c, a, b, scale_a, scale_b, trans_a, trans_b, scaling, sums);
}

Tensor scaled_autograd(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, bool trans_a,
                       bool trans_b, at::ScalarType out_dtype, std::string_view scaling, std::string_view sums,
                       const OptionalTensor& bias) {
  return without_derivative("gemm_fp8_scaled", {a, b, scale_a, scale_b, bias.value_or(Tensor())}, [&] {
    return dispatch_scaled(a, b, scale_a, scale_b, trans_a, trans_b, out_dtype, scaling, sums, bias);
  });
}

void scaled_add_autograd(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                         bool trans_a, bool trans_b, std::string_view scaling, std::string_view sums) {
  check_no_derivative_in_place("gemm_fp8_scaled_add_", {c, a, b, scale_a, scale_b});
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
  for (const std::string_view known : {"exact", "floor", "even", "ceil"}) {  // a recipe outlives the call's words
    if (rule == known) recipe.rule = known;
  }
  TORCH_CHECK_VALUE(!recipe.rule.empty(), kOp, ": rule \"", rule, "\" is unknown; use exact, floor, even or ceil");
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
                    "; give a matrix b, and a with leading dimensions or without (x.unsqueeze(0) makes a matrix of a "
                    "vector; gemm multiplies batches)");
  check_same_type(a, b, kOp);
  check_same_device(kOp, {{"a", &a}, {"b", &b}});
}

// The rows of all matrices of a by one matrix b, as one product: `product(rows, trans_a)`.
template <class Product>
Tensor product_of_rows(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, const Product& product) {
  const Tensor left = trans_a ? a.transpose(-1, -2) : a;
  std::vector<c10::SymInt> sizes(left.sym_sizes().begin(), left.sym_sizes().end() - 1);
  sizes.push_back(b.sym_size(trans_b ? 0 : 1));
  return at::_unsafe_view_symint(product(left.flatten(0, -2), false), sizes);
}

bool has_leading(const Tensor& a, const Tensor& b) { return a.dim() > 2 && b.dim() == 2; }

// a [m,k] times the transpose of b [n,k].
Tensor multiply(const Codes& a, const Codes& b, at::ScalarType out, std::string_view scaling,
                std::string_view sums = "promoted", const OptionalTensor& bias = {}) {
  return dispatch_scaled(a.q, b.q, a.scale, b.scale, false, true, out, scaling, sums, bias);
}

Tensor call_gemm_fp8(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                     std::string_view format, std::string_view granularity, std::string_view rule,
                     std::string_view rounding, const OptionalTensor& main_grad, const OptionalTensor& bias) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::gemm_fp8", "").typed<decltype(call_gemm_fp8)>();
  return op.call(a, b, trans_a, trans_b, out_dtype, format, granularity, rule, rounding, main_grad, bias);
}

Tensor gemm_fp8(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                std::string_view format, std::string_view granularity, std::string_view rule, std::string_view rounding,
                const OptionalTensor& main_grad, const OptionalTensor& bias) {
  if (has_leading(a, b)) {
    return product_of_rows(a, b, trans_a, trans_b, [&](const Tensor& rows, bool transposed) {
      return call_gemm_fp8(rows, b, transposed, trans_b, out_dtype, format, granularity, rule, rounding, main_grad,
                           bias);
    });
  }
  const Recipe r = recipe_of(format, granularity, rule, rounding);
  check_matrices(a, b);
  const Tensor left = stored(a, trans_a), right = stored(b, trans_b);
  const Copies x = copies_of(left, trans_a, r.forward_format, r.activations, r.rule, true, false);
  const Copies w = copies_of(right, !trans_b, r.forward_format, r.weights, r.rule, true, false);
  return multiply(x.along, w.along, out_dtype.value_or(a.scalar_type()), r.forward, r.forward_sums, bias);
}

// The gradients of a product of two matrices that were quantised for it. Saved are 8-bit copies: of a's transpose for
// b's gradient, of b's for a's.
struct GemmFp8Gradients final : Gradients {
  enum Input { kA, kB, kBias };
  enum Saved { kAt, kAtScale, kBt, kBtScale };
  bool trans_a = false, trans_b = false;
  at::ScalarType type = at::kFloat, bias = at::kFloat;
  Recipe recipe;

  [[nodiscard]] std::string name() const override { return "RidgelineGemmFp8Backward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_gemm_fp8_", trans_a, trans_b, "_", type, "_", bias, "_", recipe.grad_format, "_",
                    recipe.weights, "_", recipe.rule, recipe.stochastic ? "_stochastic" : "");
  }
  [[nodiscard]] std::string refuses_second() const override {
    return "gemm_fp8: no second derivative: its gradients are rounded to 8 bits; use gemm where they are "
           "differentiated "
           "again (create_graph=True, gradient penalties)";
  }

  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved,
                                         const Tensor& main_grad, const std::vector<bool>& wanted) const override {
    const Tensor& given = grads[0];
    // BackwardNode says what a second derivative is; the parts would each say that they have none.
    std::optional<at::AutoDispatchBelowADInplaceOrView> below;
    if (at::GradMode::is_enabled()) below.emplace();
    variable_list result(3);
    if (wanted[kBias]) result[kBias] = at::sum(given, {0}, false, bias);
    if (!wanted[kA] && !wanted[kB]) return result;
    bool transposed = false;
    const Tensor grad = stored(usable(given.to(type)), transposed);
    OptionalTensor random;
    if (recipe.stochastic) random = at::randint(std::int64_t{1} << 62, {2}, grad.options().dtype(at::kLong));
    const Copies dy = copies_of(grad, transposed, recipe.grad_format, recipe.activations, recipe.rule, wanted[kA],
                                wanted[kB], random);
    if (wanted[kA]) result[kA] = grad_of_a(dy.along, {saved[kBt], saved[kBtScale]});
    if (wanted[kB]) result[kB] = grad_of_b(dy.across, {saved[kAt], saved[kAtScale]}, main_grad);
    return result;
  }

 private:
  [[nodiscard]] Tensor grad_of_a(const Codes& dy, const Codes& w_t) const {
    if (!trans_a) return multiply(dy, w_t, type, recipe.forward);
    return recipe.forward == "block" ? multiply(dy, w_t, type, recipe.forward).t()
                                     : multiply(w_t, dy, type, recipe.forward);
  }

  [[nodiscard]] Tensor grad_of_b(const Codes& dy_t, const Codes& x_t, Tensor main_grad) const {
    const Codes &left = trans_b ? dy_t : x_t, &right = trans_b ? x_t : dy_t;
    if (!main_grad.defined()) return multiply(left, right, type, recipe.weight_grad);
    check_once(kOp);
    dispatch_scaled_add(main_grad, left.q, right.q, left.scale, right.scale, false, true, recipe.weight_grad,
                        "promoted");
    return {};
  }
};

// The product, and into `node` what its gradients read.
Tensor recorded(BackwardNode& node, const Recipe& r, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b,
                at::ScalarType out, const OptionalTensor& bias) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const bool need_a = node.should_compute_output(GemmFp8Gradients::kA);
  const bool need_b = node.should_compute_output(GemmFp8Gradients::kB);
  const Tensor left = stored(a, trans_a), right = stored(b, trans_b);
  const Copies x = copies_of(left, trans_a, r.forward_format, r.activations, r.rule, true, need_b);
  const Copies w = copies_of(right, !trans_b, r.forward_format, r.weights, r.rule, true, need_a);
  for (const Tensor& codes : {x.across.q, x.across.scale, w.across.q, w.across.scale})
    node.saved.emplace_back(codes, false);
  return multiply(x.along, w.along, out, r.forward, r.forward_sums, bias);
}

Tensor gemm_fp8_autograd(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                         std::string_view format, std::string_view granularity, std::string_view rule,
                         std::string_view rounding, const OptionalTensor& main_grad, const OptionalTensor& bias) {
  if (has_leading(a, b)) {
    return product_of_rows(a, b, trans_a, trans_b, [&](const Tensor& rows, bool transposed) {
      return call_gemm_fp8(rows, b, transposed, trans_b, out_dtype, format, granularity, rule, rounding, main_grad,
                           bias);
    });
  }
  const auto product = [&](const Tensor& x, const Tensor& w, const OptionalTensor& added = {}) {
    return call_gemm_fp8(x, w, trans_a, trans_b, out_dtype, format, granularity, rule, rounding, {}, added);
  };
  Tensor c;
  if (torch::autograd::compute_requires_grad(a, b, bias)) {
    check_matrices(a, b);
    auto formula = std::make_shared<GemmFp8Gradients>();
    formula->trans_a = trans_a, formula->trans_b = trans_b;
    formula->type = a.scalar_type();
    if (bias && bias->defined()) formula->bias = bias->scalar_type();
    formula->recipe = recipe_of(format, granularity, rule, rounding);
    auto node = make_node(a, b, bias);
    node->gradients = formula;
    if (main_grad && main_grad->defined()) {
      check_main_grad(*main_grad, b, kOp);
      node->main_grad = *main_grad;
    }
    c = recorded(*node, formula->recipe, a, b, trans_a, trans_b, out_dtype.value_or(a.scalar_type()), bias);
    torch::autograd::set_history(c, node);
  } else {
    const at::AutoDispatchBelowADInplaceOrView below;
    c = product(a, b, bias);
  }
  if (!any_tangent(a, b, bias)) return c;
  // Each tangent is quantised as the operand that it belongs to.
  Tensor tangent;
  if (has_tangent(a)) tangent = product(usable(tangent_of(a)), primal_of(b));
  if (has_tangent(b)) {
    const Tensor second = product(primal_of(a), usable(tangent_of(b)));
    tangent = tangent.defined() ? tangent + second : second;
  }
  if (has_tangent(bias)) {
    const Tensor every_row = tangent_of(*bias).expand_symint(c.sym_sizes());
    tangent = tangent.defined() ? tangent + every_row : every_row.contiguous();
  }
  c._set_fw_grad(tangent, 0, false);
  return c;
}

Tensor gemm_fp8_autocast(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                         std::string_view format, std::string_view granularity, std::string_view rule,
                         std::string_view rounding, const OptionalTensor& main_grad, const OptionalTensor& bias) {
  const auto device = a.device().type();
  const c10::impl::ExcludeDispatchKeyGuard without(
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}));
  const auto type = at::autocast::get_autocast_dtype(device);
  const auto cast = [&](const Tensor& t, at::ScalarType to) { return at::autocast::cached_cast(to, t, device); };
  const auto added = bias && bias->defined() ? OptionalTensor(cast(*bias, out_dtype.value_or(type))) : OptionalTensor();
  return call_gemm_fp8(cast(a, type), cast(b, type), trans_a, trans_b, out_dtype, format, granularity, rule, rounding,
                       main_grad, added);
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
