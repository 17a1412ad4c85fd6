#include <cmath>

#include "base/error.h"
#include "numerics/convert.h"
#include "ops/arguments.h"
#include "ops/gemm_fp8/product_case.h"
#include "ops/matmul/values.h"

namespace ridge::ops::gemm_fp8 {
namespace {

constexpr std::string_view kOp = "gemm_fp8";
constexpr std::string_view kLayoutHelp = "copy it to a row-major matrix, or pass its transpose with trans_a or trans_b";

std::string operand_text(const Args& args) {
  return fmt::format("A {}{}, B {}{}, C {}", args.a.describe(), args.trans_a ? " transposed" : "", args.b.describe(),
                     args.trans_b ? " transposed" : "", args.c.describe());
}

Status check_scale(const char* name, const TensorView& scale, Granularity granularity, std::int64_t rows,
                   std::int64_t k, const char* whose) {
  const std::vector<std::int64_t> shape = scale_shape(granularity, rows, k);
  RIDGE_CHECK_OK(check_shape(kOp, name, scale, scale_dtype(granularity), shape, [&] {
    return fmt::format("{} scales of {} [{}, {}]; ridge/scaling.h has their layout, quantize writes it",
                       to_string(granularity), whose, rows, k);
  }));
  return check_layout(kOp, name, scale, static_cast<int>(shape.size()), "give contiguous scales");
}

Status check_dtypes(const Args& args) {
  if (index_of(kFormats, Formats{args.a.dtype, args.b.dtype}) < 0) {
    return with_hint(invalid("gemm_fp8: {}: these dtypes are not supported", operand_text(args)),
                     "give A and B e4m3fn or e5m2; gemm multiplies f32, bf16 and f16");
  }
  if (index_of(kOuts, args.c.dtype) >= 0) return ok_status();
  return with_hint(invalid("gemm_fp8: {}: C cannot be {}", operand_text(args), to_string(args.c.dtype)),
                   "give C bf16, f16 or f32");
}

Status check_bias(const Args& args) {
  if (args.bias.rank == 0) return ok_status();
  if (args.accumulate) {
    return with_hint(invalid("gemm_fp8: {}: accumulate adds the product alone, without a bias", operand_text(args)),
                     "drop the bias or the accumulation");
  }
  const std::int64_t shape[] = {args.c.shape[1]};
  RIDGE_CHECK_OK(check_shape(kOp, "bias", args.bias, args.c.dtype, shape, "one for each column of C, in its dtype"));
  return check_layout(kOp, "bias", args.bias, 1, "give a contiguous vector");
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_layout(kOp, "A", args.a, 2, kLayoutHelp));
  RIDGE_CHECK_OK(check_layout(kOp, "B", args.b, 2, kLayoutHelp));
  RIDGE_CHECK_OK(check_layout(kOp, "C", args.c, 2, kLayoutHelp));
  RIDGE_CHECK_OK(check_dtypes(args));
  const std::int64_t m = args.a.shape[args.trans_a ? 1 : 0], k = args.a.shape[args.trans_a ? 0 : 1];
  const std::int64_t k_of_b = args.b.shape[args.trans_b ? 1 : 0], n = args.b.shape[args.trans_b ? 0 : 1];
  if (k != k_of_b) {
    return with_hint(
        invalid("gemm_fp8: {}: op(A) has k = {} columns but op(B) has k = {} rows", operand_text(args), k, k_of_b),
        "check trans_a and trans_b");
  }
  const std::int64_t shape[] = {m, n};
  RIDGE_CHECK_OK(check_shape(kOp, "C", args.c, args.c.dtype, shape, [&] { return operand_text(args); }));
  const Granularities g = granularities(args.scaling);
  RIDGE_CHECK_OK(check_scale("scale_a", args.scale_a, g.a, m, k, "op(A)"));
  RIDGE_CHECK_OK(check_scale("scale_b", args.scale_b, g.b, n, k, "op(B)^T"));
  RIDGE_CHECK_OK(check_bias(args));
  const TensorView none;
  return check_apart(kOp, {"C", &args.c},
                     {{"A", &args.a},
                      {"B", &args.b},
                      {"scale_a", &args.scale_a},
                      {"scale_b", &args.scale_b},
                      {"bias", args.bias.rank != 0 ? &args.bias : &none}});
}

// Element counts beyond 64-bit byte offsets cannot be addressed.
Status check_sizes(const Problem& problem, const Shape& s) {
  const std::int64_t sides[] = {s.m, s.n, s.k};
  for (int i = 0; i < 3; ++i) {
    RIDGE_CHECK_OK(check_addressable(problem.problem_case.text(), "an operand", sides[i], sides[(i + 1) % 3]));
  }
  return ok_status();
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, params(), with_dtype_names(requested, {"out"})));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_sizes(problem, s));
  if (s.accumulate && s.bias) {
    return with_hint(invalid("{}: accumulate adds the product alone", problem.problem_case.text()),
                     "drop accumulate or bias");
  }
  const auto stored = [](std::int64_t rows, std::int64_t cols, bool transposed) {
    return transposed ? std::vector{cols, rows} : std::vector{rows, cols};
  };
  const Granularities g = granularities(s.scaling);
  problem.operands = {{"a", s.formats.a, stored(s.m, s.k, s.trans_a), false, false},
                      {"b", s.formats.b, stored(s.k, s.n, s.trans_b), false, false},
                      {"scale_a", scale_dtype(g.a), scale_shape(g.a, s.m, s.k), false, false},
                      {"scale_b", scale_dtype(g.b), scale_shape(g.b, s.n, s.k), false, false}};
  if (s.bias) problem.operands.push_back({"bias", s.out, {s.n}, false, false});
  problem.operands.push_back({"c", s.out, {s.m, s.n}, true, s.accumulate});
  return problem;
}

}  // namespace

