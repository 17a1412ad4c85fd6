#include <array>
#include <cmath>

#include "base/error.h"
#include "ops/adamw/adamw.h"
#include "ops/arguments.h"

namespace ridge::ops::adamw {
namespace {

constexpr std::string_view kOp = "adamw";

std::vector<record::ParamInfo> params() {
  return {{"count", "65536", "elements", {}},
          {"dtype", "bf16", "of param", {"f32", "bf16", "f16"}},
          record::flag_param("wide_grad", "1: grad is f32 whatever param is"),
          {"state", "f32", "dtype of exp_avg and exp_avg_sq", {"f32", "bf16"}},
          record::flag_param("master", "1: the step changes a copy of param in f32"),
          record::flag_param("factor", "1: times a number in memory"),
          record::flag_param("skip", "1: a number in memory may say that nothing changes"),
          record::flag_param("maximize", "1: against the gradient")};
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, params(), with_dtype_names(requested, {"dtype", "state"})));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_addressable(problem.problem_case.text(), "param", s.count, 1));
  problem.operands = {{"grad", s.grad, {s.count}}};
  const auto number = [&](const char* name, Fill fill) {
    OperandSpec spec{name, DType::kF32, {1}};
    spec.fill = fill;
    problem.operands.push_back(spec);
  };
  if (s.factor) number("factor", {Fill::Rule::kUniform, 0.25, 2});
  if (s.skip) number("skip", {Fill::Rule::kIndices, 0, 1});
  const auto changed = [&](const char* name, DType dtype) {
    problem.operands.push_back({name, dtype, {s.count}, true, true});
  };
  changed("param", s.dtype);
  changed("exp_avg", s.state);
  changed("exp_avg_sq", s.state);
  // With beta2 from a half on, a step of f16 weights stays finite.
  problem.operands.back().fill = {Fill::Rule::kUniform, 0x1p-10, 1};
  if (s.master) changed("master", DType::kF32);
  problem.scalars = {
      {"lr", "length of a step", record::Scalar::f64(1e-3), 1e-4, 0.5},
      {"beta1", "share of exp_avg that stays", record::Scalar::f64(0.9), 0, 0.99},
      {"beta2", "share of exp_avg_sq that stays", record::Scalar::f64(0.999), 0.5, 0.9999},
      {"eps", "added to the root", record::Scalar::f64(1e-8), 1e-8, 0.5},
      {"weight_decay", "share of the weights that is taken off, times lr", record::Scalar::f64(1e-2), 0, 0.5},
      {"correction1", "1 - beta1^step", record::Scalar::f64(0.5), 0.01, 1},
      {"correction2", "1 - beta2^step", record::Scalar::f64(0.5), 0.0001, 1}};
  return problem;
}

// ---- The arguments of callers

Status check_vector(const char* name, const TensorView& view, DType dtype, std::int64_t count) {
  const std::int64_t shape[] = {count};
  RIDGE_CHECK_OK(check_shape(kOp, name, view, dtype, shape,
                             [&] { return fmt::format("give {} as many elements as param", name); }));
  return check_layout(kOp, name, view, 1, "give contiguous memory");
}

Status check_number(const char* name, const TensorView& view) {
  if (view.rank == 0) return ok_status();
  const std::int64_t shape[] = {1};
  return check_shape(kOp, name, view, DType::kF32, shape, "give one number");
}

Status check_range(const char* name, double value, double least, double below) {
  if (value >= least && value < below) return ok_status();  // neither is so of NaN
  return with_hint(invalid("adamw: {} is {}, which is not possible", name, value),
                   std::isfinite(below) ? fmt::format("give a number from {} to below {}", least, below)
                                        : fmt::format("give a finite number from {}", least));
}

Status check_scalars(const Args& args) {
  constexpr double kInfinity = HUGE_VAL;
  RIDGE_CHECK_OK(check_range("lr", args.lr, 0, kInfinity));
  RIDGE_CHECK_OK(check_range("beta1", args.beta1, 0, 1));
  RIDGE_CHECK_OK(check_range("beta2", args.beta2, 0, 1));
  RIDGE_CHECK_OK(check_range("eps", args.eps, 0, kInfinity));
  RIDGE_CHECK_OK(check_range("weight_decay", args.weight_decay, 0, kInfinity));
  return check_range("step", args.step, 1, kInfinity);
}

