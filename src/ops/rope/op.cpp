#include "base/error.h"
#include "ops/arguments.h"
#include "ops/rope/rope.h"

namespace ridge::ops::rope {
namespace {

constexpr std::string_view kOp = "rope";

Status check_dims(std::string_view where, std::int64_t dim, std::int64_t rotary) {
  if (dim < 1 || dim > kLargestDim) {
    return with_hint(invalid("{}: heads of {} elements", where, dim),
                     fmt::format("give heads of 1 to {} elements", kLargestDim));
  }
  if (rotary >= 2 && rotary <= dim && rotary % 2 == 0) return ok_status();
  return with_hint(invalid("{}: a rotary dimension of {} in heads of {}", where, rotary, dim),
                   "give an even number from 2 to the heads' dimension: twice the columns of cos and sin");
}

Status check_offset(std::string_view where, std::int64_t offset, std::int64_t length, std::int64_t rows) {
  if (offset >= 0 && length <= rows && offset <= rows - length) return ok_status();
  return with_hint(invalid("{}: positions {} to {} of a table of {} rows", where, offset, offset + length - 1, rows),
                   "make a longer table, or give an offset from 0");
}

// A tensor of heads with its result.
Status check_pair(std::string_view op, std::string_view name, const TensorView& in, std::string_view out_name,
                  const TensorView& out, DType dtype) {
  RIDGE_CHECK_OK(check_heads_layout(op, name, in));
  RIDGE_CHECK_OK(check_heads_layout(op, out_name, out));
  const std::span<const std::int64_t> shape = std::span(in.shape).first(4);
  RIDGE_CHECK_OK(check_shape(op, name, in, dtype, shape, "give q and k one dtype"));
  return check_shape(op, out_name, out, dtype, shape, "give a result the shape and dtype of its input");
}

bool in_place(const TensorView& in, const TensorView& out) {
  return in.data == out.data && std::equal(in.stride.begin(), in.stride.begin() + 4, out.stride.begin());
}

// Heads that lie side by side as the columns of one matrix of tokens, by which parts of a packed qkv are told apart.
TensorView as_matrix(const TensorView& heads) {
  if (heads.rank == 0) return heads;
  const bool together = heads.shape[2] == 1 || heads.stride[2] == heads.shape[3];
  const bool even = heads.shape[0] == 1 || heads.stride[0] == heads.shape[1] * heads.stride[1];
  if (!together || !even) return heads;
  return TensorView::matrix(heads.data, heads.dtype, heads.shape[0] * heads.shape[1], heads.shape[2] * heads.shape[3],
                            heads.stride[1]);
}

Status check_outputs(std::string_view op, const Args& args) {
  const TensorView flat[] = {as_matrix(args.q), as_matrix(args.k), as_matrix(args.q_out), as_matrix(args.k_out)};
  const NamedView q{"q", &flat[0]}, k{"k", &flat[1]}, q_out{"q_out", &flat[2]}, k_out{"k_out", &flat[3]},
      cos{"cos", &args.cos}, sin{"sin", &args.sin}, positions{"positions", &args.positions};
  RIDGE_CHECK_OK(check_apart(op, q_out, {k, k_out, cos, sin, positions}));
  if (!in_place(args.q, args.q_out)) RIDGE_CHECK_OK(check_apart(op, q_out, {q}));
  if (args.k.rank == 0) return ok_status();
  RIDGE_CHECK_OK(check_apart(op, k_out, {q, cos, sin, positions}));
  return in_place(args.k, args.k_out) ? ok_status() : check_apart(op, k_out, {k});
}

Status check_positions_layout(std::string_view op, const Args& args) {
  const TensorView& p = args.positions;
  if (p.rank == 0) return ok_status();
  const std::int64_t shape[] = {args.q.shape[0], args.q.shape[1]};
  const DType index = p.dtype == DType::kI32 ? DType::kI32 : DType::kI64;
  RIDGE_CHECK_OK(check_shape(op, "positions", p, index, shape, "one for each token, [batch, length]"));
  if (p.data != nullptr || p.element_count() == 0) return ok_status();
  return invalid("{}: positions is {} but its data pointer is null", op, p.describe());
}

std::vector<record::ParamInfo> params() {
  std::vector<record::ParamInfo> all = token_params();
  all.push_back(record::flag_param("inverse", "1: turned back"));
  return all;
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_tokens(kOp, params(), requested));
  add_heads(problem, "q_out", "k_out", true);
  RIDGE_CHECK_OK(check_addressable(problem));
  return problem;
}

}  // namespace

