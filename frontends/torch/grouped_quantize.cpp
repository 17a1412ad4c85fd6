// ridgeline::grouped_quantize.
#include "ridge/ops/grouped_quantize.h"

#include <ATen/Functions.h>

#include "codes.h"
#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "grouped_quantize";

// q, scale, q_t, scale_t, and where groups begin in them.
using GroupedCodes = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

void check_offsets(const Tensor& offsets) {
  const auto type = offsets.scalar_type();
  TORCH_CHECK_TYPE(type == at::kInt || type == at::kLong, kOp, ": the offsets are ", type_of(offsets),
                   "; give torch.int32 or torch.int64");
  TORCH_CHECK_VALUE(offsets.dim() == 1 && TORCH_GUARD_OR_TRUE(offsets.sym_size(0).sym_ge(2)), kOp,
                    ": the offsets have shape ", offsets.sym_sizes(),
                    "; give a number more than there are groups: where each begins, and where the last ends");
  TORCH_CHECK_VALUE(offsets.is_contiguous(), kOp, ": the offsets are not contiguous; call .contiguous() on them first");
}

// No scale is of two groups.
void check_scales(std::int64_t align, const codes::Coding& coding) {
  TORCH_CHECK_VALUE(align == 16 || align == 32 || align == 64 || align == 128, kOp, ": align is ", align,
                    "; give 16, 32, 64 or 128");
  const bool high =
      coding.granularity == Granularity::kBlock ||
      (coding.column && (coding.granularity == Granularity::kVector || coding.granularity == Granularity::kRow));
  const std::int64_t rows = high ? 128 : coding.column && coding.granularity == Granularity::kMx ? 32 : 1;
  TORCH_CHECK_VALUE(align % rows == 0, kOp, ": align is ", align, ", and ", rows,
                    coding.granularity == Granularity::kRow ? " rows are a step of products that read the transpose"
                                                            : " rows share a scale",
                    "; give a multiple of ", rows, ", so that none is of two groups");
}

codes::Coding check_call(const Tensor& x, const Tensor& offsets, at::ScalarType format, std::string_view granularity,
                         std::string_view rule, std::int64_t align, bool row, bool column,
                         const OptionalTensor& random) {
  codes::check_matrix(x, kOp, "x");
  codes::Coding coding = codes::coding_of(kOp, format, granularity, rule, row, column, random);
  check_strides(x, kOp, "x", false);
  check_offsets(offsets);
  check_scales(align, coding);
  coding.segments = offsets.sym_size(0) - 1;
  return coding;
}

GroupedCodes grouped_quantize_meta(const Tensor& x, const Tensor& offsets, at::ScalarType format,
                                   std::string_view granularity, std::string_view rule, std::int64_t align, bool row,
                                   bool column, const OptionalTensor& random) {
  const codes::Coding coding = check_call(x, offsets, format, granularity, rule, align, row, column, random);
  const c10::SymInt groups = offsets.sym_size(0) - 1, each = align;
  const c10::SymInt capacity = (x.sym_size(0) + groups * (each - 1)) / each * each;
  return std::tuple_cat(codes::empty_outputs(x, capacity, x.sym_size(1), coding),
                        std::make_tuple(at::empty_symint(offsets.sym_sizes(), offsets.options())));
}

GroupedCodes grouped_quantize(const Tensor& x, const Tensor& offsets, at::ScalarType format,
                              std::string_view granularity, std::string_view rule, std::int64_t align, bool row,
                              bool column, const OptionalTensor& random) {
  check_same_device(kOp, {{"x", &x}, {"the offsets", &offsets}, {"random", &random}});
  const codes::Coding coding = check_call(x, offsets, format, granularity, rule, align, row, column, random);
  const OnDeviceOf on_device(x);
  const std::int64_t capacity = grouped_quantize_capacity(x.size(0), offsets.size(0) - 1, align);
  Quantized out = codes::allocated_outputs(x, capacity, x.size(1), coding);
  Tensor padded = allocated(offsets, offsets.sizes(), offsets.scalar_type());
  GroupedQuantizeArgs args;
  args.x = row_major_view(x, kOp, "x");
  args.offsets = dense_view(offsets, kOp, "the offsets");
  args.padded = dense_view(padded, kOp, "the padded offsets");
  args.align = align;
  codes::give(args, coding, out, kOp);
  check(ridge::grouped_quantize(args, stream_of(x)));
  return std::tuple_cat(std::move(out), std::make_tuple(std::move(padded)));
}

GroupedCodes dispatch(const Tensor& x, const Tensor& offsets, at::ScalarType format, std::string_view granularity,
                      std::string_view rule, std::int64_t align, bool row, bool column, const OptionalTensor& random) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::grouped_quantize", "").typed<decltype(dispatch)>();
  return op.call(x, offsets, format, granularity, rule, align, row, column, random);
}

GroupedCodes grouped_quantize_autograd(const Tensor& x, const Tensor& offsets, at::ScalarType format,
                                       std::string_view granularity, std::string_view rule, std::int64_t align,
                                       bool row, bool column, const OptionalTensor& random) {
  Tensor padded;  // whole numbers have no derivative to refuse
  Quantized coded = without_derivative(kOp, {x}, [&] {
    auto [q, scale, q_t, scale_t, begins] = dispatch(x, offsets, format, granularity, rule, align, row, column, random);
    padded = std::move(begins);
    return Quantized(std::move(q), std::move(scale), std::move(q_t), std::move(scale_t));
  });
  return std::tuple_cat(std::move(coded), std::make_tuple(std::move(padded)));
}

}  // namespace

void register_grouped_quantize(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA: library.impl("grouped_quantize", grouped_quantize); return;
    case c10::DispatchKey::Meta: library.impl("grouped_quantize", grouped_quantize_meta); return;
    case c10::DispatchKey::Autograd: library.impl("grouped_quantize", grouped_quantize_autograd); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
