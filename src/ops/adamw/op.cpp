#include <array>
#include <cmath>

#include "base/error.h"
#include "ops/adamw/adamw.h"
#include "ops/arguments.h"

namespace ridge::ops::adamw {
namespace {

constexpr std::string_view kOp = "adamw";

std::vector<record::ParamInfo> params() {
  std::vector<record::ParamInfo> all = {{"count", "65536", "elements", {}}};
  for (record::ParamInfo& param : form_params()) all.push_back(std::move(param));
  return all;
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, params(), with_dtype_names(requested, {"dtype", "state"})));
  const Form form = form_of(problem);
  const std::int64_t count = count_of(problem);
  RIDGE_CHECK_OK(check_addressable(problem.problem_case.text(), "param", count, 1));
  add_inputs(problem, form, {count});
  for (OperandSpec& changed : changed_operands(form, {count})) problem.operands.push_back(std::move(changed));
  add_scalars(problem);
  return problem;
}

// ---- The arguments of callers

// Of the shape of param.
Status check_alike(std::string_view op, const char* name, const TensorView& view, DType dtype,
                   const TensorView& param) {
  const std::span<const std::int64_t> sizes(param.shape.data(), static_cast<std::size_t>(param.rank));
  RIDGE_CHECK_OK(check_shape(op, name, view, dtype, sizes, [&] {
    return param.rank == 1 ? fmt::format("give {} as many elements as param", name)
                           : fmt::format("give {} the shape of param", name);
  }));
  return check_layout(op, name, view, param.rank,
                      param.rank == 1 ? "give contiguous memory" : "give a row-major matrix");
}

Status check_number(std::string_view op, const char* name, const TensorView& view) {
  if (view.rank == 0) return ok_status();
  const std::int64_t shape[] = {1};
  return check_shape(op, name, view, DType::kF32, shape, "give one number");
}

Status check_range(std::string_view op, const char* name, double value, double least, double below) {
  if (value >= least && value < below) return ok_status();  // neither is so of NaN
  return with_hint(invalid("{}: {} is {}, which is not possible", op, name, value),
                   std::isfinite(below) ? fmt::format("give a number from {} to below {}", least, below)
                                        : fmt::format("give a finite number from {}", least));
}

Status check_scalars(std::string_view op, const Args& args) {
  constexpr double kInfinity = HUGE_VAL;
  RIDGE_CHECK_OK(check_range(op, "lr", args.lr, 0, kInfinity));
  RIDGE_CHECK_OK(check_range(op, "beta1", args.beta1, 0, 1));
  RIDGE_CHECK_OK(check_range(op, "beta2", args.beta2, 0, 1));
  RIDGE_CHECK_OK(check_range(op, "eps", args.eps, 0, kInfinity));
  RIDGE_CHECK_OK(check_range(op, "weight_decay", args.weight_decay, 0, kInfinity));
  return check_range(op, "step", args.step, 1, kInfinity);
}

Status check_all_apart(std::string_view op, const Args& args) {
  const NamedView views[] = {{"param", &args.param},   {"exp_avg", &args.exp_avg}, {"exp_avg_sq", &args.exp_avg_sq},
                             {"master", &args.master}, {"grad", &args.grad},       {"factor", &args.factor},
                             {"skip", &args.skip}};
  constexpr std::size_t kOutputs = 4;
  for (std::size_t i = 0; i < kOutputs; ++i) {
    for (std::size_t j = i + 1; j < std::size(views); ++j) RIDGE_CHECK_OK(check_apart(op, views[i], {views[j]}));
  }
  return ok_status();
}

// For launch plans: how many elements make 16 bytes of the widest operand, and whether every operand starts on whole
// such units.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Form s = form_of(problem);
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

std::vector<record::ParamInfo> form_params() {
  return {{"dtype", "bf16", "of param", {"f32", "bf16", "f16"}},
          record::flag_param("wide_grad", "1: grad is f32 whatever param is"),
          {"state", "f32", "dtype of exp_avg and exp_avg_sq", {"f32", "bf16"}},
          record::flag_param("master", "1: the step changes a copy of param in f32"),
          record::flag_param("factor", "1: times a number in memory"),
          record::flag_param("skip", "1: a number in memory may say that nothing changes"),
          record::flag_param("maximize", "1: against the gradient")};
}

void add_inputs(Problem& problem, const Form& form, const std::vector<std::int64_t>& sizes) {
  problem.operands = {{"grad", form.grad, sizes}};
  const auto number = [&](const char* name, Fill fill) {
    OperandSpec spec{name, DType::kF32, {1}};
    spec.fill = fill;
    problem.operands.push_back(spec);
  };
  if (form.factor) number("factor", {Fill::Rule::kUniform, 0.25, 2});
  if (form.skip) number("skip", {Fill::Rule::kIndices, 0, 1});
}

