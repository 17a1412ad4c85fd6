#include <cmath>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/cross_entropy/backward/backward.h"
#include "ops/cross_entropy/cross_entropy.h"

namespace ridge::ops::cross_entropy {
namespace {

constexpr std::string_view kOp = "cross_entropy";

struct Statistic {
  const char* name;
  TensorView Args::*view;
};
constexpr Statistic kShardOutputs[] = {{"shard_max", &Args::shard_max},
                                       {"shard_sum", &Args::shard_sum},
                                       {"shard_target", &Args::shard_target},
                                       {"shard_logits", &Args::shard_logits}};

// What is written, in the order of a call.
std::vector<NamedView> outputs_of(const Args& args) {
  std::vector<NamedView> outputs;
  const auto add = [&](const char* name, const TensorView& view) {
    if (view.rank != 0) outputs.push_back({name, &view});
  };
  add("loss", args.loss);
  add("lse", args.lse);
  add("dlogits", args.dlogits);
  for (const Statistic& one : kShardOutputs) add(one.name, args.*one.view);
  return outputs;
}

Status check_form(const Args& args) {
  const bool shard = args.settings.whole != 0;
  if (!shard && args.loss.rank == 0)
    return with_hint(invalid("cross_entropy: loss is not given"), "give memory for it");
  if (shard && (args.loss.rank != 0 || args.lse.rank != 0 || args.dlogits.rank != 0 || args.grad.rank != 0)) {
    return with_hint(invalid("cross_entropy: a shard has no loss, lse, dlogits or grad: they are of the whole row"),
                     "give the four statistics alone, and make dlogits by cross_entropy_backward");
  }
  for (const Statistic& one : kShardOutputs) {
    if (((args.*one.view).rank != 0) == shard) continue;
    return with_hint(invalid("cross_entropy: {} is {}, and `whole` is {}", one.name, shard ? "not given" : "given",
                             args.settings.whole),
                     "give all four statistics with `whole` of a shard, or neither");
  }
  if (args.grad.rank == 0 || args.dlogits.rank != 0) return ok_status();
  return with_hint(invalid("cross_entropy: grad is given and dlogits is not wanted"), "give both, or leave grad out");
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_inputs(kOp, args.logits, args.targets, args.settings));
  RIDGE_CHECK_OK(check_form(args));
  const std::int64_t tokens = args.logits.shape[0];
  if (args.grad.rank != 0) RIDGE_CHECK_OK(check_per_row(kOp, "grad", args.grad, DType::kF32, tokens));
  RIDGE_CHECK_OK(check_gradient(kOp, args.dlogits, args.logits));
  const std::vector<NamedView> outputs = outputs_of(args);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool gradient = outputs[i].view == &args.dlogits;
    if (!gradient) {
      RIDGE_CHECK_OK(check_per_row(kOp, outputs[i].name, *outputs[i].view, DType::kF32, tokens));
      RIDGE_CHECK_OK(check_apart(kOp, outputs[i], {{"logits", &args.logits}}));
    }
    RIDGE_CHECK_OK(check_apart(kOp, outputs[i], {{"targets", &args.targets}, {"grad", &args.grad}}));
    for (std::size_t j = 0; j < i; ++j) RIDGE_CHECK_OK(check_apart(kOp, outputs[i], {outputs[j]}));
  }
  return ok_status();
}

std::vector<record::ParamInfo> all_params() {
  std::vector<record::ParamInfo> all = params();
  all.push_back(record::flag_param("grad", "1: gradients are times a factor of each row"));
  all.push_back(record::flag_param("lse", "1: written, for backward; given where there is no shard"));
  all.push_back(record::flag_param("dlogits", "1: the gradient of the logits is written"));
  return all;
}

Status check_case(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  if (v[kShard] == 1 && (v[kGrad] == 1 || v[kLse] == 1 || v[kDlogits] == 1)) {
    return with_hint(invalid("{}: a shard has its statistics alone", problem.problem_case.text()),
                     "leave grad, lse and dlogits out");
  }
  if (v[kGrad] == 0 || v[kDlogits] == 1) return ok_status();
  return with_hint(invalid("{}: grad is a factor of dlogits, which is not wanted", problem.problem_case.text()),
                   "set dlogits=1 or grad=0");
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "index"});
  if (canonical.get("lse").empty()) canonical.set("lse", canonical.get("shard") == "1" ? "0" : "1");
  RIDGE_TRY(problem, bind_params(kOp, all_params(), canonical));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, s.tokens, s.vocabulary));
  RIDGE_CHECK_OK(check_case(problem));
  const std::vector<std::int64_t> matrix = {s.tokens, s.vocabulary}, vector = {s.tokens};
  problem.operands = {{"logits", s.dtype, matrix}, targets_of(problem)};
  if (problem.values[kGrad] == 1) problem.operands.push_back({"grad", DType::kF32, vector});
  const auto add = [&](const char* name) { problem.operands.push_back({name, DType::kF32, vector, true}); };
  if (!s.shard) add("loss");
  if (problem.values[kLse] == 1) add("lse");
  if (problem.values[kDlogits] == 1) problem.operands.push_back({"dlogits", s.dtype, matrix, true});
  for (const Statistic& one : kShardOutputs) {
    if (s.shard) add(one.name);
  }
  add_scalars(problem);
  return problem;
}

