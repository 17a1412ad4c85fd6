#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/attention/attention.h"
#include "ops/attention/backward/backward.h"
#include "ops/attention/contract.h"

namespace ridge::ops::attention {

Status check_heads(std::string_view where, const Shape& s) {
  if (s.kv_heads < 1 || s.heads % s.kv_heads != 0) {
    return with_hint(
        invalid("{}: {} query heads cannot share {} heads of k and v", where, s.heads, s.kv_heads),
        "give a number of query heads that is a multiple of that of k and v, of which there is at least one");
  }
  for (const auto& [dim, of] : {std::pair{s.dim, "head"}, {s.v_dim, "value head"}}) {
    if (dim >= 1 && dim <= kLargestDim) continue;
    return with_hint(invalid("{}: a {} dimension of {} is not possible", where, of, dim),
                     fmt::format("give 1 to {}", kLargestDim));
  }
  return ok_status();
}

Status check_window(std::string_view where, std::int64_t left, std::int64_t right) {
  if (left >= -1 && right >= -1) return ok_status();
  return with_hint(
      invalid("{}: a window of {} keys before a query and {} behind it is not possible", where, left, right),
      "give numbers from 0, or -1 for as many as there are");
}

void set_mask(Call& call, bool causal, std::int64_t left, std::int64_t right) {
  const Window window = window_of(causal, left, right, call.values[kQLen], call.values[kKLen]);
  causal = causal || window.right == 0;
  call.values[kMask] = causal ? 1 : 0;
  call.values[kKeysLeft] = window.left + 1;
  call.values[kKeysRight] = causal ? 0 : window.right + 1;
}

void set_sizes(Call& call, const TensorView& q, const TensorView& k, const TensorView& v) {
  call.values[kBatch] = q.shape[0];
  call.values[kHeads] = q.shape[2];
  call.values[kKvHeads] = k.shape[2];
  call.values[kQLen] = q.shape[1];
  call.values[kKLen] = k.shape[1];
  call.values[kDim] = q.shape[3];
  call.values[kVDim] = v.shape[3] == q.shape[3] ? 0 : v.shape[3];
  call.values[kDtype] = index_of(kDtypes, q.dtype);
}

Status check_operands(std::string_view op, const TensorView& q, const TensorView& k, const TensorView& v,
                      const TensorView& log_sum_exp, std::optional<double> scale) {
  RIDGE_CHECK_OK(check_heads_layout(op, "q", q));
  RIDGE_CHECK_OK(check_heads_layout(op, "k", k));
  RIDGE_CHECK_OK(check_heads_layout(op, "v", v));
  RIDGE_CHECK_OK(check_heads(op, {q.shape[0], q.shape[2], k.shape[2], q.shape[1], k.shape[1], q.shape[3], v.shape[3]}));
  const std::int64_t keys[] = {q.shape[0], k.shape[1], k.shape[2], q.shape[3]};
  RIDGE_CHECK_OK(check_shape(op, "k", k, q.dtype, keys, "give k the batch, dim and dtype of q"));
  const std::int64_t values[] = {q.shape[0], k.shape[1], k.shape[2], v.shape[3]};
  RIDGE_CHECK_OK(check_shape(op, "v", v, q.dtype, values, "give v the batch, length, heads and dtype of k"));
  const std::int64_t sums[] = {q.shape[0], q.shape[2], q.shape[1]};
  RIDGE_CHECK_OK(check_shape(op, "log_sum_exp", log_sum_exp, DType::kF32, sums, "it is [batch, heads, q_len]"));
  RIDGE_CHECK_OK(check_layout(op, "log_sum_exp", log_sum_exp, 3, "give contiguous rows"));
  if (scale && !(static_cast<float>(*scale) > 0 && std::isfinite(static_cast<float>(*scale)))) {
    return with_hint(invalid("{}: a scale of {} is not possible", op, *scale),
                     "give a finite number above 0, or none for 1 / sqrt(dim)");
  }
  return ok_status();
}

// What forward and backward ask of the inputs of the forward, and of its log-sum-exp.
Status check_inputs(std::string_view op, const TensorView& q, const TensorView& k, const TensorView& v,
                    const TensorView& log_sum_exp, std::optional<double> scale, double softcap) {
  if (index_of(kDtypes, q.dtype) < 0) {
    return with_hint(invalid("{}: q is {}; this dtype is not supported", op, q.describe()), "give bf16 or f16");
  }
  RIDGE_CHECK_OK(check_operands(op, q, k, v, log_sum_exp, scale));
  if (softcap != 0 && !(static_cast<float>(softcap) > 0 && std::isfinite(static_cast<float>(softcap)))) {
    return with_hint(invalid("{}: a softcap of {} is not possible", op, softcap),
                     "give a finite number above 0, or 0 for none");
  }
  return ok_status();
}

Status check_of_heads(std::string_view op, std::string_view name, const TensorView& view, std::int64_t heads) {
  if (view.rank == 0) return ok_status();
  RIDGE_CHECK_OK(check_layout(op, name, view, 1, "give a contiguous vector"));
  return check_shape(op, name, view, DType::kF32, {&heads, 1}, "give f32 [heads], the heads of q");
}

// Rows of q with the dim of v: o and its gradient.
Status check_rows(std::string_view op, std::string_view name, const TensorView& view, const TensorView& q,
                  const TensorView& v) {
  TensorView rows = q;
  rows.shape[3] = v.shape[3];
  return check_like(op, name, view, "q, with the dim of v", rows);
}

// A tensor with the shape and dtype of another: rows of heads, in any order of dimensions.
Status check_like(std::string_view op, std::string_view name, const TensorView& view, std::string_view other_name,
                  const TensorView& other) {
  RIDGE_CHECK_OK(check_heads_layout(op, name, view));
  const std::int64_t shape[] = {other.shape[0], other.shape[1], other.shape[2], other.shape[3]};
  return check_shape(op, name, view, other.dtype, shape,
                     fmt::format("give {} the shape and dtype of {}", name, other_name));
}

std::vector<record::ParamInfo> params() {
  return {{"batch", "1", "sequences", {}},
          {"heads", "4", "of q", {}},
          {"kv_heads", "2", "of k and v", {}},
          {"q_len", "128", "queries of a sequence", {}},
          {"k_len", "128", "keys of a sequence", {}},
          {"dim", "64", "of a head", {}},
          {"dtype", "bf16", "of q, k, v and o", {"bf16", "f16"}},
          {"mask", "full", "causal: the last query sees every key, the one before it one less", {"full", "causal"}},
          {"keys_left", "0", "that a query sees up to its own place: window_left + 1; 0: all", {}},
          {"keys_right", "0", "from its own place on: window_right + 1; 0: all, or one with a causal mask", {}},
          {"documents", "0", "packed in a batch of one sequence, by offsets; 0: the sequence is one", {}},
          {"v_dim", "0", "of a head of v and o; 0: dim", {}},
          record::flag_param("sinks", "1: a logit of each head beside its scores"),
          record::flag_param("softcap", "1: cap tanh(score / cap) in place of a score"),
          record::flag_param("alibi", "1: a slope of each head, times the distance of query and key, off its scores")};
}

Result<Problem> bind_sizes(std::string_view op, std::span<const record::ParamInfo> params,
                           const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(op, params, with_dtype_names(requested, {"dtype"})));
  if (problem.values[kVDim] == problem.values[kDim]) {
    problem.values[kVDim] = 0;
    problem.problem_case.set("v_dim", "0");
  }
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_heads(problem.problem_case.text(), s));
  RIDGE_CHECK_OK(check_documents(problem.problem_case.text(), s.documents, s.batch));
  return problem;
}

