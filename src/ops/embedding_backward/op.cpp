#include <fmt/format.h>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/embedding_backward/embedding_backward.h"

namespace ridge::ops::embedding_backward {
namespace {

constexpr std::string_view kOp = "embedding_backward";

std::vector<record::ParamInfo> params() {
  return {{"tokens", "512", "rows of dy", {}},
          {"vocabulary", "4096", "rows of dw, from 1", {}},
          {"cols", "1024", "of dy and dw, from 1", {}},
          {"dtype", "bf16", "of dy", {"f32", "bf16", "f16"}},
          {"out", "bf16", "of dw, dtype or f32; as dtype where it is not given", {"f32", "bf16", "f16"}},
          {"index", "i64", "of ids", {"i64", "i32"}},
          record::flag_param("accumulate", "1: added to dw, which is f32")};
}

Status check_types(std::string_view where, DType dy, DType dw, bool accumulate) {
  if (accumulate && dw != DType::kF32) {
    return with_hint(invalid("{}: dw is {} and is added to", where, to_string(dw)), "give dw of f32");
  }
  if (dw == dy || dw == DType::kF32) return ok_status();
  return with_hint(invalid("{}: dw is {} and dy {}", where, to_string(dw), to_string(dy)),
                   "give dw of dy's dtype, or of f32");
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_layout(kOp, "dy", args.dy, 2, "copy it to a row-major matrix"));
  RIDGE_CHECK_OK(check_layout(kOp, "dw", args.dw, 2, "give row-major memory for it"));
  if (index_of(kDtypes, args.dy.dtype) < 0) {
    return with_hint(invalid("{}: dy is {}; this dtype is not supported", kOp, args.dy.describe()),
                     "give f32, bf16 or f16");
  }
  RIDGE_CHECK_OK(check_row_length(kOp, args.dy.shape[1]));
  RIDGE_CHECK_OK(check_types(kOp, args.dy.dtype, args.dw.dtype, args.accumulate));
  if (args.dw.shape[0] < 1 || args.dw.shape[1] != args.dy.shape[1]) {
    return with_hint(invalid("{}: dw is {} and dy {}", kOp, args.dw.describe(), args.dy.describe()),
                     "give dw [vocabulary, cols] with the columns of dy");
  }
  const DType index = args.ids.dtype == DType::kI32 ? DType::kI32 : DType::kI64;
  RIDGE_CHECK_OK(check_per_row(kOp, "ids", args.ids, index, args.dy.shape[0]));
  return check_apart(kOp, {"dw", &args.dw}, {{"dy", &args.dy}, {"ids", &args.ids}});
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "out", "index"});
  if (canonical.get("out").empty()) {
    const std::string dtype(canonical.get("dtype"));
    canonical.set("out", canonical.get("accumulate") == "1" ? "f32" : dtype.empty() ? "bf16" : dtype);
  }
  RIDGE_TRY(problem, bind_params(kOp, params(), canonical));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, s.tokens, s.cols));
  RIDGE_CHECK_OK(check_addressable(problem.problem_case.text(), "dw", s.vocabulary, s.cols));
  RIDGE_CHECK_OK(check_types(problem.problem_case.text(), s.dtype, s.out, s.accumulate));
  if (s.vocabulary < 1) {
    return with_hint(invalid("{}: a vocabulary of {} rows", problem.problem_case.text(), s.vocabulary),
                     "give at least one");
  }
  OperandSpec ids{"ids", s.index, {s.tokens}};
  ids.fill = {Fill::Rule::kIndices, 0, static_cast<double>(s.vocabulary - 1)};
  problem.operands = {
      {"dy", s.dtype, {s.tokens, s.cols}}, std::move(ids), {"dw", s.out, {s.vocabulary, s.cols}, true, s.accumulate}};
  problem.scalars = {{"padding_idx", "id of tokens that count for nothing", record::Scalar::i64(-1), 0,
                      static_cast<double>(s.vocabulary - 1)}};
  return problem;
}

// For launch plans: vectors, 1 where rows of dy and dw start on 16 bytes and are whole multiples of them.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Shape s = shape_of(problem);
  const bool whole = size_bytes(s.dtype, s.cols) % 16 == 0;
  facts["vectors"] = whole && view_alignment(operands[kDy]) >= 16 && view_alignment(operands[kDw]) >= 16 ? 1 : 0;
}

}  // namespace

Result<Sorted> sorted(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  const std::int64_t padding = arguments.scalar(problem, kPadding).whole();
  Sorted found;
  found.first.assign(static_cast<std::size_t>(s.vocabulary + 1), 0);
  for (std::int64_t token = 0; token < s.tokens; ++token) {
    const std::int64_t id = id_at(arguments[kIds], token);
    if (id == padding && padding >= 0) continue;
    if (id < 0 || id >= s.vocabulary) {
      return with_hint(invalid("{}: ids[{}] is {}; the table has {} rows", kOp, token, id, s.vocabulary),
                       fmt::format("give numbers from 0 to {}", s.vocabulary - 1));
    }
    ++found.first[static_cast<std::size_t>(id + 1)];
  }
  for (std::size_t v = 1; v < found.first.size(); ++v) found.first[v] += found.first[v - 1];
  found.tokens.resize(static_cast<std::size_t>(found.first.back()));
  std::vector<std::int64_t> next = found.first;
  for (std::int64_t token = 0; token < s.tokens; ++token) {
    const std::int64_t id = id_at(arguments[kIds], token);
    if (id == padding && padding >= 0) continue;
    found.tokens[static_cast<std::size_t>(next[static_cast<std::size_t>(id)]++)] = token;
  }
  return found;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  call.values[kTokens] = args.dy.shape[0];
  call.values[kVocabulary] = args.dw.shape[0];
  call.values[kCols] = args.dy.shape[1];
  call.values[kDtype] = index_of(kDtypes, args.dy.dtype);
  call.values[kOut] = index_of(kDtypes, args.dw.dtype);
  call.values[kIndex] = index_of(kIndices, args.ids.dtype);
  call.values[kAccumulate] = args.accumulate ? 1 : 0;
  for (const TensorView* view : {&args.dy, &args.ids, &args.dw}) call.operands.push_back(*view);
  call.scalars.push_back(record::Scalar::i64(args.padding_idx));
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "the gradient of a table of rows: rows of dy added up by their ids, in their order";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = plan_values;
  return op;
}

}  // namespace ridge::ops::embedding_backward