Result<Call> backward_call(const Problem& problem, const Arguments& forward, std::span<const TensorView> grad_outputs,
                           std::span<const TensorView> grad_inputs) {
  const std::string where = problem.problem_case.text();
  const auto grad = problem.position("grad");
  if (problem.values[kLse] == 0 || (grad && grad_inputs[*grad].rank != 0)) {
    return with_hint(make_error(ErrorCode::kUnsupported, "{}: backward reads lse, and grad has no gradient", where),
                     "write lse in the forward call, and ask for the gradient of logits alone");
  }
  cross_entropy_backward::Args args;
  args.dloss = grad_outputs[0];
  args.logits = operand(problem, forward, "logits");
  args.targets = operand(problem, forward, "targets");
  args.lse = operand(problem, forward, "lse");
  args.dlogits = grad_inputs[0];
  args.settings = settings_of(problem, forward);
  args.settings.first = args.settings.whole = 0;
  args.settings.grad_scale = 1;  // it is of dlogits of the forward call
  return cross_entropy_backward::make_call(args);
}

Status bad_target(const Problem& problem, std::int64_t row, std::int64_t value, std::int64_t whole,
                  std::int64_t ignored) {
  return with_hint(
      invalid("{}: targets[{}] is {}; the vocabulary has {} columns", problem.problem_case.op, row, value, whole),
      fmt::format("give numbers from 0 to {}, or ignore_index ({}) for rows that do not count", whole - 1, ignored));
}

}  // namespace

CrossEntropySettings settings_of(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  const auto real = [&](ScalarAt at) { return arguments.scalar(problem, at).real(); };
  CrossEntropySettings settings;
  settings.label_smoothing = real(kSmoothing);
  settings.z_loss = real(kZLoss);
  settings.soft_cap = s.soft_cap ? real(kCap) : 0;
  settings.grad_scale = real(kGradScale);
  settings.ignore_index = arguments.scalar(problem, kIgnore).whole();
  settings.first = s.shard ? arguments.scalar(problem, kFirst).whole() : 0;
  settings.whole = s.shard ? arguments.scalar(problem, kWhole).whole() : s.vocabulary;
  return settings;
}

std::vector<record::ParamInfo> params() {
  return {{"tokens", "64", "rows of logits", {}},
          {"vocabulary", "4096", "columns of logits, from 1", {}},
          {"dtype", "bf16", "of logits and dlogits", {"f32", "bf16", "f16"}},
          {"index", "i64", "of targets", {"i64", "i32"}},
          record::flag_param("soft_cap", "1: logits count as soft_cap tanh(logits / soft_cap)"),
          record::flag_param("shard", "1: some columns of a larger vocabulary")};
}

Status check_settings(std::string_view op, const CrossEntropySettings& s, std::int64_t vocabulary) {
  const auto within = [&](const char* name, double value, double most, const char* way_out) -> Status {
    const auto stored = static_cast<float>(value);
    if (stored >= 0 && std::isfinite(stored) && stored <= most) return ok_status();
    return with_hint(invalid("{}: {} is {}", op, name, value), way_out);
  };
  RIDGE_CHECK_OK(within("label_smoothing", s.label_smoothing, 1, "give a number from 0 to 1"));
  RIDGE_CHECK_OK(within("z_loss", s.z_loss, HUGE_VAL, "give a finite number from 0"));
  RIDGE_CHECK_OK(within("soft_cap", s.soft_cap, HUGE_VAL, "give a finite number above 0, or 0 for none"));
  if (!std::isfinite(static_cast<float>(s.grad_scale))) {
    return with_hint(invalid("{}: grad_scale is {}", op, s.grad_scale), "give a finite number");
  }
  if (s.whole == 0 && s.first == 0) return ok_status();
  if (s.first >= 0 && vocabulary <= s.whole && s.first <= s.whole - vocabulary) return ok_status();
  return with_hint(invalid("{}: a shard of {} columns from {} on is not within a vocabulary of {}", op, vocabulary,
                           s.first, s.whole),
                   "give the number of all columns as `whole` and the shard's first one as `first`");
}

Status check_inputs(std::string_view op, const TensorView& logits, const TensorView& targets,
                    const CrossEntropySettings& settings) {
  RIDGE_CHECK_OK(check_layout(op, "logits", logits, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, logits.dtype) < 0) {
    return with_hint(invalid("{}: logits is {}; this dtype is not supported", op, logits.describe()),
                     "give f32, bf16 or f16");
  }
  RIDGE_CHECK_OK(check_row_length(op, logits.shape[1]));
  const DType index = targets.dtype == DType::kI32 ? DType::kI32 : DType::kI64;
  RIDGE_CHECK_OK(check_per_row(op, "targets", targets, index, logits.shape[0]));
  return check_settings(op, settings, logits.shape[1]);
}

