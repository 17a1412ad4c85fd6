#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/quantize/contract.h"
#include "ops/quantize/quantize.h"

namespace ridge::ops::quantize {
namespace {

TensorView scalar(const float* value) { return TensorView::contiguous(const_cast<float*>(value), DType::kF32, {1}); }

struct Sizes {
  std::int64_t rows = 0, cols = 0;
};

Status check_copy(const Args& args, bool transposed, const Sizes& sizes, DType format) {
  const char* const name = transposed ? "q_t" : "q";
  const char* const scale_name = transposed ? "scale_t" : "scale";
  const TensorView &q = transposed ? args.q_t : args.q, &scale = transposed ? args.scale_t : args.scale;
  const std::int64_t shape[] = {sizes.rows, sizes.cols};
  RIDGE_CHECK_OK(check_shape("quantize", name, q, format, shape, [&] {
    return fmt::format("x is {}{}", args.x.describe(), transposed ? "; q_t is its transpose, in the format of q" : "");
  }));
  RIDGE_CHECK_OK(check_layout("quantize", name, q, 2, "give a row-major matrix"));
  const std::vector<std::int64_t> scales = scale_shape(args.granularity, sizes.rows, sizes.cols);
  RIDGE_CHECK_OK(check_shape("quantize", scale_name, scale, scale_dtype(args.granularity), scales, [&] {
    return fmt::format("the layout of {} scales is in ridge/scaling.h", to_string(args.granularity));
  }));
  return check_layout("quantize", scale_name, scale, static_cast<int>(scales.size()), "give contiguous scales");
}

Status check_rule(Granularity granularity, ScaleRule rule) {
  if (granularity != Granularity::kMx || rule != ScaleRule::kExact) return ok_status();
  return with_hint(invalid("quantize: mx scales are powers of two; they cannot follow kExact (amax / fmax)"),
                   "choose kFloor (the MX specification's), kEven or kCeil");
}

Status check_given(const Args& args) {
  if ((args.amax == nullptr) != (args.found == nullptr)) {
    return with_hint(invalid("quantize: {} is given and {} is null", args.amax != nullptr ? "amax" : "found",
                             args.amax != nullptr ? "found" : "amax"),
                     "give both (a scale made of amax, and x's own largest magnitude), or neither");
  }
  if (args.amax == nullptr || args.granularity == Granularity::kTensor) return ok_status();
  return with_hint(
      invalid("quantize: amax is one largest magnitude, and {} scales are many", to_string(args.granularity)),
      "use kTensor, or leave amax and found out");
}

Status check_args(const Args& args) {
  const bool plain = args.q.rank != 0, transposed = args.q_t.rank != 0;
  RIDGE_CHECK_OK(check_layout("quantize", "x", args.x, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, args.x.dtype) < 0) {
    return with_hint(invalid("quantize: x is {}; this dtype is not supported", args.x.describe()),
                     "give f32, bf16 or f16");
  }
  if (!plain && !transposed) {
    return with_hint(invalid("quantize: neither q nor q_t is given"), "give one pair of codes and scales, or both");
  }
  const DType format = plain ? args.q.dtype : args.q_t.dtype;
  if (index_of(kFormats, format) < 0) {
    return with_hint(invalid("quantize: {} is {}; this format is not supported", plain ? "q" : "q_t",
                             (plain ? args.q : args.q_t).describe()),
                     "give e4m3fn or e5m2");
  }
  RIDGE_CHECK_OK(check_rule(args.granularity, args.rule));
  RIDGE_CHECK_OK(check_given(args));
  if (plain) RIDGE_CHECK_OK(check_copy(args, false, {args.x.shape[0], args.x.shape[1]}, format));
  if (transposed) RIDGE_CHECK_OK(check_copy(args, true, {args.x.shape[1], args.x.shape[0]}, format));
  const TensorView none, found_view = args.found != nullptr ? scalar(args.found) : none;
  const NamedView x{"x", &args.x}, found{"found", &found_view}, q{"q", plain ? &args.q : &none},
      scale{"scale", plain ? &args.scale : &none}, q_t{"q_t", transposed ? &args.q_t : &none},
      scale_t{"scale_t", transposed ? &args.scale_t : &none};
  if (plain) {
    RIDGE_CHECK_OK(check_apart("quantize", q, {x, scale, q_t, scale_t}));
    RIDGE_CHECK_OK(check_apart("quantize", scale, {x, q_t, scale_t}));
  }
  if (args.found != nullptr) {
    const TensorView amax_view = scalar(args.amax);
    RIDGE_CHECK_OK(check_apart("quantize", found, {x, q, scale, q_t, scale_t, NamedView{"amax", &amax_view}}));
  }
  if (!transposed) return ok_status();
  RIDGE_CHECK_OK(check_apart("quantize", q_t, {x, scale_t}));
  return check_apart("quantize", scale_t, {x});
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "format"});
  const bool mx = canonical.get("scaling") == "mx";
  if (canonical.get("scale").empty() && mx) canonical.set("scale", "floor");  // the MX specification's rule
  RIDGE_TRY(problem, bind_params("quantize", params(), canonical));
  const Shape s = shape_of(problem);
  if (Status rule = check_rule(s.granularity, s.rule); !rule) {
    return with_hint(invalid("{}: mx scales are powers of two", problem.problem_case.text()),
                     "scale is one of floor, even, ceil");
  }
  RIDGE_CHECK_OK(check_addressable(problem.problem_case.text(), "x", s.rows, s.cols));
  if (s.given && s.granularity != Granularity::kTensor) {
    return with_hint(invalid("{}: amax=given is one largest magnitude, and {} scales are many",
                             problem.problem_case.text(), to_string(s.granularity)),
                     "use scaling=tensor, or amax=own");
  }
  problem.operands = {{"x", s.dtype, {s.rows, s.cols}, false, false}};
  if (s.stochastic) problem.operands.push_back({"random", DType::kU64, {2}, false, false});
  if (s.given) {
    Fill magnitude;
    magnitude.rule = Fill::Rule::kUniform, magnitude.most = 4;
    problem.operands.push_back({"amax", DType::kF32, {1}, false, false, magnitude});
  }
  for (const Copy& copy : copies_of(s)) {
    const std::int64_t rows = copy.transposed ? s.cols : s.rows, cols = copy.transposed ? s.rows : s.cols;
    problem.operands.push_back({copy.transposed ? "q_t" : "q", s.format, {rows, cols}, true, false});
    problem.operands.push_back({copy.transposed ? "scale_t" : "scale", scale_dtype(s.granularity),
                                scale_shape(s.granularity, rows, cols), true, false});
  }
  if (s.given) problem.operands.push_back({"found", DType::kF32, {1}, true, false});
  return problem;
}

}  // namespace

