#include "base/error.h"
#include "ops/arguments.h"
#include "ops/combine_rows/backward/backward.h"

namespace ridge::ops::combine_rows_backward {
namespace {

constexpr std::string_view kOp = "combine_rows_backward";

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, combine_rows::params(), with_dtype_names(requested, {"dtype", "index"})));
  RIDGE_CHECK_OK(combine_rows::check_sizes(problem));
  const Shape s = shape_of(problem);
  combine_rows::add_inputs(problem);
  problem.operands.push_back({"dy", s.dtype, {s.rows, s.cols}});
  problem.operands.push_back({"dweights", DType::kF32, {s.rows, s.top}, true});
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(combine_rows::check_inputs(kOp, args.x, args.from));
  const std::int64_t shape[] = {args.from.shape[0], args.x.shape[1]};
  RIDGE_CHECK_OK(check_like_x(kOp, "dy", args.dy, args.x.dtype, shape));
  RIDGE_CHECK_OK(combine_rows::check_per_source(kOp, "dweights", args.dweights, args.from));
  RIDGE_CHECK_OK(
      check_apart(kOp, {"dweights", &args.dweights}, {{"x", &args.x}, {"from", &args.from}, {"dy", &args.dy}}));
  Call call;
  call.values = {args.from.shape[0],
                 args.x.shape[0],
                 args.x.shape[1],
                 args.from.shape[1],
                 index_of(combine_rows::kDtypes, args.x.dtype),
                 index_of(combine_rows::kIndices, args.from.dtype)};
  for (const TensorView* view : {&args.x, &args.from, &args.dy, &args.dweights}) call.operands.push_back(*view);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "the gradient of combine_rows's weights: products of rows of dy with their sources";
  op.params = combine_rows::params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = combine_rows::vary;
  op.plan_values = combine_rows::plan_values;
  return op;
}

}  // namespace ridge::ops::combine_rows_backward
