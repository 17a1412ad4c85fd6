#include "base/error.h"
#include "ops/adamw/quantize/quantize.h"
#include "ops/arguments.h"

namespace ridge::ops::adamw_quantize {
namespace {

constexpr std::string_view kOp = "adamw_quantize";

std::vector<record::ParamInfo> all_params() {
  std::vector<record::ParamInfo> all = {{"rows", "256", "of the weight", {}}, {"cols", "256", "of the weight", {}}};
  for (record::ParamInfo& param : adamw::form_params()) all.push_back(std::move(param));
  coding::add_params(all, "128x128");
  return all;
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "state", "format"});
  coding::complete(canonical);
  RIDGE_TRY(problem, bind_params(kOp, all_params(), canonical));
  const coding::Coding c = coding_of(problem);
  RIDGE_CHECK_OK(check_addressable(problem.problem_case.text(), "param", c.rows, c.cols));
  const adamw::Form form = form_of(problem);
  adamw::add_inputs(problem, form, {c.rows, c.cols});
  RIDGE_CHECK_OK(coding::add_operands(problem, c, adamw::changed_operands(form, {c.rows, c.cols})));
  adamw::add_scalars(problem);
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  const AdamwArgs& step = args.update;
  RIDGE_CHECK_OK(adamw::check_args(kOp, step, 2));
  const coding::Views views = coding::views_of(args);
  const NamedView others[] = {{"param", &step.param},   {"exp_avg", &step.exp_avg}, {"exp_avg_sq", &step.exp_avg_sq},
                              {"master", &step.master}, {"grad", &step.grad},       {"factor", &step.factor},
                              {"skip", &step.skip}};
  RIDGE_CHECK_OK(coding::check(kOp, views, step.param, others, "param"));
  Call call;
  call.values.push_back(step.param.shape[0]);
  call.values.push_back(step.param.shape[1]);
  adamw::add_form(call, step);
  coding::add_to(call, views, {step.param, step.exp_avg, step.exp_avg_sq, step.master});
  return call;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kRows, kCols};
  return vary_sizes(problem, kSizes, 150, variation, seed);
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "a step of AdamW for a weight, which is coded in 8-bit floats with scales in the same pass";
  op.params = all_params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  return op;
}

}  // namespace ridge::ops::adamw_quantize