std::vector<OperandSpec> changed_operands(const Form& form, const std::vector<std::int64_t>& sizes) {
  std::vector<OperandSpec> changed = {{"param", form.dtype, sizes, true, true},
                                      {"exp_avg", form.state, sizes, true, true},
                                      {"exp_avg_sq", form.state, sizes, true, true}};
  // With beta2 from a half on, a step of f16 weights stays finite.
  changed.back().fill = {Fill::Rule::kUniform, 0x1p-10, 1};
  if (form.master) changed.push_back({"master", DType::kF32, sizes, true, true});
  return changed;
}

void add_scalars(Problem& problem) {
  problem.scalars = {
      {"lr", "length of a step", record::Scalar::f64(1e-3), 1e-4, 0.5},
      {"beta1", "share of exp_avg that stays", record::Scalar::f64(0.9), 0, 0.99},
      {"beta2", "share of exp_avg_sq that stays", record::Scalar::f64(0.999), 0.5, 0.9999},
      {"eps", "added to the root", record::Scalar::f64(1e-8), 1e-8, 0.5},
      {"weight_decay", "share of the weights that is taken off, times lr", record::Scalar::f64(1e-2), 0, 0.5},
      {"correction1", "1 - beta1^step", record::Scalar::f64(0.5), 0.01, 1},
      {"correction2", "1 - beta2^step", record::Scalar::f64(0.5), 0.0001, 1}};
}

Status check_args(std::string_view op, const Args& args, int rank) {
  RIDGE_CHECK_OK(
      check_layout(op, "param", args.param, rank, rank == 1 ? "give contiguous memory" : "give a row-major matrix"));
  if (index_of(kDtypes, args.param.dtype) < 0) {
    return with_hint(invalid("{}: param is {}; this dtype is not supported", op, args.param.describe()),
                     "give f32, bf16 or f16");
  }
  if (index_of(kStates, args.exp_avg.dtype) < 0) {
    return with_hint(invalid("{}: exp_avg is {}; this dtype is not supported", op, args.exp_avg.describe()),
                     "give f32 or bf16");
  }
  const DType grad = args.grad.dtype == DType::kF32 ? DType::kF32 : args.param.dtype;
  RIDGE_CHECK_OK(check_alike(op, "grad", args.grad, grad, args.param));
  RIDGE_CHECK_OK(check_alike(op, "exp_avg", args.exp_avg, args.exp_avg.dtype, args.param));
  RIDGE_CHECK_OK(check_alike(op, "exp_avg_sq", args.exp_avg_sq, args.exp_avg.dtype, args.param));
  if (args.master.rank != 0) RIDGE_CHECK_OK(check_alike(op, "master", args.master, DType::kF32, args.param));
  RIDGE_CHECK_OK(check_number(op, "factor", args.factor));
  RIDGE_CHECK_OK(check_number(op, "skip", args.skip));
  RIDGE_CHECK_OK(check_scalars(op, args));
  return check_all_apart(op, args);
}

void add_form(Call& call, const Args& args) {
  const std::size_t first = call.values.size();
  call.values.resize(first + kFormCount);
  const auto set = [&](FormParam param, std::int64_t value) { call.values[first + param] = value; };
  set(kDtype, index_of(kDtypes, args.param.dtype));
  set(kWideGrad, args.grad.dtype == args.param.dtype ? 0 : 1);
  set(kState, index_of(kStates, args.exp_avg.dtype));
  set(kMaster, args.master.rank != 0 ? 1 : 0);
  set(kFactor, args.factor.rank != 0 ? 1 : 0);
  set(kSkip, args.skip.rank != 0 ? 1 : 0);
  set(kMaximize, args.maximize ? 1 : 0);
  for (const TensorView* view : {&args.grad, &args.factor, &args.skip}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  for (const double scalar : {args.lr, args.beta1, args.beta2, args.eps, args.weight_decay,
                              1 - std::pow(args.beta1, args.step), 1 - std::pow(args.beta2, args.step)}) {
    call.scalars.push_back(record::Scalar::f64(scalar));
  }
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(kOp, args, 1));
  Call call;
  call.values.push_back(args.param.shape[0]);
  add_form(call, args);
  for (const TensorView* view : {&args.param, &args.exp_avg, &args.exp_avg_sq, &args.master}) {
    if (view->rank != 0) call.operands.push_back(*view);
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
