
#include "base/error.h"
#include "ops/arguments.h"
#include "ops/dequantize/contract.h"
#include "ops/dequantize/dequantize.h"

namespace ridge::ops::dequantize {
namespace {

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_layout("dequantize", "q", args.q, 2, "copy it to a row-major matrix"));
  if (index_of(kFormats, args.q.dtype) < 0) {
    return with_hint(invalid("dequantize: q is {}; this format is not supported", args.q.describe()),
                     "give e4m3fn or e5m2");
  }
  const std::int64_t shape[] = {args.q.shape[0], args.q.shape[1]};
  const std::vector<std::int64_t> scales = scale_shape(args.granularity, shape[0], shape[1]);
  RIDGE_CHECK_OK(check_shape("dequantize", "scale", args.scale, scale_dtype(args.granularity), scales, [&] {
    return fmt::format("the layout of {} scales is in ridge/scaling.h", to_string(args.granularity));
  }));
  RIDGE_CHECK_OK(
      check_layout("dequantize", "scale", args.scale, static_cast<int>(scales.size()), "give contiguous scales"));
  if (index_of(kDtypes, args.y.dtype) < 0) {
    return with_hint(invalid("dequantize: y is {}; this dtype is not supported", args.y.describe()),
                     "give f32, bf16 or f16");
  }
  RIDGE_CHECK_OK(check_shape("dequantize", "y", args.y, args.y.dtype, shape, "give y the shape of q"));
  RIDGE_CHECK_OK(check_layout("dequantize", "y", args.y, 2, "give a row-major matrix"));
  return check_apart("dequantize", {"y", &args.y}, {{"q", &args.q}, {"scale", &args.scale}});
}

std::vector<record::ParamInfo> params() {
  return {{"rows", "256", "of q", {}},
          {"cols", "256", "of q", {}},
          {"format", "e4m3fn", "of the codes", {"e4m3fn", "e5m2"}},
          {"scaling", "tensor", "elements that share a scale", {"tensor", "row", "1x128", "128x128", "mx"}},
          {"dtype", "bf16", "of y", {"f32", "bf16", "f16"}}};
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params("dequantize", params(), with_dtype_names(requested, {"dtype", "format"})));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_addressable(problem.problem_case.text(), "q", s.rows, s.cols));
  problem.operands = {{"q", s.format, {s.rows, s.cols}, false, false},
                      {"scale", scale_dtype(s.granularity), scale_shape(s.granularity, s.rows, s.cols), false, false},
                      {"y", s.dtype, {s.rows, s.cols}, true, false}};
  return problem;
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = args.q.shape[0];
  call.values[kCols] = args.q.shape[1];
  call.values[kFormat] = index_of(kFormats, args.q.dtype);
  call.values[kScaling] = index_of(kGranularities, args.granularity);
  call.values[kDtype] = index_of(kDtypes, args.y.dtype);
  call.operands = {args.q, args.scale, args.y};
  return call;
}

Operator describe() {
  Operator op;
  op.name = "dequantize";
  op.summary = "8-bit floats times their scales";
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

}  // namespace ridge::ops::dequantize