Status check_all_apart(const Args& args) {
  const NamedView views[] = {{"param", &args.param},   {"exp_avg", &args.exp_avg}, {"exp_avg_sq", &args.exp_avg_sq},
                             {"master", &args.master}, {"grad", &args.grad},       {"factor", &args.factor},
                             {"skip", &args.skip}};
  constexpr std::size_t kOutputs = 4;
  for (std::size_t i = 0; i < kOutputs; ++i) {
    for (std::size_t j = i + 1; j < std::size(views); ++j) RIDGE_CHECK_OK(check_apart(kOp, views[i], {views[j]}));
  }
  return ok_status();
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_layout(kOp, "param", args.param, 1, "give contiguous memory"));
  if (index_of(kDtypes, args.param.dtype) < 0) {
    return with_hint(invalid("adamw: param is {}; this dtype is not supported", args.param.describe()),
                     "give f32, bf16 or f16");
  }
  if (index_of(kStates, args.exp_avg.dtype) < 0) {
    return with_hint(invalid("adamw: exp_avg is {}; this dtype is not supported", args.exp_avg.describe()),
                     "give f32 or bf16");
  }
  const std::int64_t count = args.param.shape[0];
  const DType grad = args.grad.dtype == DType::kF32 ? DType::kF32 : args.param.dtype;
  RIDGE_CHECK_OK(check_vector("grad", args.grad, grad, count));
  RIDGE_CHECK_OK(check_vector("exp_avg", args.exp_avg, args.exp_avg.dtype, count));
  RIDGE_CHECK_OK(check_vector("exp_avg_sq", args.exp_avg_sq, args.exp_avg.dtype, count));
  if (args.master.rank != 0) RIDGE_CHECK_OK(check_vector("master", args.master, DType::kF32, count));
  RIDGE_CHECK_OK(check_number("factor", args.factor));
  RIDGE_CHECK_OK(check_number("skip", args.skip));
  RIDGE_CHECK_OK(check_scalars(args));
  return check_all_apart(args);
}

// For launch plans: how many elements make 16 bytes of the widest operand, and whether every operand starts on whole
// such units.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Shape s = shape_of(problem);
  const bool wide = s.dtype == DType::kF32 || s.grad == DType::kF32 || s.state == DType::kF32 || s.master;
  const std::int64_t unit = wide ? 4 : 8;
  bool vectors = true;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string& name = problem.operands[i].name;
    if (name == "factor" || name == "skip") continue;
    const auto bytes = static_cast<std::int64_t>(size_bytes(operands[i].dtype, unit));
    vectors = vectors && view_alignment(operands[i]) >= bytes;
  }
  facts["unit"] = unit;
  facts["vectors"] = vectors ? 1 : 0;
}

}  // namespace

Constants constants_of(const Problem& problem, const Arguments& arguments) {
  const auto given = [&](ScalarAt at) { return arguments.scalar(problem, at).real(); };
  const auto rounded = [](double x) { return static_cast<double>(static_cast<float>(x)); };
  return {rounded(1 - given(kLr) * given(kWeightDecay)),
          rounded(1 - given(kBeta1)),
          rounded(given(kBeta2)),
          rounded(1 - given(kBeta2)),
          rounded(given(kLr) / given(kCorrection1)),
          rounded(1 / std::sqrt(given(kCorrection2))),
          rounded(given(kEps))};
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  call.values[kCount] = args.param.shape[0];
  call.values[kDtype] = index_of(kDtypes, args.param.dtype);
  call.values[kWideGrad] = args.grad.dtype == args.param.dtype ? 0 : 1;
  call.values[kState] = index_of(kStates, args.exp_avg.dtype);
  call.values[kMaster] = args.master.rank != 0 ? 1 : 0;
  call.values[kFactor] = args.factor.rank != 0 ? 1 : 0;
  call.values[kSkip] = args.skip.rank != 0 ? 1 : 0;
  call.values[kMaximize] = args.maximize ? 1 : 0;
  for (const TensorView* view :
       {&args.grad, &args.factor, &args.skip, &args.param, &args.exp_avg, &args.exp_avg_sq, &args.master}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  for (const double scalar : {args.lr, args.beta1, args.beta2, args.eps, args.weight_decay,
                              1 - std::pow(args.beta1, args.step), 1 - std::pow(args.beta2, args.step)}) {
    call.scalars.push_back(record::Scalar::f64(scalar));
  }
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "a step of AdamW for one tensor: moments, decay and new weights in one pass";
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

}  // namespace ridge::ops::adamw
