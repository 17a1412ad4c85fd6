#include "base/error.h"
#include "ops/arguments.h"
#include "ops/rmsnorm/backward/backward.h"

namespace ridge::ops::rmsnorm_backward {
namespace {

constexpr std::string_view kOp = "rmsnorm_backward";

Status nothing_wanted() {
  return with_hint(invalid("rmsnorm_backward: neither dx nor dweight is given"), "give one of them, or both");
}

Status check_outputs(const Args& args) {
  const NamedView dy{"dy", &args.dy}, x{"x", &args.x}, rstd{"rstd", &args.rstd}, weight{"weight", &args.weight},
      dsum{"dsum", &args.dsum}, dweight{"dweight", &args.dweight};
  RIDGE_CHECK_OK(check_apart(kOp, {"dx", &args.dx}, {dy, x, rstd, weight, dsum, dweight}));
  return check_apart(kOp, dweight, {dy, x, rstd, weight, dsum});
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_layout(kOp, "x", args.x, 2, "copy it to a row-major matrix"));
  const DType dtype = args.x.dtype;
  if (index_of(kDtypes, dtype) < 0) {
    return with_hint(invalid("rmsnorm_backward: x is {}; this dtype is not supported", args.x.describe()),
                     "give f32, bf16 or f16");
  }
  const std::int64_t shape[] = {args.x.shape[0], args.x.shape[1]};
  RIDGE_CHECK_OK(check_row_length(kOp, shape[1]));
  RIDGE_CHECK_OK(check_like_x(kOp, "dy", args.dy, dtype, shape));
  RIDGE_CHECK_OK(check_per_row(kOp, "rstd", args.rstd, DType::kF32, shape[0]));
  RIDGE_CHECK_OK(rmsnorm::check_weight(kOp, "weight", args.weight, dtype, shape[1]));
  if (args.dx.rank == 0 && args.dweight.rank == 0) return nothing_wanted();
  if (args.dsum.rank != 0) RIDGE_CHECK_OK(check_like_x(kOp, "dsum", args.dsum, dtype, shape));
  if (args.dx.rank != 0) RIDGE_CHECK_OK(check_like_x(kOp, "dx", args.dx, dtype, shape));
  if (args.zero_centred && args.weight.rank == 0) return rmsnorm::zero_centred_without_weight(kOp);
  if (args.dweight.rank != 0) {
    if (args.weight.rank == 0) {
      return with_hint(invalid("rmsnorm_backward: dweight is wanted and no weight is given"),
                       "give the weight of the forward call");
    }
    const std::int64_t cols[] = {shape[1]};
    RIDGE_CHECK_OK(
        check_shape(kOp, "dweight", args.dweight, args.weight.dtype, cols, "give it the shape and dtype of weight"));
    RIDGE_CHECK_OK(check_layout(kOp, "dweight", args.dweight, 1, "give a contiguous vector"));
  }
  return check_outputs(args);
}

std::vector<record::ParamInfo> params() {
  return {{"rows", "256", "of x", {}},
          {"cols", "1024", "of x, from 1", {}},
          {"dtype", "bf16", "of x, dy and dx", {"f32", "bf16", "f16"}},
          {"weight", "same", "same: of the dtype of x; none: 1", {"none", "same", "f32"}},
          record::flag_param("zero_centred", "1: the weight counts as 1 + weight"),
          record::flag_param("residual", "1: another gradient of what was normalised is added to dx"),
          {"wanted", "both", "gradients", {"dx", "dweight", "both"}}};
}

Status check_case(const Problem& problem, const Shape& s) {
  RIDGE_CHECK_OK(check_rows(problem, s.rows, s.cols));
  const std::string where = problem.problem_case.text();
  if (s.weight == Weight::kNone && s.dweight) {
    return with_hint(invalid("{}: there is no weight to have a gradient", where), "set weight=same or wanted=dx");
  }
  if (s.weight == Weight::kNone && s.zero_centred) return rmsnorm::zero_centred_without_weight(where);
  if (s.residual && !s.dx) {
    return with_hint(invalid("{}: dsum is added to dx, which is not wanted", where), "set residual=0 or wanted=both");
  }
  return ok_status();
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype"});
  if (canonical.get("wanted").empty() && canonical.get("weight") == "none") canonical.set("wanted", "dx");
  RIDGE_TRY(problem, bind_params(kOp, params(), canonical));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_case(problem, s));
  const std::vector<std::int64_t> shape = {s.rows, s.cols};
  const DType weight = weight_dtype(s.weight, s.dtype);
  problem.operands = {{"dy", s.dtype, shape}, {"x", s.dtype, shape}, {"rstd", DType::kF32, {s.rows}}};
  if (s.weight != Weight::kNone) problem.operands.push_back({"weight", weight, {s.cols}});
  if (s.residual) problem.operands.push_back({"dsum", s.dtype, shape});
  if (s.dx) problem.operands.push_back({"dx", s.dtype, shape, true});
  if (s.dweight) problem.operands.push_back({"dweight", weight, {s.cols}, true});
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  const bool dx = args.dx.rank != 0, dweight = args.dweight.rank != 0;
  const TensorView dsum = dx ? args.dsum : TensorView();
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = args.x.shape[0];
  call.values[kCols] = args.x.shape[1];
  call.values[kDtype] = index_of(kDtypes, args.x.dtype);
  call.values[kWeight] = rmsnorm::weight_param(args.weight, args.x.dtype);
  call.values[kZeroCentred] = args.zero_centred ? 1 : 0;
  call.values[kResidual] = dsum.rank != 0 ? 1 : 0;
  call.values[kWanted] = dx && dweight ? kBoth : dx ? kDx : kDweight;
  for (const TensorView* view : {&args.dy, &args.x, &args.rstd, &args.weight, &dsum, &args.dx, &args.dweight}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "gradients of rmsnorm: dx, with another gradient added, and dweight";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = rmsnorm::vector_facts;
  return op;
}

}  // namespace ridge::ops::rmsnorm_backward
