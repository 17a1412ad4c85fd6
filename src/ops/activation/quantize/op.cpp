#include "base/error.h"
#include "ops/activation/quantize/quantize.h"
#include "ops/arguments.h"

namespace ridge::ops::activation_quantize {
namespace {

constexpr std::string_view kOp = "activation_quantize";

std::vector<record::ParamInfo> all_params() {
  std::vector<record::ParamInfo> all = activation::params();
  coding::add_params(all, "1x128");
  return all;
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "format"});
  coding::complete(canonical);
  RIDGE_TRY(problem, bind_params(kOp, all_params(), canonical));
  const coding::Coding c = coding_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, c.rows, c.cols));
  activation::add_inputs(problem);
  RIDGE_CHECK_OK(coding::add_operands(problem, c));
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  const activation::Args& forward = args.forward;
  RIDGE_CHECK_OK(activation::check_inputs(kOp, forward));
  const coding::Views views = coding::views_of(args);
  const NamedView inputs[] = {
      {"x", &forward.x}, {"up", &forward.up}, {"probs", &forward.probs}, {"mask", &forward.mask}};
  RIDGE_CHECK_OK(coding::check(kOp, views, forward.x, inputs));
  Call call = activation::call_of(forward);
  coding::add_to(call, views);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "activation of a matrix in 8-bit floats with scales, and of its transpose, without storing it";
  op.params = all_params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    return spot_check_by_reference(problem, arguments, reference);
  };
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = activation::vary;
  return op;
}

}  // namespace ridge::ops::activation_quantize