Status check_scales(const Problem& problem, std::span<const TensorView> operands) {
  for (const Operand operand : {kScaleA, kScaleB}) {
    const std::vector<double> scales = numerics::to_doubles(operands[operand]);
    for (std::size_t i = 0; i < scales.size(); ++i) {
      if (std::isfinite(scales[i])) continue;
      return with_hint(invalid("{}: element {} of {} {} is {}", problem.problem_case.text(), i,
                               operand == kScaleA ? "scale_a" : "scale_b", operands[operand].describe(), scales[i]),
                       "scales must be finite; quantize never writes others, so look at where these come from");
    }
  }
  return ok_status();
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  call.values[kM] = args.c.shape[0];
  call.values[kN] = args.c.shape[1];
  call.values[kK] = args.a.shape[args.trans_a ? 0 : 1];
  call.values[kDtype] = index_of(kFormats, Formats{args.a.dtype, args.b.dtype});
  call.values[kOut] = index_of(kOuts, args.c.dtype);
  call.values[kLayout] = (args.trans_a ? 2 : 0) + (args.trans_b ? 1 : 0);
  call.values[kAccumulate] = args.accumulate ? 1 : 0;
  call.values[kScaling] = static_cast<std::int64_t>(args.scaling);
  call.values[kSums] = static_cast<std::int64_t>(args.sums);
  call.values[kBias] = args.bias.rank != 0 ? 1 : 0;
  call.operands = {args.a, args.b, args.scale_a, args.scale_b};
  if (args.bias.rank != 0) call.operands.push_back(args.bias);
  call.operands.push_back(args.c);
  return call;
}

std::vector<record::ParamInfo> params() {
  return {{"m", "256", "rows of C", {}},
          {"n", "256", "columns of C", {}},
          {"k", "256", "terms of each sum", {}},
          {"dtype", "e4m3fn", "of A and B; two names: of A, of B", {"e4m3fn", "e5m2", "e4m3fn_e5m2", "e5m2_e4m3fn"}},
          {"out", "bf16", "dtype of C", {"bf16", "f16", "f32"}},
          {"layout", "nt", "of A and B: n as is, t stored transposed", {"nn", "nt", "tn", "tt"}},
          record::flag_param("accumulate", "1: C += A*B"),
          {"scaling",
           "tensor",
           "block: A 1x128, B 128x128; vector: both 1x128; mx: both 1x32, E8M0",
           {"tensor", "row", "block", "vector", "mx"}},
          {"sums",
           "promoted",
           "the least exact that will do: f32; 14 bits for 128 of k, then f32; 14 bits",
           {"f32", "promoted", "fast"}},
          record::flag_param("bias", "1: add one to every row")};
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "C = op(A) * op(B) of 8-bit floats with scales";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.cost = cost;
  op.cases = cases;
  op.device_check = device_check();
  op.plan_values = [](const Problem& problem, std::span<const TensorView> operands, matmul::Values& values) {
    matmul::add_values(cuda_case(problem, operands), values);
  };
  op.vary = vary;
  // Scales below 2^-126 are outside the contract, and that family makes them.
  op.excuses = [](const Problem&, numerics::Family family) { return family == numerics::Family::kDenormals; };
  return op;
}

}  // namespace ridge::ops::gemm_fp8
