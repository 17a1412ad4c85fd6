// ridgeline::rmsnorm_quantize.
#include "ridge/ops/rmsnorm_quantize.h"

#include "codes.h"
#include "convert.h"
#include "derivative.h"
#include "norms.h"
#include "operators.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "rmsnorm_quantize";

// q, scale, q_t, scale_t, the sum (empty without a residual) and rstd.
using NormalisedCodes = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

NormalisedCodes with_statistics(Quantized codes, Tensor sum, Tensor rstd) {
  return std::tuple_cat(std::move(codes), std::make_tuple(std::move(sum), std::move(rstd)));
}

void check_inputs(const Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight, double eps,
                  bool zero_centred) {
  norms::check_eps(eps, kOp);
  codes::check_matrix(x, kOp, "the input");
  norms::check_input(x, kOp);
  if (given(residual)) norms::check_same_rows(*residual, x, kOp, "residual");
  norms::check_weight(weight, x, zero_centred, kOp);
}

Tensor empty_sum(const Tensor& x, const OptionalTensor& residual) {
  return given(residual) ? norms::empty_rows(x) : norms::nothing(x);
}

NormalisedCodes rmsnorm_quantize_meta(const Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                                      double eps, bool zero_centred, at::ScalarType format,
                                      std::string_view granularity, std::string_view rule, bool row, bool column,
                                      const OptionalTensor& random) {
  check_inputs(x, residual, weight, eps, zero_centred);
  const codes::Coding coding = codes::coding_of(kOp, format, granularity, rule, row, column, random);
  return with_statistics(codes::empty_outputs(x, x.sym_size(0), x.sym_size(1), coding), empty_sum(x, residual),
                         norms::empty_statistic(x));
}

NormalisedCodes rmsnorm_quantize(const Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                                 double eps, bool zero_centred, at::ScalarType format, std::string_view granularity,
                                 std::string_view rule, bool row, bool column, const OptionalTensor& random) {
  check_same_device(kOp, {{"the input", &x}, {"residual", &residual}, {"weight", &weight}, {"random", &random}});
  check_inputs(x, residual, weight, eps, zero_centred);
  const codes::Coding coding = codes::coding_of(kOp, format, granularity, rule, row, column, random);
  const OnDeviceOf on_device(x);
  const Quantized out = codes::allocated_outputs(x, x.size(0), x.size(1), coding);
  const Tensor sum = empty_sum(x, residual), rstd = norms::empty_statistic(x);
  RmsnormQuantizeArgs args;
  args.forward.x = rows_view(x, kOp, "the input");
  if (given(residual)) {
    args.forward.residual = rows_view(*residual, kOp, "residual");
    args.forward.sum = rows_view(sum, kOp, "the sum");
  }
  args.forward.rstd = norms::statistic_view(rstd, kOp, "rstd");
  args.forward.weight = norms::columns_view(weight, kOp, "weight");
  args.forward.zero_centred = zero_centred;
  args.forward.eps = eps;
  codes::give(args, coding, out, kOp);
  check(ridge::rmsnorm_quantize(args, stream_of(x)));
  return with_statistics(out, sum, rstd);
}

NormalisedCodes dispatch(const Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight, double eps,
                         bool zero_centred, at::ScalarType format, std::string_view granularity, std::string_view rule,
                         bool row, bool column, const OptionalTensor& random) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::rmsnorm_quantize", "").typed<decltype(dispatch)>();
  return op.call(x, residual, weight, eps, zero_centred, format, granularity, rule, row, column, random);
}

// ridgeline.torch.rms_norm_quantize hands gradients on to the inputs.
NormalisedCodes rmsnorm_quantize_autograd(const Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                                          double eps, bool zero_centred, at::ScalarType format,
                                          std::string_view granularity, std::string_view rule, bool row, bool column,
                                          const OptionalTensor& random) {
  return without_derivative(kOp, {x, residual.value_or(Tensor()), weight.value_or(Tensor())}, [&] {
    return dispatch(x, residual, weight, eps, zero_centred, format, granularity, rule, row, column, random);
  });
}

}  // namespace

void register_rmsnorm_quantize(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA: library.impl("rmsnorm_quantize", rmsnorm_quantize); return;
    case c10::DispatchKey::Meta: library.impl("rmsnorm_quantize", rmsnorm_quantize_meta); return;
    case c10::DispatchKey::Autograd: library.impl("rmsnorm_quantize", rmsnorm_quantize_autograd); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