std::vector<record::ParamInfo> token_params() {
  return {{"batch", "1", "sequences", {}},
          {"length", "128", "tokens of a sequence", {}},
          {"heads", "8", "of q", {}},
          {"kv_heads", "2", "of k; 0: no k", {}},
          {"dim", "64", "of a head", {}},
          {"rotary", "64", "how many elements of a head are turned; as dim where it is not given", {}},
          {"rows", "128", "positions of the table; as length where it is not given", {}},
          {"dtype", "bf16", "of q and k", {"f32", "bf16", "f16"}},
          record::flag_param("interleaved", "1: pairs are neighbours, not half a head apart"),
          {"positions", "none", "given for each token", {"none", "i64", "i32"}}};
}

void add_heads(Problem& problem, const char* q, const char* k, bool output) {
  const Shape s = tokens_of(problem);
  problem.operands.push_back({q, s.dtype, {s.batch, s.length, s.heads, s.dim}, output});
  if (s.kv_heads > 0) problem.operands.push_back({k, s.dtype, {s.batch, s.length, s.kv_heads, s.dim}, output});
}

Result<Problem> bind_tokens(std::string_view op, const std::vector<record::ParamInfo>& params,
                            const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "positions"});
  const auto usual = [&](const char* name, const char* as) {
    const std::string given(canonical.get(as));
    if (canonical.get(name).empty() && !given.empty()) canonical.set(name, given);
  };
  usual("rotary", "dim");
  usual("rows", "length");
  RIDGE_TRY(problem, bind_params(op, params, canonical));
  const Shape s = tokens_of(problem);
  const std::string where = problem.problem_case.text();
  RIDGE_CHECK_OK(check_dims(where, s.dim, s.rotary));
  RIDGE_CHECK_OK(check_offset(where, 0, s.length, s.rows));
  add_heads(problem, "q", "k", false);
  const std::vector<std::int64_t> table = {s.rows, s.rotary / 2};
  problem.operands.push_back({"cos", DType::kF32, table});
  problem.operands.push_back({"sin", DType::kF32, table});
  if (s.positions != DType::kF32) {
    OperandSpec positions{"positions", s.positions, {s.batch, s.length}};
    positions.fill = {Fill::Rule::kIndices, 0, static_cast<double>(s.rows) - 1};
    problem.operands.push_back(positions);
  }
  problem.scalars = {
      {"offset", "position of the first token", record::Scalar::i64(0), 0, static_cast<double>(s.rows - s.length)}};
  return problem;
}

Status check_args(std::string_view op, const Args& args) {
  if (index_of(kDtypes, args.q.dtype) < 0) {
    return with_hint(invalid("{}: q is {}; this dtype is not supported", op, args.q.describe()),
                     "give f32, bf16 or f16");
  }
  RIDGE_CHECK_OK(check_pair(op, "q", args.q, "q_out", args.q_out, args.q.dtype));
  if ((args.k.rank != 0) != (args.k_out.rank != 0)) {
    return with_hint(
        invalid("{}: {} is given without {}", op, args.k.rank != 0 ? "k" : "k_out", args.k.rank != 0 ? "k_out" : "k"),
        "give both, or neither");
  }
  if (args.k.rank != 0) {
    RIDGE_CHECK_OK(check_pair(op, "k", args.k, "k_out", args.k_out, args.q.dtype));
    const std::int64_t shape[] = {args.q.shape[0], args.q.shape[1], args.k.shape[2], args.q.shape[3]};
    RIDGE_CHECK_OK(check_shape(op, "k", args.k, args.q.dtype, shape, "give k the batch, length and dim of q"));
  }
  RIDGE_CHECK_OK(check_layout(op, "cos", args.cos, 2, "give a row-major matrix"));
  const std::span<const std::int64_t> table = std::span(args.cos.shape).first(2);
  RIDGE_CHECK_OK(check_like_x(op, "cos", args.cos, DType::kF32, table));
  RIDGE_CHECK_OK(check_like_x(op, "sin", args.sin, DType::kF32, table));
  RIDGE_CHECK_OK(check_dims(op, args.q.shape[3], 2 * table[1]));
  RIDGE_CHECK_OK(check_positions_layout(op, args));
  if (args.positions.rank == 0) RIDGE_CHECK_OK(check_offset(op, args.offset, args.q.shape[1], table[0]));
  return check_outputs(op, args);
}