void add_scalars(Problem& problem, double most) {
  const Shape s = shape_of(problem);
  const double usual = usual_scale(s.dim);
  problem.scalars = {{"scale", "of the scores", record::Scalar::f64(usual), usual / 4, most * usual}};
  if (s.softcap) problem.scalars.push_back({"cap", "of the scores", record::Scalar::f64(30), 1, 60});
}

OperandSpec slopes_operand(const Shape& s) {
  return {"alibi_slopes", DType::kF32, {s.heads}, false, false, {Fill::Rule::kUniform, 0, 0.25}};
}

void set_scalars(Call& call, std::optional<double> scale, double softcap) {
  call.values[kSoftcap] = softcap == 0 ? 0 : 1;
  call.scalars.push_back(record::Scalar::f64(scale.value_or(usual_scale(call.values[kDim]))));
  if (softcap != 0) call.scalars.push_back(record::Scalar::f64(softcap));
}

void plan_values(const Problem& problem, std::span<const TensorView>, std::map<std::string, std::int64_t>& facts) {
  facts["v_dim"] = shape_of(problem).v_dim;
}

// Their scores reach thousands and millions, where one rounding in fp32 changes a weight by more than itself.
bool excuses(const Problem&, numerics::Family family) {
  return family == numerics::Family::kScaled || family == numerics::Family::kHeavyTails ||
         family == numerics::Family::kSpikes;
}

