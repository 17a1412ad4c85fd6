#include "ops/row_norm/row_norm.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "ops/arguments.h"

namespace ridge::ops::row_norm {
namespace {

std::vector<record::ParamInfo> common_params(const char* of, record::ParamInfo residual) {
  return {{"rows", "256", "of x", {}},
          {"cols", "1024", "of x, from 1", {}},
          {"dtype", "bf16", of, {"f32", "bf16", "f16"}},
          {"weight", "same", "same: of the dtype of x; none: 1", {"none", "same", "f32"}},
          record::flag_param("zero_centred", "1: the weight counts as 1 + weight"),
          std::move(residual)};
}

Status zero_centred_without_weight(std::string_view where) {
  return with_hint(invalid("{}: zero_centred is about the weight, and there is none", where),
                   "give a weight, or leave zero_centred out");
}

Status check_eps(std::string_view op, double eps) {
  const auto stored = static_cast<float>(eps);
  if (stored >= 0 && std::isfinite(stored)) return ok_status();
  return with_hint(invalid("{}: an eps of {} is not possible", op, eps), "give a finite number from 0");
}

// One number for each column, of the dtype of x or f32.
Status check_columns(std::string_view op, const char* name, const TensorView& view, DType dtype, std::int64_t cols) {
  if (view.rank == 0) return ok_status();
  const std::int64_t shape[] = {cols};
  const DType own = view.dtype == DType::kF32 ? DType::kF32 : dtype;
  RIDGE_CHECK_OK(check_shape(op, name, view, own, shape, "one number for each column, of the dtype of x or f32"));
  return check_layout(op, name, view, 1, "give a contiguous vector");
}

Status check_x(std::string_view op, const TensorView& x) {
  RIDGE_CHECK_OK(check_layout(op, "x", x, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, x.dtype) < 0) {
    return with_hint(invalid("{}: x is {}; this dtype is not supported", op, x.describe()), "give f32, bf16 or f16");
  }
  return check_row_length(op, x.shape[1]);
}

// A bias has the dtype of the weight, or is one of those that a weight may be where there is none.
Status check_bias(std::string_view op, const TensorView& bias, const TensorView& weight) {
  if (bias.rank == 0 || weight.rank == 0 || bias.dtype == weight.dtype) return ok_status();
  return with_hint(invalid("{}: bias is {} and weight is {}", op, bias.describe(), weight.describe()),
                   "give both the same dtype");
}

Status check_residual(std::string_view op, const ForwardViews& v, std::span<const std::int64_t> shape) {
  if ((v.residual.rank != 0) != (v.sum.rank != 0)) {
    return with_hint(invalid("{}: {} is given without {}", op, v.sum.rank != 0 ? "sum" : "residual",
                             v.sum.rank != 0 ? "residual" : "sum"),
                     "give both, or neither");
  }
  if (v.residual.rank == 0) return ok_status();
  RIDGE_CHECK_OK(check_like_x(op, "residual", v.residual, v.x.dtype, shape));
  return check_like_x(op, "sum", v.sum, v.x.dtype, shape);
}

Status check_statistics(const Kind& kind, const ForwardViews& v) {
  if (kind.mean && (v.mean.rank != 0) != (v.rstd.rank != 0)) {
    return with_hint(invalid("{}: {} is given without {}", kind.op, v.mean.rank != 0 ? "mean" : "rstd",
                             v.mean.rank != 0 ? "rstd" : "mean"),
                     "give both, or neither");
  }
  const std::int64_t rows = v.x.shape[0];
  if (v.rstd.rank != 0) RIDGE_CHECK_OK(check_per_row(kind.op, "rstd", v.rstd, DType::kF32, rows));
  if (v.mean.rank != 0) RIDGE_CHECK_OK(check_per_row(kind.op, "mean", v.mean, DType::kF32, rows));
  return ok_status();
}

// The outputs share memory with nothing else.
Status check_all_apart(std::string_view op, std::span<const NamedView> outputs, std::span<const NamedView> inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const NamedView& input : inputs) RIDGE_CHECK_OK(check_apart(op, outputs[i], {input}));
    for (std::size_t j = i + 1; j < outputs.size(); ++j) RIDGE_CHECK_OK(check_apart(op, outputs[i], {outputs[j]}));
  }
  return ok_status();
}