Status check_positions(std::string_view op, const Problem& problem, const Arguments& arguments) {
  const Shape s = tokens_of(problem);
  const Positions positions(problem, arguments);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t t = 0; t < s.length; ++t) {
      const std::int64_t at = positions.at(b, t);
      if (at >= 0 && at < s.rows) continue;
      return with_hint(
          invalid("{}: the position of token {} of sequence {} is {}; the table has {} rows", op, t, b, at, s.rows),
          "make a longer table, or give positions within it");
    }
  }
  return ok_status();
}

void set_token_values(const Args& args, std::size_t count, Call& call) {
  auto& values = call.values;
  values.resize(count);
  values[kBatch] = args.q.shape[0];
  values[kLength] = args.q.shape[1];
  values[kHeads] = args.q.shape[2];
  values[kKvHeads] = args.k.rank != 0 ? args.k.shape[2] : 0;
  values[kDim] = args.q.shape[3];
  values[kRotary] = 2 * args.cos.shape[1];
  values[kRows] = args.cos.shape[0];
  values[kDtype] = index_of(kDtypes, args.q.dtype);
  values[kInterleaved] = args.interleaved ? 1 : 0;
  values[kPositions] = args.positions.rank == 0 ? 0 : args.positions.dtype == DType::kI64 ? 1 : 2;
}

void push_table(const Args& args, Call& call) {
  call.operands.push_back(args.cos);
  call.operands.push_back(args.sin);
  if (args.positions.rank != 0) call.operands.push_back(args.positions);
}

void heads_alignment(const Problem& problem, std::span<const TensorView> operands,
                     std::map<std::string, std::int64_t>& facts) {
  int alignment = 16;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (problem.operands[i].shape.size() != 4) continue;
    alignment = std::min(alignment, view_alignment(operands[i]));
    // Of a case, before a call.
    if (operands[i].data == nullptr) alignment = std::min(alignment, operand_alignment(problem, i));
  }
  facts["heads_align"] = alignment;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(kOp, args));
  Call call;
  set_token_values(args, kParamCount, call);
  call.values[kInverse] = args.inverse ? 1 : 0;
  const bool k = call.values[kKvHeads] > 0;
  call.operands.push_back(args.q);
  if (k) call.operands.push_back(args.k);
  push_table(args, call);
  call.operands.push_back(args.q_out);
  if (k) call.operands.push_back(args.k_out);
  call.scalars.push_back(record::Scalar::i64(args.offset));
  return call;
}

namespace {

Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  const auto gradient = [&](const char* name) {
    const auto at = problem.position(name);
    return at ? grad_inputs[*at] : TensorView();
  };
  if (gradient("cos").rank != 0 || gradient("sin").rank != 0) {
    return with_hint(make_error(ErrorCode::kUnsupported, "rope: the table has no gradient"),
                     "ask for those of q and k");
  }
  if (gradient("q").rank == 0 || (problem.position("k") && gradient("k").rank == 0)) {
    return with_hint(make_error(ErrorCode::kUnsupported, "rope: the gradients of q and k are made together"),
                     "give memory for both");
  }
  Args args;
  args.q = grad_outputs[0];
  args.q_out = gradient("q");
  if (problem.position("k")) args.k = grad_outputs[1];
  args.k_out = gradient("k");
  args.cos = operand(problem, forward, "cos");
  args.sin = operand(problem, forward, "sin");
  args.positions = operand(problem, forward, "positions");
  args.offset = forward.scalar(problem, kOffset).whole();
  args.interleaved = shape_of(problem).interleaved;
  args.inverse = !shape_of(problem).inverse;
  return make_call(args);
}

}  // namespace

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "rotary position embedding of q and k: pairs of elements turned by the angle of their position";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    return spot_check_by_reference(problem, arguments, reference);
  };
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = heads_alignment;
  op.backward = Backward{"rope", {"cos", "sin", "positions"}, backward_call, {}, {"cos", "sin"}};
  return op;
}

}  // namespace ridge::ops::rope
