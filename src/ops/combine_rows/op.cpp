#include <fmt/format.h>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/combine_rows/combine_rows.h"

namespace ridge::ops::combine_rows {
namespace {

constexpr std::string_view kOp = "combine_rows";

std::vector<record::ParamInfo> all_params() {
  std::vector<record::ParamInfo> all = params();
  all.push_back(record::flag_param("weights", "1: each source has a weight"));
  return all;
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, all_params(), with_dtype_names(requested, {"dtype", "index"})));
  RIDGE_CHECK_OK(check_sizes(problem));
  const Shape s = shape_of(problem);
  add_inputs(problem);
  if (s.weights) problem.operands.push_back({"weights", DType::kF32, {s.rows, s.top}});
  problem.operands.push_back({"y", s.dtype, {s.rows, s.cols}, true});
  return problem;
}

}  // namespace

std::vector<record::ParamInfo> params() {
  return {{"rows", "256", "of from", {}},
          {"sources", "256", "rows of x", {}},
          {"cols", "1024", "of x, from 1", {}},
          {"top", "8", "sources of a row, 1 to 64", {}},
          {"dtype", "bf16", "of x", {"f32", "bf16", "f16"}},
          {"index", "i32", "of from", {"i32", "i64"}}};
}

Status check_sizes(const Problem& problem) {
  const Shape s = shape_of(problem);
  const std::string_view where = problem.problem_case.text();
  RIDGE_CHECK_OK(check_rows(problem, s.rows, s.cols));
  RIDGE_CHECK_OK(check_addressable(where, "x", s.sources, s.cols));
  if (s.top >= 1 && s.top <= kMostTop) return ok_status();
  return with_hint(invalid("{}: top={}", where, s.top), fmt::format("give 1 to {}", kMostTop));
}

void add_inputs(Problem& problem) {
  const Shape s = shape_of(problem);
  OperandSpec from{"from", s.index, {s.rows, s.top}};
  from.fill = {Fill::Rule::kIndices, -1, static_cast<double>(s.sources - 1)};
  problem.operands = {{"x", s.dtype, {s.sources, s.cols}}, std::move(from)};
}

Status check_inputs(std::string_view op, const TensorView& x, const TensorView& from) {
  RIDGE_CHECK_OK(check_layout(op, "x", x, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, x.dtype) < 0) {
    return with_hint(invalid("{}: x is {}; this dtype is not supported", op, x.describe()), "give f32, bf16 or f16");
  }
  RIDGE_CHECK_OK(check_row_length(op, x.shape[1]));
  RIDGE_CHECK_OK(check_layout(op, "from", from, 2, "copy it to a row-major matrix"));
  if (index_of(kIndices, from.dtype) < 0) {
    return with_hint(invalid("{}: from is {}; these are numbers of rows", op, from.describe()), "give i32 or i64");
  }
  if (from.shape[1] >= 1 && from.shape[1] <= kMostTop) return ok_status();
  return with_hint(invalid("{}: from is {}", op, from.describe()),
                   fmt::format("give [rows, top] with 1 to {} sources of a row", kMostTop));
}

void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Shape s = shape_of(problem);
  bool vectors = size_bytes(s.dtype, s.cols) % 16 == 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool matrix = problem.operands[i].dtype == s.dtype && problem.operands[i].shape.back() == s.cols;
    vectors = vectors && (!matrix || view_alignment(operands[i]) >= 16);
  }
  facts["vectors"] = vectors ? 1 : 0;
}

Status check_per_source(std::string_view op, std::string_view name, const TensorView& view, const TensorView& from) {
  RIDGE_CHECK_OK(check_shape(op, name, view, DType::kF32, std::span(from.shape).first(2),
                             "give a matrix of f32 of the shape of from"));
  return check_layout(op, name, view, 2, "copy it to a row-major matrix");
}

Status check_sources(std::string_view op, const Shape& s, const TensorView& from) {
  for (std::int64_t place = 0; place < s.rows * s.top; ++place) {
    const std::int64_t source = source_at(from, place / s.top, place % s.top);
    if (source < s.sources) continue;
    return with_hint(
        invalid("{}: from[{}, {}] is {}; x has {} rows", op, place / s.top, place % s.top, source, s.sources),
        "give numbers below that, or a negative one for none");
  }
  return ok_status();
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_inputs(kOp, args.x, args.from));
  const std::int64_t rows = args.from.shape[0];
  const bool weights = args.weights.rank != 0;
  if (weights) RIDGE_CHECK_OK(check_per_source(kOp, "weights", args.weights, args.from));
  const std::int64_t shape[] = {rows, args.x.shape[1]};
  RIDGE_CHECK_OK(check_like_x(kOp, "y", args.y, args.x.dtype, shape));
  RIDGE_CHECK_OK(check_apart(kOp, {"y", &args.y}, {{"x", &args.x}, {"from", &args.from}, {"weights", &args.weights}}));
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = rows;
  call.values[kSources] = args.x.shape[0];
  call.values[kCols] = args.x.shape[1];
  call.values[kTop] = args.from.shape[1];
  call.values[kDtype] = index_of(kDtypes, args.x.dtype);
  call.values[kIndex] = index_of(kIndices, args.from.dtype);
  call.values[kWeights] = weights ? 1 : 0;
  for (const TensorView* view : {&args.x, &args.from, &args.weights, &args.y}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "rows as weighted sums of other rows: to the experts of a mixture and back";
  op.params = all_params();
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

}  // namespace ridge::ops::combine_rows