Status check_parameter_gradient(std::string_view op, const char* name, const char* of, const TensorView& gradient,
                                const TensorView& parameter, DType dtype, std::int64_t cols) {
  if (gradient.rank == 0) return ok_status();
  const std::int64_t shape[] = {cols};
  RIDGE_CHECK_OK(check_shape(op, name, gradient, parameter.rank != 0 ? parameter.dtype : dtype, shape,
                             [&] { return fmt::format("give it the shape and dtype of {}", of); }));
  return check_layout(op, name, gradient, 1, "give a contiguous vector");
}

// Sizes around a vector, a warm piece, a row in a cache, and many rows, whose weight gradient is a long sum.
std::vector<record::Case> check_cases(std::string_view op, std::span<const char* const> forms) {
  std::vector<record::Case> cases;
  const auto add = [&](std::int64_t rows, std::int64_t cols, std::string_view more) {
    cases.push_back(built_in_case(fmt::format("{} rows={} cols={} {}", op, rows, cols, more)));
  };
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* form : forms) {
      for (const auto& [rows, cols] : {std::pair{5, 24}, std::pair{3, 67}, std::pair{9, 1032}}) {
        add(rows, cols, fmt::format("dtype={} {}", dtype, form));
      }
    }
  }
  for (const auto& [rows, cols] : {std::pair{0, 5},
                                   {0, 16},
                                   {1, 1},
                                   {130, 1},
                                   {70, 2},
                                   {33, 8},
                                   {700, 16},
                                   {65, 40},
                                   {190, 128},
                                   {7, 136},
                                   {6, 256},
                                   {50, 1000},
                                   {4, 1024},
                                   {3, 2049},
                                   {2, 4096},
                                   {2, 7168},
                                   {1, 16384}}) {
    add(rows, cols, "");
  }
  add(2, 20000, "residual=1");
  add(2, 65536, "weight=none");
  add(1, 65536, "dtype=f32 weight=f32");
  add(1, 65544, "weight=f32");
  return cases;
}

}  // namespace

Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{v[kRows],
               v[kCols],
               kDtypes[static_cast<std::size_t>(v[kDtype])],
               static_cast<Weight>(v[kWeight]),
               v[kZeroCentred] == 1,
               v[kResidual] == 1,
               v[kStatistics] == 1,
               v.size() > kBias && v[kBias] == 1};
}

Status check_forward(const Kind& kind, const ForwardViews& v) {
  RIDGE_CHECK_OK(check_x(kind.op, v.x));
  const std::int64_t shape[] = {v.x.shape[0], v.x.shape[1]};
  if (v.y.rank != 0) RIDGE_CHECK_OK(check_like_x(kind.op, "y", v.y, v.x.dtype, shape));
  RIDGE_CHECK_OK(check_columns(kind.op, "weight", v.weight, v.x.dtype, shape[1]));
  RIDGE_CHECK_OK(check_columns(kind.op, "bias", v.bias, v.x.dtype, shape[1]));
  RIDGE_CHECK_OK(check_bias(kind.op, v.bias, v.weight));
  if (v.zero_centred && v.weight.rank == 0) return zero_centred_without_weight(kind.op);
  RIDGE_CHECK_OK(check_residual(kind.op, v, shape));
  RIDGE_CHECK_OK(check_statistics(kind, v));
  RIDGE_CHECK_OK(check_eps(kind.op, v.eps));
  const NamedView outputs[] = {{"y", &v.y}, {"sum", &v.sum}, {"mean", &v.mean}, {"rstd", &v.rstd}};
  const NamedView inputs[] = {{"x", &v.x}, {"residual", &v.residual}, {"weight", &v.weight}, {"bias", &v.bias}};
  return check_all_apart(kind.op, outputs, inputs);
}

std::vector<record::ParamInfo> input_params() {
  return common_params("of x and y", record::flag_param("residual", "1: of x + residual, which is written, too"));
}

