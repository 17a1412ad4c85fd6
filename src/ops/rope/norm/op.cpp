#include "base/error.h"
#include "ops/arguments.h"
#include "ops/rope/norm/backward/backward.h"
#include "ops/rope/norm/norm.h"

namespace ridge::ops::rope_norm {
namespace {

constexpr std::string_view kOp = "rope_norm";

Status zero_centred_without_weights(std::string_view where) {
  return with_hint(invalid("{}: zero_centred is about the weights, and there are none", where),
                   "give weights, or leave zero_centred out");
}

Status check_weight(std::string_view op, const char* name, const TensorView& weight, DType dtype, std::int64_t dim) {
  if (weight.rank == 0) return ok_status();
  const std::int64_t shape[] = {dim};
  RIDGE_CHECK_OK(check_shape(op, name, weight, dtype, shape,
                             "one number for each element of a head, of the dtype of q or f32, all weights alike"));
  return check_layout(op, name, weight, 1, "give a contiguous vector");
}

Status check_weights(std::string_view op, const Args& args) {
  const bool q = args.q_weight.rank != 0, k = args.k_weight.rank != 0;
  if (args.k.rank == 0 && k) {
    return with_hint(invalid("{}: k_weight is given without k", op), "give k with k_out, or leave k_weight out");
  }
  if (args.k.rank != 0 && q != k) {
    return with_hint(
        invalid("{}: {} is given without {}", op, q ? "q_weight" : "k_weight", q ? "k_weight" : "q_weight"),
        "give both, or neither");
  }
  if (args.zero_centred && !q) return zero_centred_without_weights(op);
  const DType dtype = args.q_weight.dtype == DType::kF32 ? DType::kF32 : args.q.dtype;
  RIDGE_CHECK_OK(check_weight(op, "q_weight", args.q_weight, dtype, args.q.shape[3]));
  return check_weight(op, "k_weight", args.k_weight, dtype, args.q.shape[3]);
}

Status check_eps(std::string_view op, double eps) {
  const auto stored = static_cast<float>(eps);
  if (stored >= 0 && std::isfinite(stored)) return ok_status();
  return with_hint(invalid("{}: an eps of {} is not possible", op, eps), "give a finite number from 0");
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_inputs(kOp, requested));
  rope::add_heads(problem, "q_out", "k_out", true);
  RIDGE_CHECK_OK(check_addressable(problem));
  return problem;
}

Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  const auto named = [&](const char* name) { return operand(problem, forward, name); };
  const auto gradient = [&](const char* name) {
    const auto at = problem.position(name);
    return at ? grad_inputs[*at] : TensorView();
  };
  if (gradient("cos").rank != 0 || gradient("sin").rank != 0) {
    return with_hint(make_error(ErrorCode::kUnsupported, "{}: the table has no gradient", kOp),
                     "ask for those of q, k and the weights");
  }
  rope_norm_backward::Args args;
  args.q = named("q"), args.k = named("k"), args.cos = named("cos"), args.sin = named("sin");
  args.q_weight = named("q_weight"), args.k_weight = named("k_weight"), args.positions = named("positions");
  args.dq_out = grad_outputs[0];
  if (problem.position("k")) args.dk_out = grad_outputs[1];
  args.dq = gradient("q"), args.dk = gradient("k");
  args.dq_weight = gradient("q_weight"), args.dk_weight = gradient("k_weight");
  args.offset = forward.scalar(problem, kOffset).whole();
  args.eps = forward.scalar(problem, kEps).real();
  args.interleaved = rope::tokens_of(problem).interleaved;
  args.zero_centred = problem.values[kZeroCentred] == 1;
  return rope_norm_backward::make_call(args);
}

}  // namespace

std::vector<record::ParamInfo> params() {
  std::vector<record::ParamInfo> all = rope::token_params();
  all.push_back({"weight", "same", "same: of the dtype of q; none: 1", {"none", "same", "f32"}});
  all.push_back(record::flag_param("zero_centred", "1: a weight counts as 1 + weight"));
  return all;
}

void add_weights(Problem& problem, const char* q, const char* k, bool output) {
  if (problem.values[kWeight] == kNone) return;
  const rope::Shape s = rope::tokens_of(problem);
  const DType dtype = problem.values[kWeight] == kF32 ? DType::kF32 : s.dtype;
  problem.operands.push_back({q, dtype, {s.dim}, output});
  if (s.kv_heads > 0) problem.operands.push_back({k, dtype, {s.dim}, output});
}

Result<Problem> bind_inputs(std::string_view op, const record::Case& requested) {
  RIDGE_TRY(problem, rope::bind_tokens(op, params(), requested));
  if (problem.values[kZeroCentred] == 1 && problem.values[kWeight] == kNone) {
    return zero_centred_without_weights(problem.problem_case.text()).error();
  }
  add_weights(problem, "q_weight", "k_weight", false);
  problem.scalars.push_back({"eps", "added to the mean of the squares", record::Scalar::f32(1e-6F), 1e-6, 0.5});
  return problem;
}

RopeArgs turned(const Args& args) {
  RopeArgs rope;
  rope.q = args.q, rope.q_out = args.q_out, rope.k = args.k, rope.k_out = args.k_out;
  rope.cos = args.cos, rope.sin = args.sin, rope.positions = args.positions;
  rope.offset = args.offset, rope.interleaved = args.interleaved;
  return rope;
}

Status check_inputs(std::string_view op, const Args& args) {
  RIDGE_CHECK_OK(rope::check_args(op, turned(args)));
  RIDGE_CHECK_OK(check_weights(op, args));
  return check_eps(op, args.eps);
}

Call input_call(const Args& args) {
  Call call;
  rope::set_token_values(turned(args), kParamCount, call);
  call.values[kWeight] = args.q_weight.rank == 0 ? kNone : args.q_weight.dtype == args.q.dtype ? kSame : kF32;
  call.values[kZeroCentred] = args.zero_centred ? 1 : 0;
  const bool k = call.values[rope::kKvHeads] > 0;
  call.operands.push_back(args.q);
  if (k) call.operands.push_back(args.k);
  rope::push_table(turned(args), call);
  if (args.q_weight.rank != 0) call.operands.push_back(args.q_weight);
  if (k && args.k_weight.rank != 0) call.operands.push_back(args.k_weight);
  call.scalars.push_back(record::Scalar::i64(args.offset));
  call.scalars.push_back(record::Scalar::f32(static_cast<float>(args.eps)));
  return call;
}

void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  rope::heads_alignment(problem, operands, facts);
  int alignment = 16;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (problem.operands[i].shape.size() == 1) alignment = std::min(alignment, view_alignment(operands[i]));
  }
  facts["weights_align"] = alignment;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_inputs(kOp, args));
  for (const NamedView out : {NamedView{"q_out", &args.q_out}, NamedView{"k_out", &args.k_out}}) {
    RIDGE_CHECK_OK(check_apart(kOp, out, {{"q_weight", &args.q_weight}, {"k_weight", &args.k_weight}}));
  }
  Call call = input_call(args);
  call.operands.push_back(args.q_out);
  if (call.values[rope::kKvHeads] > 0) call.operands.push_back(args.k_out);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "rmsnorm of every head of q and k, turned by the angle of its position, in one pass";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    return spot_check_by_reference(problem, arguments, reference);
  };
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = plan_values;
  op.backward = Backward{"rope_norm_backward",
                         {"q", "k", "q_weight", "k_weight", "cos", "sin", "positions"},
                         backward_call,
                         {},
                         {"cos", "sin"}};
  return op;
}

}  // namespace ridge::ops::rope_norm
