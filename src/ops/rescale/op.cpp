#include "base/error.h"
#include "ops/arguments.h"
#include "ops/rescale/rescale.h"

namespace ridge::ops::rescale {
namespace {

constexpr std::string_view kOp = "rescale";

std::vector<record::ParamInfo> params() {
  return {{"rows", "256", "of x", {}},
          {"cols", "1024", "of x", {}},
          {"dtype", "bf16", "of x", {"f32", "bf16", "f16"}},
          record::flag_param("per_row", "1: a factor for every row")};
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, params(), with_dtype_names(requested, {"dtype"})));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, s.rows, s.cols));
  OperandSpec factor{"factor", DType::kF32, {s.per_row ? s.rows : 1}};
  if (s.per_row) factor.fill = {Fill::Rule::kIndices, 0, 3};  // some of them 1
  problem.operands = {factor, {"x", s.dtype, {s.rows, s.cols}, true, true}};
  return problem;
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_layout(kOp, "x", args.x, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, args.x.dtype) < 0) {
    return with_hint(invalid("rescale: x is {}; this dtype is not supported", args.x.describe()),
                     "give f32, bf16 or f16");
  }
  RIDGE_CHECK_OK(check_row_length(kOp, args.x.shape[1]));
  const bool one = args.factor.rank == 1 && args.factor.shape[0] == 1;
  RIDGE_CHECK_OK(check_per_row(kOp, "factor", args.factor, DType::kF32, one ? 1 : args.x.shape[0]));
  return check_apart(kOp, {"x", &args.x}, {{"factor", &args.factor}});
}

void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Shape s = shape_of(problem);
  const bool whole = size_bytes(s.dtype, s.cols) % 16 == 0;
  facts["vectors"] = whole && (operands.empty() || view_alignment(operands[1]) >= 16) ? 1 : 0;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = args.x.shape[0];
  call.values[kCols] = args.x.shape[1];
  call.values[kDtype] = index_of(kDtypes, args.x.dtype);
  call.values[kPerRow] = args.factor.shape[0] == 1 ? 0 : 1;
  call.operands.push_back(args.factor);
  call.operands.push_back(args.x);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "a matrix times a factor, or a factor of each row, in place; nothing where the factor is 1";
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

}  // namespace ridge::ops::rescale