std::vector<record::ParamInfo> forward_params(const Kind& kind) {
  std::vector<record::ParamInfo> params = input_params();
  const char* const name = kind.mean ? "statistics" : "rstd";
  const char* const what =
      kind.mean ? "1: mean and factor of every row are written" : "1: the factor of every row is written, for backward";
  params.push_back({name, "1", what, {"0", "1"}, record::ParamKind::kFlag});
  if (kind.mean) params.push_back(record::flag_param("bias", "1: added, of the weight's dtype (without one: of x's)"));
  return params;
}

Status add_inputs(const Kind& kind, Problem& problem) {
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_rows(problem, s.rows, s.cols));
  if (s.zero_centred && s.weight == Weight::kNone) return zero_centred_without_weight(problem.problem_case.text());
  const std::vector<std::int64_t> shape = {s.rows, s.cols};
  problem.operands = {{"x", s.dtype, shape}};
  if (s.residual) problem.operands.push_back({"residual", s.dtype, shape});
  if (s.weight != Weight::kNone) problem.operands.push_back({"weight", weight_dtype(s.weight, s.dtype), {s.cols}});
  const char* const what = kind.mean ? "added to the variance" : "added to the mean of the squares";
  const double usual = kind.mean ? 1e-5 : 1e-6;
  problem.scalars = {{"eps", what, record::Scalar::f32(static_cast<float>(usual)), usual, 0.5}};
  return ok_status();
}

Result<Problem> bind_forward(const Kind& kind, const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kind.op, forward_params(kind), with_dtype_names(requested, {"dtype"})));
  RIDGE_CHECK_OK(add_inputs(kind, problem));
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> shape = {s.rows, s.cols};
  if (s.bias) problem.operands.push_back({"bias", weight_dtype(s.weight, s.dtype), {s.cols}});
  problem.operands.push_back({"y", s.dtype, shape, true});
  if (s.residual) problem.operands.push_back({"sum", s.dtype, shape, true});
  if (s.statistics && kind.mean) problem.operands.push_back({"mean", DType::kF32, {s.rows}, true});
  if (s.statistics) problem.operands.push_back({"rstd", DType::kF32, {s.rows}, true});
  return problem;
}

