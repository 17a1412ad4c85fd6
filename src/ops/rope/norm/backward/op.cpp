#include "base/error.h"
#include "ops/arguments.h"
#include "ops/rope/norm/backward/backward.h"

namespace ridge::ops::rope_norm_backward {
namespace {

constexpr std::string_view kOp = "rope_norm_backward";

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, rope_norm::bind_inputs(kOp, requested));
  rope::add_heads(problem, "dq_out", "dk_out", false);
  rope::add_heads(problem, "dq", "dk", true);
  rope_norm::add_weights(problem, "dq_weight", "dk_weight", true);
  RIDGE_CHECK_OK(check_addressable(problem));
  return problem;
}

// The forward call, whose results have the shape and place of `q_out` and `k_out`.
rope_norm::Args forward_of(const Args& args, const TensorView& q_out, const TensorView& k_out) {
  rope_norm::Args forward;
  forward.q = args.q, forward.q_out = q_out, forward.k = args.k, forward.k_out = k_out;
  forward.cos = args.cos, forward.sin = args.sin, forward.positions = args.positions;
  forward.q_weight = args.q_weight, forward.k_weight = args.k_weight;
  forward.offset = args.offset, forward.eps = args.eps;
  forward.interleaved = args.interleaved, forward.zero_centred = args.zero_centred;
  return forward;
}

Status check_gradient_of(const char* name, const TensorView& gradient, const char* of, const TensorView& weight) {
  if ((gradient.rank != 0) != (weight.rank != 0)) {
    return with_hint(
        invalid("{}: {} is given without {}", kOp, weight.rank != 0 ? of : name, weight.rank != 0 ? name : of),
        "give both, or neither");
  }
  if (weight.rank == 0) return ok_status();
  const std::int64_t shape[] = {weight.shape[0]};
  RIDGE_CHECK_OK(check_shape(kOp, name, gradient, weight.dtype, shape, "give it the shape and dtype of the weight"));
  return check_layout(kOp, name, gradient, 1, "give a contiguous vector");
}

Status check_args(const Args& args) {
  // What arrives and what leaves have the shape of q and k; only what leaves must lie apart from all else.
  RopeArgs turned_back;
  turned_back.q = args.dq_out, turned_back.q_out = args.dq, turned_back.k = args.dk_out, turned_back.k_out = args.dk;
  turned_back.cos = args.cos, turned_back.sin = args.sin, turned_back.positions = args.positions;
  turned_back.offset = args.offset, turned_back.interleaved = args.interleaved;
  RIDGE_CHECK_OK(rope_norm::check_inputs(kOp, forward_of(args, args.dq, args.dk)));
  const std::span<const std::int64_t> shape = std::span(args.q.shape).first(4);
  RIDGE_CHECK_OK(check_shape(kOp, "dq_out", args.dq_out, args.q.dtype, shape, "give it the shape and dtype of q"));
  RIDGE_CHECK_OK(rope::check_args(kOp, turned_back));
  RIDGE_CHECK_OK(check_gradient_of("dq_weight", args.dq_weight, "q_weight", args.q_weight));
  RIDGE_CHECK_OK(check_gradient_of("dk_weight", args.dk_weight, "k_weight", args.k_weight));
  const NamedView inputs[] = {{"q", &args.q},
                              {"k", &args.k},
                              {"dq_out", &args.dq_out},
                              {"dk_out", &args.dk_out},
                              {"cos", &args.cos},
                              {"sin", &args.sin},
                              {"positions", &args.positions},
                              {"q_weight", &args.q_weight},
                              {"k_weight", &args.k_weight}};
  const NamedView dq{"dq", &args.dq}, dk{"dk", &args.dk}, dq_weight{"dq_weight", &args.dq_weight},
      dk_weight{"dk_weight", &args.dk_weight};
  for (const NamedView& input : inputs) {
    RIDGE_CHECK_OK(check_apart(kOp, dq_weight, {input}));
    RIDGE_CHECK_OK(check_apart(kOp, dk_weight, {input}));
  }
  RIDGE_CHECK_OK(check_apart(kOp, dq_weight, {dk_weight, dq, dk}));
  RIDGE_CHECK_OK(check_apart(kOp, dk_weight, {dq, dk}));
  RIDGE_CHECK_OK(check_apart(kOp, dq, {inputs[7], inputs[8]}));
  return check_apart(kOp, dk, {inputs[7], inputs[8]});
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call = rope_norm::input_call(forward_of(args, args.dq, args.dk));
  const bool k = call.values[rope::kKvHeads] > 0;
  call.operands.push_back(args.dq_out);
  if (k) call.operands.push_back(args.dk_out);
  call.operands.push_back(args.dq);
  if (k) call.operands.push_back(args.dk);
  if (args.dq_weight.rank != 0) call.operands.push_back(args.dq_weight);
  if (k && args.dk_weight.rank != 0) call.operands.push_back(args.dk_weight);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "gradients of rope_norm: of q, k and the weights, from one read";
  op.params = rope_norm::params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    return spot_check_by_reference(problem, arguments, reference);
  };
  op.cost = cost;
  op.cases = cases;
  op.vary = rope_norm::vary;
  op.plan_values = rope_norm::plan_values;
  return op;
}

}  // namespace ridge::ops::rope_norm_backward
