#include "base/error.h"
#include "ops/arguments.h"
#include "ops/attention/fp8/fp8.h"

namespace ridge::ops::attention_fp8 {
namespace {

constexpr std::string_view kName = "attention_fp8";
constexpr DType kCodes = DType::kE4m3fn;

Status check_scales(std::string_view name, const TensorView& scales, std::int64_t batch, std::int64_t heads,
                    std::string_view of) {
  const std::int64_t shape[] = {batch, heads};
  RIDGE_CHECK_OK(check_shape(kName, name, scales, DType::kF32, shape,
                             [&] { return fmt::format("give f32 [batch, heads of {}]", of); }));
  return check_layout(kName, name, scales, 2, "give contiguous rows");
}

Status check_dtypes(const Args& args) {
  if (args.q.dtype != kCodes) {
    return with_hint(invalid("{}: q is {}; this dtype is not supported", kName, args.q.describe()),
                     "give e4m3fn; attention takes bf16 and f16");
  }
  if (index_of(attention::kDtypes, args.o.dtype) >= 0) return ok_status();
  return with_hint(invalid("{}: o cannot be {}", kName, to_string(args.o.dtype)), "give bf16 or f16");
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_dtypes(args));
  RIDGE_CHECK_OK(attention::check_operands(kName, args.q, args.k, args.v, args.log_sum_exp, args.scale));
  RIDGE_CHECK_OK(attention::check_window(kName, args.window_left, args.window_right));
  RIDGE_CHECK_OK(check_scales("q_scale", args.q_scale, args.q.shape[0], args.q.shape[2], "q"));
  RIDGE_CHECK_OK(check_scales("k_scale", args.k_scale, args.k.shape[0], args.k.shape[2], "k"));
  RIDGE_CHECK_OK(check_scales("v_scale", args.v_scale, args.v.shape[0], args.v.shape[2], "v"));
  TensorView rows = args.q;
  rows.dtype = args.o.dtype;
  RIDGE_CHECK_OK(attention::check_rows(kName, "o", args.o, rows, args.v));
  const NamedView q{"q", &args.q}, k{"k", &args.k}, v{"v", &args.v}, q_scale{"q_scale", &args.q_scale},
      k_scale{"k_scale", &args.k_scale}, v_scale{"v_scale", &args.v_scale}, sum{"log_sum_exp", &args.log_sum_exp};
  RIDGE_CHECK_OK(check_apart(kName, {"o", &args.o}, {q, k, v, q_scale, k_scale, v_scale, sum}));
  return check_apart(kName, sum, {q, k, v, q_scale, k_scale, v_scale});
}

// Those of attention, with the dtype of o in place of that of all, and without what is not offered.
std::vector<record::ParamInfo> params() {
  std::vector<record::ParamInfo> all = attention::params();
  all[kOut] = {"out", "bf16", "dtype of o", {"bf16", "f16"}};
  all.erase(all.begin() + attention::kDocuments);
  all.resize(kParamCount);
  return all;
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kName, params(), with_dtype_names(requested, {"out"})));
  if (problem.values[kVDim] == problem.values[kDim]) {
    problem.values[kVDim] = 0;
    problem.problem_case.set("v_dim", "0");
  }
  const attention::Shape s = shape_of(problem);
  RIDGE_CHECK_OK(attention::check_heads(problem.problem_case.text(), s));
  // Codes of unit size have scores as those of attention have.
  constexpr Fill kScale{Fill::Rule::kUniform, 0.5, 1.5};
  problem.operands = {{"q", kCodes, {s.batch, s.q_len, s.heads, s.dim}},
                      {"k", kCodes, {s.batch, s.k_len, s.kv_heads, s.dim}},
                      {"v", kCodes, {s.batch, s.k_len, s.kv_heads, s.v_dim}},
                      {"q_scale", DType::kF32, {s.batch, s.heads}, false, false, kScale},
                      {"k_scale", DType::kF32, {s.batch, s.kv_heads}, false, false, kScale},
                      {"v_scale", DType::kF32, {s.batch, s.kv_heads}, false, false, kScale},
                      {"o", s.dtype, {s.batch, s.q_len, s.heads, s.v_dim}, true, false},
                      {"log_sum_exp", DType::kF32, {s.batch, s.heads, s.q_len}, true, false}};
  const double usual = attention::usual_scale(s.dim);
  problem.scalars = {{"scale", "of the scores", record::Scalar::f64(usual), usual / 4, 2 * usual}};
  RIDGE_CHECK_OK(check_addressable(problem));
  return problem;
}

}  // namespace

attention::Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  attention::Shape s{
      v[kBatch], v[kHeads], v[kKvHeads], v[kQLen], v[kKLen], v[kDim], v[kVDim] == 0 ? v[kDim] : v[kVDim]};
  s.dtype = attention::kDtypes[static_cast<std::size_t>(v[kOut])];
  s.window = attention::window_of(v[kMask] == 1, v[kKeysLeft] - 1, v[kKeysRight] - 1, s.q_len, s.k_len);
  return s;
}

attention::Shape shape_of(const Problem& problem, const Arguments& arguments) {
  attention::Shape s = shape_of(problem);
  s.scale = arguments.scalar(problem, attention::kScale).real();
  return s;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  call.values[kBatch] = args.q.shape[0];
  call.values[kHeads] = args.q.shape[2];
  call.values[kKvHeads] = args.k.shape[2];
  call.values[kQLen] = args.q.shape[1];
  call.values[kKLen] = args.k.shape[1];
  call.values[kDim] = args.q.shape[3];
  call.values[kOut] = index_of(attention::kDtypes, args.o.dtype);
  attention::set_mask(call, args.causal, args.window_left, args.window_right);
  call.values[kVDim] = args.v.shape[3] == args.q.shape[3] ? 0 : args.v.shape[3];
  for (const TensorView* view :
       {&args.q, &args.k, &args.v, &args.q_scale, &args.k_scale, &args.v_scale, &args.o, &args.log_sum_exp}) {
    call.operands.push_back(*view);
  }
  call.scalars.push_back(record::Scalar::f64(args.scale.value_or(attention::usual_scale(args.q.shape[3]))));
  return call;
}

Operator describe() {
  Operator op;
  op.name = kName;
  op.summary = "attention of 8-bit codes with a scale per head: full, causal or in a window, grouped heads";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    return with_right_infinities(spot_check_by_reference(problem, arguments, reference));  // rows without keys
  };
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.excuses = attention::excuses;
  op.plan_values = [](const Problem& problem, std::span<const TensorView>, std::map<std::string, std::int64_t>& facts) {
    facts["v_dim"] = shape_of(problem).v_dim;
  };
  return op;
}

}  // namespace ridge::ops::attention_fp8