Call input_call(const ForwardViews& v, std::size_t params) {
  Call call;
  call.values.resize(params);
  call.values[kRows] = v.x.shape[0];
  call.values[kCols] = v.x.shape[1];
  call.values[kDtype] = index_of(kDtypes, v.x.dtype);
  call.values[kWeight] = weight_param(v.weight, v.x.dtype);
  call.values[kZeroCentred] = v.zero_centred ? 1 : 0;
  call.values[kResidual] = v.residual.rank != 0 ? 1 : 0;
  for (const TensorView* view : {&v.x, &v.residual, &v.weight, &v.bias}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  call.scalars.push_back(record::Scalar::f32(static_cast<float>(v.eps)));
  return call;
}

Result<Call> forward_call(const Kind& kind, const ForwardViews& v) {
  RIDGE_CHECK_OK(check_forward(kind, v));
  Call call = input_call(v, kind.mean ? kBias + 1 : kBias);
  call.values[kStatistics] = v.rstd.rank != 0 ? 1 : 0;
  if (kind.mean) call.values[kBias] = v.bias.rank != 0 ? 1 : 0;
  for (const TensorView* view : {&v.y, &v.sum, &v.mean, &v.rstd}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  return call;
}

Status check_backward(const Kind& kind, const BackwardViews& v) {
  const std::string_view op = kind.op;
  RIDGE_CHECK_OK(check_x(op, v.x));
  const DType dtype = v.x.dtype;
  const std::int64_t shape[] = {v.x.shape[0], v.x.shape[1]};
  RIDGE_CHECK_OK(check_like_x(op, "dy", v.dy, dtype, shape));
  RIDGE_CHECK_OK(check_per_row(op, "rstd", v.rstd, DType::kF32, shape[0]));
  if (kind.mean) RIDGE_CHECK_OK(check_per_row(op, "mean", v.mean, DType::kF32, shape[0]));
  RIDGE_CHECK_OK(check_columns(op, "weight", v.weight, dtype, shape[1]));
  if (v.dx.rank == 0 && v.dweight.rank == 0 && v.dbias.rank == 0) {
    return kind.mean ? with_hint(invalid("{}: none of dx, dweight and dbias is given", op), "give one of them, or more")
                     : with_hint(invalid("{}: neither dx nor dweight is given", op), "give one of them, or both");
  }
  if (v.dsum.rank != 0) RIDGE_CHECK_OK(check_like_x(op, "dsum", v.dsum, dtype, shape));
  if (v.dx.rank != 0) RIDGE_CHECK_OK(check_like_x(op, "dx", v.dx, dtype, shape));
  if (v.zero_centred && v.weight.rank == 0) return zero_centred_without_weight(op);
  if (v.dweight.rank != 0 && v.weight.rank == 0) {
    return with_hint(invalid("{}: dweight is wanted and no weight is given", op),
                     "give the weight of the forward call");
  }
  RIDGE_CHECK_OK(check_parameter_gradient(op, "dweight", "weight", v.dweight, v.weight, dtype, shape[1]));
  RIDGE_CHECK_OK(check_parameter_gradient(op, "dbias", "bias", v.dbias, v.weight, dtype, shape[1]));
  const NamedView outputs[] = {{"dx", &v.dx}, {"dweight", &v.dweight}, {"dbias", &v.dbias}};
  const NamedView inputs[] = {{"dy", &v.dy},     {"x", &v.x},           {"mean", &v.mean},
                              {"rstd", &v.rstd}, {"weight", &v.weight}, {"dsum", &v.dsum}};
  return check_all_apart(op, outputs, inputs);
}

std::vector<record::ParamInfo> backward_params() {
  return common_params("of x, dy and dx",
                       record::flag_param("residual", "1: another gradient of what was normalised is added to dx"));
}

Status describe_backward(const Kind& kind, const BackwardShape& s, Problem& problem) {
  RIDGE_CHECK_OK(check_rows(problem, s.rows, s.cols));
  const std::string where = problem.problem_case.text();
  if (s.weight == Weight::kNone && s.dweight) {
    return with_hint(invalid("{}: there is no weight to have a gradient", where),
                     kind.mean ? "set weight=same or dweight=0" : "set weight=same or wanted=dx");
  }
  if (s.weight == Weight::kNone && s.zero_centred) return zero_centred_without_weight(where);
  if (s.residual && !s.dx) {
    return with_hint(invalid("{}: dsum is added to dx, which is not wanted", where),
                     kind.mean ? "set residual=0 or dx=1" : "set residual=0 or wanted=both");
  }
  if (!s.dx && !s.dweight && !s.dbias) {
    return with_hint(invalid("{}: no gradient is wanted", where), "set one of dx, dweight and dbias to 1");
  }
  const std::vector<std::int64_t> shape = {s.rows, s.cols};
  const DType weight = weight_dtype(s.weight, s.dtype);
  problem.operands = {{"dy", s.dtype, shape}, {"x", s.dtype, shape}};
  if (kind.mean) problem.operands.push_back({"mean", DType::kF32, {s.rows}});
  problem.operands.push_back({"rstd", DType::kF32, {s.rows}});
  if (s.weight != Weight::kNone) problem.operands.push_back({"weight", weight, {s.cols}});
  if (s.residual) problem.operands.push_back({"dsum", s.dtype, shape});
  if (s.dx) problem.operands.push_back({"dx", s.dtype, shape, true});
  if (s.dweight) problem.operands.push_back({"dweight", weight, {s.cols}, true});
  if (s.dbias) problem.operands.push_back({"dbias", weight, {s.cols}, true});
  return ok_status();
}

Call backward_call(const BackwardViews& v, std::size_t params) {
  Call call;
  call.values.resize(params);
  const TensorView dsum = v.dx.rank != 0 ? v.dsum : TensorView();
  call.values[kRows] = v.x.shape[0];
  call.values[kCols] = v.x.shape[1];
  call.values[kDtype] = index_of(kDtypes, v.x.dtype);
  call.values[kWeight] = weight_param(v.weight, v.x.dtype);
  call.values[kZeroCentred] = v.zero_centred ? 1 : 0;
  call.values[kResidual] = dsum.rank != 0 ? 1 : 0;
  for (const TensorView* view : {&v.dy, &v.x, &v.mean, &v.rstd, &v.weight, &dsum, &v.dx, &v.dweight, &v.dbias}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  return call;
}

Result<BackwardViews> backward_views(const Problem& problem, const Arguments& forward,
                                     std::span<const TensorView> grad_outputs,
                                     std::span<const TensorView> grad_inputs) {
  const Shape s = shape_of(problem);
  const std::string where = problem.problem_case.text();
  if (!s.statistics) {
    return with_hint(
        make_error(ErrorCode::kUnsupported, "{}: backward reads rstd, which this call does not write", where),
        "give rstd in the forward call");
  }
  const std::size_t first_output = *problem.position("y");
  const auto gradient = [&](const char* name) {
    const auto at = problem.position(name);
    if (!at) return TensorView();
    return *at < first_output ? grad_inputs[*at] : grad_outputs[*at - first_output];
  };
  BackwardViews views;
  views.dy = gradient("y");
  views.x = operand(problem, forward, s.residual ? "sum" : "x");
  views.mean = operand(problem, forward, "mean");
  views.rstd = operand(problem, forward, "rstd");
  views.weight = operand(problem, forward, "weight");
  views.zero_centred = s.zero_centred;
  views.dsum = gradient("sum");
  views.dx = gradient("x");
  views.dweight = gradient("weight");
  views.dbias = gradient("bias");
  const TensorView residual = gradient("residual");
  if (residual.rank != 0 && views.dx.rank != 0 && residual.data != views.dx.data) {
    return with_hint(make_error(ErrorCode::kUnsupported,
                                "{}: the gradients of x and residual are the same numbers, made once", where),
                     "ask for one of them, or give both the same memory");
  }
  if (views.dx.rank == 0) views.dx = residual;
  return views;
}

void vector_facts(const Problem& problem, std::span<const TensorView> operands,
                  std::map<std::string, std::int64_t>& facts) {
  bool vectors = size_bytes(operands[0].dtype, operands[0].shape[1]) % 16 == 0, f32_columns = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string& name = problem.operands[i].name;
    if (name != "rstd" && name != "mean") vectors = vectors && view_alignment(operands[i]) >= 16;
    if (name == "weight" || name == "bias") f32_columns = operands[i].dtype == DType::kF32;
  }
  facts["vectors"] = vectors ? 1 : 0;
  facts["f32_columns"] = f32_columns ? 1 : 0;
}

std::vector<record::Case> cases(std::string_view op, std::span<const char* const> forms, CaseSet set, Backend backend) {
  if (set == CaseSet::kCheck) return check_cases(op, forms);
  const auto make = [&](std::int64_t rows, std::int64_t cols, std::string_view more = "") {
    return built_in_case(fmt::format("{} rows={} cols={} {}", op, rows, cols, more));
  };
  const bool cpu = backend == Backend::kCpu;
  if (set == CaseSet::kTarget) {
    if (cpu) return {make(512, 4096), make(250, 7168)};
    return {make(8192, 4096), make(8192, 8192), make(16384, 7168)};
  }
  const std::int64_t share = cpu ? 8 : 1;  // a size that takes about a second
  return {make(131072 / share, 128), make(8192 / share, 4096),  make(16384 / share, 7168),
          make(8192 / share, 8192),  make(4096 / share, 16384), make(8192 / share, 8192, "residual=1")};
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kRows, kCols};
  return vary_sizes(problem, kSizes, 150, variation, seed);
}

record::Cost cost(const Problem& problem, double flop) {
  record::Cost cost;
  cost.flop = flop * static_cast<double>(problem.values[kRows]) * static_cast<double>(problem.values[kCols]);
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  return cost;
}

}  // namespace ridge::ops::row_norm