Result<std::uint32_t> given_amax(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  if (!s.given) return std::uint32_t{0};
  float amax = 0;
  std::memcpy(&amax, operands[s.stochastic ? 2 : 1].data, sizeof amax);
  if (std::isfinite(amax) && amax >= 0) return std::bit_cast<std::uint32_t>(std::fabs(amax));  // -0 is 0
  return with_hint(invalid("{}: amax is {}", problem.problem_case.text(), amax),
                   "give a finite magnitude, or 0 where there is none yet");
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  const bool plain = args.q.rank != 0, transposed = args.q_t.rank != 0;
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = args.x.shape[0];
  call.values[kCols] = args.x.shape[1];
  call.values[kDtype] = index_of(kDtypes, args.x.dtype);
  call.values[kFormat] = index_of(kFormats, plain ? args.q.dtype : args.q_t.dtype);
  call.values[kScaling] = index_of(kGranularities, args.granularity);
  call.values[kScale] = index_of(kRules, args.rule);
  call.values[kCopies] = plain && transposed ? kBoth : transposed ? kTransposed : kAsIs;
  call.values[kRounding] = args.random != nullptr ? 1 : 0;
  call.values[kAmax] = args.amax != nullptr ? 1 : 0;
  const auto add = [&call](const TensorView& view) { call.operands.push_back(view); };
  add(args.x);
  if (args.random != nullptr) {
    add(TensorView::contiguous(const_cast<std::uint64_t*>(args.random), DType::kU64, {2}));
  }
  if (args.amax != nullptr) add(scalar(args.amax));
  if (plain) {
    add(args.q);
    add(args.scale);
  }
  if (transposed) {
    add(args.q_t);
    add(args.scale_t);
  }
  if (args.found != nullptr) add(scalar(args.found));
  return call;
}

std::vector<record::ParamInfo> params() {
  return {{"rows", "256", "of x", {}},
          {"cols", "256", "of x", {}},
          {"dtype", "bf16", "of x", {"f32", "bf16", "f16"}},
          {"format", "e4m3fn", "of the codes", {"e4m3fn", "e5m2"}},
          {"scaling", "tensor", "elements that share a scale", {"tensor", "row", "1x128", "128x128", "mx"}},
          {"scale",
           "f32",
           "f32: the largest element becomes fmax; else a power of two by that rule (mx: floor)",
           {"f32", "floor", "even", "ceil"}},
          {"copies", "row", "row: of x, column: of its transpose", {"row", "column", "both"}},
          {"rounding", "nearest", "of the codes", {"nearest", "stochastic"}},
          {"amax",
           "own",
           "that the scale of a tensor is made of; given: an operand, and x's own is an output",
           {"own", "given"}}};
}

Operator describe() {
  Operator op;
  op.name = "quantize";
  op.summary = "8-bit floats with scales, of a matrix and of its transpose";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, std::span<const TensorView> operands, std::uint64_t) {
    return spot_check_by_reference(problem, operands, reference);
  };
  op.cost = cost;
  op.cases = cases;
  op.device_check = device_check();
  op.vary = vary;
  return op;
}

}  // namespace ridge::ops::quantize