namespace {

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_inputs("attention", args.q, args.k, args.v, args.log_sum_exp, args.scale, args.softcap));
  RIDGE_CHECK_OK(check_window("attention", args.window_left, args.window_right));
  RIDGE_CHECK_OK(check_offsets("attention", args.q_offsets, args.k_offsets, args.q.shape[0]));
  RIDGE_CHECK_OK(check_of_heads("attention", "sinks", args.sinks, args.q.shape[2]));
  RIDGE_CHECK_OK(check_of_heads("attention", "alibi_slopes", args.alibi_slopes, args.q.shape[2]));
  RIDGE_CHECK_OK(check_rows("attention", "o", args.o, args.q, args.v));
  const NamedView named_q{"q", &args.q}, named_k{"k", &args.k}, named_v{"v", &args.v},
      sum{"log_sum_exp", &args.log_sum_exp}, q_offsets{"q_offsets", &args.q_offsets},
      k_offsets{"k_offsets", &args.k_offsets}, sinks{"sinks", &args.sinks}, slopes{"alibi_slopes", &args.alibi_slopes};
  RIDGE_CHECK_OK(
      check_apart("attention", {"o", &args.o}, {named_q, named_k, named_v, q_offsets, k_offsets, sinks, slopes, sum}));
  return check_apart("attention", sum, {named_q, named_k, named_v, q_offsets, k_offsets, sinks, slopes});
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_sizes("attention", params(), requested));
  const Shape s = shape_of(problem);
  problem.operands = {{"q", s.dtype, {s.batch, s.q_len, s.heads, s.dim}, false, false},
                      {"k", s.dtype, {s.batch, s.k_len, s.kv_heads, s.dim}, false, false},
                      {"v", s.dtype, {s.batch, s.k_len, s.kv_heads, s.v_dim}, false, false}};
  add_offsets(problem);
  if (s.sinks) problem.operands.push_back({"sinks", DType::kF32, {s.heads}});
  if (s.alibi) problem.operands.push_back(slopes_operand(s));
  problem.operands.push_back({"o", s.dtype, {s.batch, s.q_len, s.heads, s.v_dim}, true, false});
  problem.operands.push_back({"log_sum_exp", DType::kF32, {s.batch, s.heads, s.q_len}, true, false});
  add_scalars(problem, 2);
  RIDGE_CHECK_OK(check_addressable(problem));
  return problem;
}

// Every gradient is made: d_k and d_v come of the products that d_q needs.
Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  if (grad_outputs[1].rank != 0) {
    return with_hint(make_error(ErrorCode::kUnsupported, "attention: there is no gradient through log_sum_exp"),
                     "give a gradient of o alone");
  }
  const std::optional<std::size_t> sinks = problem.position("sinks");
  for (std::size_t i = 0; i < grad_inputs.size(); ++i) {
    if ((i <= kV || i == sinks) && grad_inputs[i].rank == 0) {  // offsets have none
      return with_hint(
          make_error(ErrorCode::kUnsupported, "attention: the gradients of q, k, v and sinks are made together"),
          "give memory for all of them");
    }
  }
  AttentionBackwardArgs args;
  args.q = forward[kQ];
  args.k = forward[kK];
  args.v = forward[kV];
  args.o = operand(problem, forward.operands, "o");
  args.log_sum_exp = operand(problem, forward.operands, "log_sum_exp");
  args.q_offsets = operand(problem, forward.operands, "q_offsets");
  args.k_offsets = operand(problem, forward.operands, "k_offsets");
  args.d_o = grad_outputs[0];
  args.d_q = grad_inputs[0];
  args.d_k = grad_inputs[1];
  args.d_v = grad_inputs[2];
  if (sinks) {
    args.sinks = forward[*sinks];
    args.d_sinks = grad_inputs[*sinks];
  }
  args.alibi_slopes = operand(problem, forward.operands, "alibi_slopes");
  args.causal = problem.values[kMask] == 1;
  args.window_left = problem.values[kKeysLeft] - 1;
  args.window_right = problem.values[kKeysRight] - 1;
  const Shape s = shape_of(problem, forward);
  args.scale = s.scale;
  args.softcap = s.cap;
  return attention_backward::make_call(args);
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  set_sizes(call, args.q, args.k, args.v);
  set_mask(call, args.causal, args.window_left, args.window_right);
  call.values[kDocuments] = args.q_offsets.rank == 0 ? 0 : args.q_offsets.shape[0] - 1;
  call.values[kSinks] = args.sinks.rank == 0 ? 0 : 1;
  call.values[kAlibi] = args.alibi_slopes.rank == 0 ? 0 : 1;
  for (const TensorView* view : {&args.q, &args.k, &args.v, &args.q_offsets, &args.k_offsets, &args.sinks,
                                 &args.alibi_slopes, &args.o, &args.log_sum_exp}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  set_scalars(call, args.scale, args.softcap);
  return call;
}

Operator describe() {
  Operator op;
  op.name = "attention";
  op.summary =
      "softmax(scale q k^T) v with the log-sum-exp of every row; full, causal or in a window, grouped heads, packed "
      "documents";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    // The log-sum-exp of a row without keys and without a sink is -infinity.
    return with_right_infinities(spot_check_by_reference(problem, arguments, reference));
  };
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.excuses = excuses;
  op.plan_values = plan_values;
  op.backward = Backward{"attention_backward",
                         {"q", "k", "v", "q_offsets", "k_offsets", "sinks", "alibi_slopes", "o", "log_sum_exp"},
                         backward_call};
  return op;
}

}  // namespace ridge::ops::attention
