#include "base/error.h"
#include "ops/arguments.h"
#include "ops/rmsnorm/quantize/quantize.h"

namespace ridge::ops::rmsnorm_quantize {
namespace {

std::vector<record::ParamInfo> all_params() {
  std::vector<record::ParamInfo> all = row_norm::input_params();
  coding::add_params(all, "1x128");
  return all;
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "format"});
  coding::complete(canonical);
  RIDGE_TRY(problem, bind_params(kKind.op, all_params(), canonical));
  RIDGE_CHECK_OK(row_norm::add_inputs(kKind, problem));
  const coding::Coding c = coding_of(problem);
  std::vector<OperandSpec> outputs;
  if (has_residual(problem)) outputs.push_back({"sum", problem.operands[0].dtype, {c.rows, c.cols}, true});
  outputs.push_back({"rstd", DType::kF32, {c.rows}, true});
  RIDGE_CHECK_OK(coding::add_operands(problem, c, std::move(outputs)));
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  const RmsnormArgs& f = args.forward;
  const row_norm::ForwardViews forward{f.x, f.residual, f.weight, {}, {}, f.sum, {}, f.rstd, f.zero_centred, f.eps};
  RIDGE_CHECK_OK(row_norm::check_forward(kKind, forward));
  if (f.rstd.rank == 0) {
    return with_hint(invalid("{}: rstd is left out", kKind.op), "give memory for one f32 of each row");
  }
  const coding::Views views = coding::views_of(args);
  const NamedView others[] = {
      {"x", &f.x}, {"residual", &f.residual}, {"weight", &f.weight}, {"sum", &f.sum}, {"rstd", &f.rstd}};
  RIDGE_CHECK_OK(coding::check(kKind.op, views, f.x, others));
  Call call = row_norm::input_call(forward, kFirstOfCoding);
  coding::add_to(call, views, {f.sum, f.rstd});
  return call;
}

Operator describe() {
  Operator op;
  op.name = kKind.op;
  op.summary = "rmsnorm of a matrix in 8-bit floats with scales, and of its transpose, without storing it";
  op.params = all_params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    return spot_check_by_reference(problem, arguments, reference);
  };
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = row_norm::vary;
  return op;
}

}  // namespace ridge::ops::rmsnorm_quantize
