#include "base/error.h"
#include "ops/arguments.h"
#include "ops/quantize/contract.h"
#include "ops/quantize/quantize.h"

namespace ridge::ops::quantize {
namespace {

constexpr std::string_view kOp = "quantize";

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_layout(kOp, "x", args.x, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, args.x.dtype) < 0) {
    return with_hint(invalid("{}: x is {}; this dtype is not supported", kOp, args.x.describe()),
                     "give f32, bf16 or f16");
  }
  const NamedView inputs[] = {{"x", &args.x}};
  return coding::check(kOp, coding::views_of(args), args.x, inputs);
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "format"});
  coding::complete(canonical);
  RIDGE_TRY(problem, bind_params(kOp, params(), canonical));
  const coding::Coding c = coding_of(problem);
  RIDGE_CHECK_OK(check_addressable(problem.problem_case.text(), "x", c.rows, c.cols));
  problem.operands = {{"x", kDtypes[static_cast<std::size_t>(problem.values[kDtype])], {c.rows, c.cols}, false, false}};
  RIDGE_CHECK_OK(coding::add_operands(problem, c));
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = args.x.shape[0];
  call.values[kCols] = args.x.shape[1];
  call.values[kDtype] = index_of(kDtypes, args.x.dtype);
  call.operands.push_back(args.x);
  coding::add_to(call, coding::views_of(args));
  return call;
}

std::vector<record::ParamInfo> params() {
  std::vector<record::ParamInfo> all = {
      {"rows", "256", "of x", {}}, {"cols", "256", "of x", {}}, {"dtype", "bf16", "of x", {"f32", "bf16", "f16"}}};
  coding::add_params(all, "tensor");
  return all;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "8-bit floats with scales, of a matrix and of its transpose";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    return spot_check_by_reference(problem, arguments, reference);
  };
  op.cost = cost;
  op.cases = cases;
  op.device_check = device_check();
  op.vary = vary;
  return op;
}

}  // namespace ridge::ops::quantize