Status check_gradient(std::string_view op, const TensorView& dlogits, const TensorView& logits) {
  if (dlogits.rank == 0) return ok_status();
  RIDGE_CHECK_OK(check_like_x(op, "dlogits", dlogits, logits.dtype, std::span(logits.shape).first(2)));
  const bool same = dlogits.data == logits.data && (logits.shape[0] < 2 || dlogits.stride[0] == logits.stride[0]);
  return same ? ok_status() : check_apart(op, {"dlogits", &dlogits}, {{"logits", &logits}});
}

OperandSpec targets_of(const Problem& problem) {
  const Shape s = shape_of(problem);
  OperandSpec targets{"targets", s.index, {s.tokens}};
  targets.fill = {Fill::Rule::kIndices, 0, static_cast<double>((s.shard ? 2 : 1) * s.vocabulary - 1)};
  return targets;
}

void add_scalars(Problem& problem) {
  const Shape s = shape_of(problem);
  const auto columns = static_cast<double>(s.vocabulary);
  const auto f32 = [](float value) { return record::Scalar::f32(value); };
  const auto i64 = [](std::int64_t value) { return record::Scalar::i64(value); };
  const std::int64_t first = s.shard ? s.vocabulary / 2 : 0, whole = s.shard ? 2 * s.vocabulary : s.vocabulary;
  problem.scalars = {
      {"label_smoothing", "spread over all columns", f32(0), 0, 0.5},
      {"z_loss", "times the square of lse", f32(0), 0, 0.125},
      {"soft_cap", "largest logit", f32(s.soft_cap ? 30 : 0), s.soft_cap ? 0.5 : 0.0, s.soft_cap ? 50.0 : 0.0},
      {"grad_scale", "of dlogits", f32(1), -2, 8},
      {"ignore_index", "target of rows that do not count", i64(-100), 0, columns - 1},
      {"first", "column of a shard", i64(first), 0, s.shard ? columns : 0},
      {"whole", "vocabulary of a shard", i64(whole), static_cast<double>(whole), static_cast<double>(whole)}};
}

void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Shape s = shape_of(problem);
  bool vectors = size_bytes(s.dtype, s.vocabulary) % 16 == 0;
  for (const char* name : {"logits", "dlogits"}) {
    const auto at = problem.position(name);
    if (at) vectors = vectors && view_alignment(operands[*at]) >= 16;
  }
  facts["vectors"] = vectors ? 1 : 0;
  facts["capped"] = s.soft_cap ? 1 : 0;  // the scalar has the parameter's name
}

Call call_of(const TensorView& logits, const TensorView& targets, const CrossEntropySettings& settings,
             std::size_t params) {
  Call call;
  call.values.resize(params);
  call.values[kTokens] = logits.shape[0];
  call.values[kVocabulary] = logits.shape[1];
  call.values[kDtype] = index_of(kDtypes, logits.dtype);
  call.values[kIndex] = index_of(kIndices, targets.dtype);
  call.values[kSoftCap] = settings.soft_cap > 0 ? 1 : 0;
  call.values[kShard] = settings.whole != 0 ? 1 : 0;
  for (const double real : {settings.label_smoothing, settings.z_loss, settings.soft_cap, settings.grad_scale}) {
    call.scalars.push_back(record::Scalar::f32(static_cast<float>(real)));
  }
  const std::int64_t whole = settings.whole != 0 ? settings.whole : logits.shape[1];
  for (const std::int64_t number : {settings.ignore_index, settings.first, whole}) {
    call.scalars.push_back(record::Scalar::i64(number));
  }
  return call;
}

Status check_targets(const Problem& problem, const Arguments& arguments) {
  const CrossEntropySettings settings = settings_of(problem, arguments);
  const TensorView targets = operand(problem, arguments, "targets");
  for (std::int64_t row = 0; row < targets.shape[0]; ++row) {
    const std::int64_t value = target_at(targets, row);
    if ((value >= 0 && value < settings.whole) || value == settings.ignore_index) continue;
    return bad_target(problem, row, value, settings.whole, settings.ignore_index);
  }
  return ok_status();
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call = call_of(args.logits, args.targets, args.settings, kParamCount);
  call.values[kGrad] = args.grad.rank != 0 ? 1 : 0;
  call.values[kLse] = args.lse.rank != 0 ? 1 : 0;
  call.values[kDlogits] = args.dlogits.rank != 0 ? 1 : 0;
  call.operands.push_back(args.logits);
  call.operands.push_back(args.targets);
  if (args.grad.rank != 0) call.operands.push_back(args.grad);
  for (const NamedView& output : outputs_of(args)) call.operands.push_back(*output.view);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "the loss of rows of logits against targets, and in the same pass the gradient of the logits";
  op.params = all_params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = plan_values;
  op.backward = Backward{"cross_entropy_backward",
                         {"logits", "targets", "lse"},
                         backward_call,
                         {"lse", "dlogits", "shard_max", "shard_sum", "shard_target", "shard_logits"}};
  return op;
}

}  // namespace ridge::ops::cross_entropy
