#include <cmath>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/attention/backward/backward.h"

namespace ridge::ops::attention_backward {
namespace {

constexpr std::string_view kName = "attention_backward";

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(attention::check_inputs(kName, args.q, args.k, args.v, args.log_sum_exp, args.scale, args.softcap));
  RIDGE_CHECK_OK(attention::check_window(kName, args.window_left, args.window_right));
  RIDGE_CHECK_OK(attention::check_offsets(kName, args.q_offsets, args.k_offsets, args.q.shape[0]));
  const NamedView q{"q", &args.q}, k{"k", &args.k}, v{"v", &args.v}, o{"o", &args.o},
      sum{"log_sum_exp", &args.log_sum_exp}, d_o{"d_o", &args.d_o}, d_q{"d_q", &args.d_q}, d_k{"d_k", &args.d_k},
      d_v{"d_v", &args.d_v}, q_offsets{"q_offsets", &args.q_offsets}, k_offsets{"k_offsets", &args.k_offsets},
      sinks{"sinks", &args.sinks}, d_sinks{"d_sinks", &args.d_sinks}, slopes{"alibi_slopes", &args.alibi_slopes};
  RIDGE_CHECK_OK(attention::check_of_heads(kName, "sinks", args.sinks, args.q.shape[2]));
  RIDGE_CHECK_OK(attention::check_of_heads(kName, "alibi_slopes", args.alibi_slopes, args.q.shape[2]));
  if ((args.sinks.rank == 0) != (args.d_sinks.rank == 0)) {
    return with_hint(invalid("{}: {} without {}", kName, args.sinks.rank == 0 ? "d_sinks" : "sinks",
                             args.sinks.rank == 0 ? "sinks" : "d_sinks"),
                     "give both or neither");
  }
  for (const NamedView& one : {o, d_o})
    RIDGE_CHECK_OK(attention::check_rows(kName, one.name, *one.view, args.q, args.v));
  for (const auto& [gradient, of] : {std::pair{d_q, q}, {d_k, k}, {d_v, v}})
    RIDGE_CHECK_OK(attention::check_like(kName, gradient.name, *gradient.view, of.name, *of.view));
  RIDGE_CHECK_OK(
      check_apart(kName, d_q, {q, k, v, o, sum, d_o, q_offsets, k_offsets, sinks, slopes, d_k, d_v, d_sinks}));
  RIDGE_CHECK_OK(check_apart(kName, d_k, {q, k, v, o, sum, d_o, q_offsets, k_offsets, sinks, slopes, d_v, d_sinks}));
  RIDGE_CHECK_OK(check_apart(kName, d_v, {q, k, v, o, sum, d_o, q_offsets, k_offsets, sinks, slopes, d_sinks}));
  if (args.sinks.rank == 0) return ok_status();
  RIDGE_CHECK_OK(check_layout(kName, "d_sinks", args.d_sinks, 1, "give a contiguous vector"));
  RIDGE_CHECK_OK(check_shape(kName, "d_sinks", args.d_sinks, DType::kF32, {&args.q.shape[2], 1}, "give f32 [heads]"));
  return check_apart(kName, d_sinks, {q, k, v, o, sum, d_o, q_offsets, k_offsets, sinks, slopes});
}

std::vector<record::ParamInfo> params() {
  std::vector<record::ParamInfo> all = attention::params();
  all.push_back(record::flag_param("deterministic", "1: equal bits over runs, also on a GPU"));
  return all;
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, attention::bind_sizes(kName, params(), requested));
  const attention::Shape s = attention::shape_of(problem);
  const std::vector<std::int64_t> rows = {s.batch, s.q_len, s.heads, s.dim},
                                  keys = {s.batch, s.k_len, s.kv_heads, s.dim},
                                  out = {s.batch, s.q_len, s.heads, s.v_dim},
                                  values = {s.batch, s.k_len, s.kv_heads, s.v_dim};
  // Small scores, and about what their log-sum-exp is: weights of a row add up to some number near 1. With a
  // log-sum-exp that has nothing to do with the scores they would reach beyond every number.
  const double usual_sum = std::log(std::max(1.0, static_cast<double>(s.k_len)));
  constexpr Fill kSmall{Fill::Rule::kUniform, -0.125, 0.125}, kOne{Fill::Rule::kUniform, -1, 1};
  problem.operands = {{"q", s.dtype, rows, false, false, kSmall},
                      {"k", s.dtype, keys, false, false},
                      {"v", s.dtype, values, false, false},
                      {"o", s.dtype, out, false, false, kOne},
                      {"log_sum_exp",
                       DType::kF32,
                       {s.batch, s.heads, s.q_len},
                       false,
                       false,
                       {Fill::Rule::kUniform, usual_sum, usual_sum + 1}},
                      {"d_o", s.dtype, out, false, false, kOne}};
  attention::add_offsets(problem);
  if (s.sinks) problem.operands.push_back({"sinks", DType::kF32, {s.heads}, false, false, kOne});
  if (s.alibi) problem.operands.push_back(attention::slopes_operand(s));
  problem.operands.push_back({"d_q", s.dtype, rows, true, false});
  problem.operands.push_back({"d_k", s.dtype, keys, true, false});
  problem.operands.push_back({"d_v", s.dtype, values, true, false});
  if (s.sinks) problem.operands.push_back({"d_sinks", DType::kF32, {s.heads}, true, false});
  attention::add_scalars(problem, 1);
  RIDGE_CHECK_OK(check_addressable(problem));
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  attention::set_sizes(call, args.q, args.k, args.v);
  attention::set_mask(call, args.causal, args.window_left, args.window_right);
  call.values[kDeterministic] = args.deterministic ? 1 : 0;
  call.values[attention::kDocuments] = args.q_offsets.rank == 0 ? 0 : args.q_offsets.shape[0] - 1;
  call.values[attention::kSinks] = args.sinks.rank == 0 ? 0 : 1;
  call.values[attention::kAlibi] = args.alibi_slopes.rank == 0 ? 0 : 1;
  for (const TensorView* view :
       {&args.q, &args.k, &args.v, &args.o, &args.log_sum_exp, &args.d_o, &args.q_offsets, &args.k_offsets, &args.sinks,
        &args.alibi_slopes, &args.d_q, &args.d_k, &args.d_v, &args.d_sinks}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  attention::set_scalars(call, args.scale, args.softcap);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kName;
  op.summary = "gradients of attention: d_q, d_k and d_v, and of its sinks";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    return spot_check_by_reference(problem, arguments, reference);
  };
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = attention::plan_values;
  // Outliers of 64 times a number that is large already end beyond fp16.
  op.excuses = [](const Problem& problem, numerics::Family family) {
    const bool f16 = attention::shape_of(problem).dtype == DType::kF16;
    return attention::excuses(problem, family) || (f16 && family == numerics::Family::kMixture);
  };
  return op;
}

}  // namespace ridge::ops::attention_backward
