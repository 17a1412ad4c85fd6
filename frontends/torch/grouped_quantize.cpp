// ridgeline::grouped_quantize and ridgeline::grouped_codes.
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
constexpr std::int64_t kStep = 128;  // rows of products that read the transpose

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
                         std::string_view rule, std::int64_t align, bool row, bool column, const OptionalTensor& random,
                         const OptionalTensor& index) {
  codes::check_matrix(x, kOp, "x");
  codes::Coding coding = codes::coding_of(kOp, format, granularity, rule, row, column, random);
  check_strides(x, kOp, "x", false);
  check_offsets(offsets);
  check_scales(align, coding);
  if (given(index)) check_index(*index, kOp, "index");
  coding.segments = offsets.sym_size(0) - 1;
  return coding;
}

// Rows of what is coded, of so many that belong to groups.
c10::SymInt capacity_of(const c10::SymInt& rows, const Tensor& offsets, std::int64_t align) {
  const c10::SymInt groups = offsets.sym_size(0) - 1, each = align;
  return (rows + groups * (each - 1)) / each * each;
}

GroupedCodes grouped_quantize_meta(const Tensor& x, const Tensor& offsets, at::ScalarType format,
                                   std::string_view granularity, std::string_view rule, std::int64_t align, bool row,
                                   bool column, const OptionalTensor& random, const OptionalTensor& index) {
  const codes::Coding coding = check_call(x, offsets, format, granularity, rule, align, row, column, random, index);
  const c10::SymInt capacity = capacity_of(rows_by_index(x, index), offsets, align);
  return std::tuple_cat(codes::empty_outputs(x, capacity, x.sym_size(1), coding),
                        std::make_tuple(at::empty_symint(offsets.sym_sizes(), offsets.options())));
}

GroupedCodes grouped_quantize(const Tensor& x, const Tensor& offsets, at::ScalarType format,
                              std::string_view granularity, std::string_view rule, std::int64_t align, bool row,
                              bool column, const OptionalTensor& random, const OptionalTensor& index) {
  check_same_device(kOp, {{"x", &x}, {"the offsets", &offsets}, {"random", &random}, {"index", &index}});
  const codes::Coding coding = check_call(x, offsets, format, granularity, rule, align, row, column, random, index);
  const OnDeviceOf on_device(x);
  const std::int64_t rows = rows_by_index(x, index).expect_int();
  const std::int64_t capacity = grouped_quantize_capacity(rows, offsets.size(0) - 1, align);
  Quantized out = codes::allocated_outputs(x, capacity, x.size(1), coding);
  Tensor padded = allocated(offsets, offsets.sizes(), offsets.scalar_type());
  GroupedQuantizeArgs args;
  args.x = row_major_view(x, kOp, "x");
  args.offsets = dense_view(offsets, kOp, "the offsets");
  if (given(index)) args.index = dense_view(index->flatten(), kOp, "index");
  args.padded = dense_view(padded, kOp, "the padded offsets");
  args.align = align;
  codes::give(args, coding, out, kOp);
  check(ridge::grouped_quantize(args, stream_of(x)));
  return std::tuple_cat(std::move(out), std::make_tuple(std::move(padded)));
}

GroupedCodes dispatch(const Tensor& x, const Tensor& offsets, at::ScalarType format, std::string_view granularity,
                      std::string_view rule, std::int64_t align, bool row, bool column, const OptionalTensor& random,
                      const OptionalTensor& index) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::grouped_quantize", "").typed<decltype(dispatch)>();
  return op.call(x, offsets, format, granularity, rule, align, row, column, random, index);
}

// By `make()`; whole numbers have no derivative to refuse.
template <class Make>
GroupedCodes coded_without_derivative(std::string_view op, std::initializer_list<Tensor> inputs, const Make& make) {
  Tensor padded;
  Quantized coded = without_derivative(op, inputs, [&] {
    auto [q, scale, q_t, scale_t, begins] = make();
    padded = std::move(begins);
    return Quantized(std::move(q), std::move(scale), std::move(q_t), std::move(scale_t));
  });
  return std::tuple_cat(std::move(coded), std::make_tuple(std::move(padded)));
}

GroupedCodes grouped_quantize_autograd(const Tensor& x, const Tensor& offsets, at::ScalarType format,
                                       std::string_view granularity, std::string_view rule, std::int64_t align,
                                       bool row, bool column, const OptionalTensor& random,
                                       const OptionalTensor& index) {
  return coded_without_derivative(
      kOp, {x}, [&] { return dispatch(x, offsets, format, granularity, rule, align, row, column, random, index); });
}

// ---- grouped_codes: both copies, the first where the rows lie, of rows or of what SwiGLU makes of them

constexpr std::string_view kCodes = "grouped_codes";

// And the gradient of the factors of rows, of no elements where it is not asked for.
using CodesAndFactors = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

// What follows the operands of a call, as a schema has it.
struct Words {
  at::ScalarType format;
  std::string_view granularity, rule, of;
  bool need_dprobs;
};

GroupedQuantizeOf of_named(std::string_view name) {
  if (name == "rows") return GroupedQuantizeOf::kRows;
  if (name == "swiglu") return GroupedQuantizeOf::kSwiglu;
  TORCH_CHECK_VALUE(name == "swiglu_backward", kCodes, ": of \"", name,
                    "\" is unknown; use one of rows, swiglu, swiglu_backward");
  return GroupedQuantizeOf::kSwigluBackward;
}

// Columns of what is coded.
c10::SymInt columns_of(const Tensor& x, GroupedQuantizeOf of) {
  return of == GroupedQuantizeOf::kSwiglu ? x.sym_size(1) / 2 : x.sym_size(1);
}

void check_made_of(const Tensor& x, const OptionalTensor& dy, const OptionalTensor& probs, GroupedQuantizeOf of,
                   bool need_dprobs) {
  const bool backward = of == GroupedQuantizeOf::kSwigluBackward;
  TORCH_CHECK_VALUE(of == GroupedQuantizeOf::kRows || !TORCH_GUARD_OR_FALSE((x.sym_size(1) % 2).sym_eq(1)), kCodes,
                    ": x has ", x.sym_size(1), " columns, which are no two halves");
  TORCH_CHECK_VALUE(given(dy) == backward, kCodes,
                    backward ? ": of \"swiglu_backward\" without dy" : ": dy is for of \"swiglu_backward\" alone");
  TORCH_CHECK_VALUE(!given(probs) || of != GroupedQuantizeOf::kRows, kCodes,
                    ": probs of rows that are coded as they are; leave probs out");
  TORCH_CHECK_VALUE(!need_dprobs || (backward && given(probs)), kCodes,
                    ": need_dprobs is for of \"swiglu_backward\" with probs alone");
  if (given(probs)) {
    check_like(*probs, kCodes, "probs", {x.sym_size(0)}, at::kFloat);
    TORCH_CHECK_VALUE(probs->is_contiguous(), kCodes, ": probs is not contiguous; call .contiguous() on it first");
  }
  if (!backward) return;
  check_like(*dy, kCodes, "dy", {x.sym_size(0), x.sym_size(1) / 2}, x.scalar_type());
  check_strides(*dy, kCodes, "dy", false);
}

codes::Coding check_codes(const Tensor& x, const Tensor& offsets, const OptionalTensor& dy, const OptionalTensor& probs,
                          const OptionalTensor& index, const Words& words) {
  codes::check_matrix(x, kCodes, "x");
  codes::Coding coding =
      codes::coding_of(kCodes, words.format, words.granularity, words.rule, true, true, OptionalTensor());
  TORCH_CHECK_VALUE(coding.granularity == Granularity::kVector || coding.granularity == Granularity::kMx, kCodes,
                    ": granularity \"", words.granularity, "\"; use 1x128 or mx, whose scales are of parts of a row");
  check_strides(x, kCodes, "x", false);
  check_offsets(offsets);
  check_made_of(x, dy, probs, of_named(words.of), words.need_dprobs);
  if (given(index)) {
    TORCH_CHECK_VALUE(words.of == "rows", kCodes, ": index is for of \"rows\" alone");
    check_index(*index, kCodes, "index");
  }
  coding.plain_rows = rows_by_index(x, index);
  return coding;
}

CodesAndFactors grouped_codes_meta(const Tensor& x, const Tensor& offsets, at::ScalarType format,
                                   std::string_view granularity, std::string_view rule, std::string_view of,
                                   const OptionalTensor& dy, const OptionalTensor& probs, bool need_dprobs,
                                   const OptionalTensor& index) {
  const codes::Coding coding = check_codes(x, offsets, dy, probs, index, {format, granularity, rule, of, need_dprobs});
  const c10::SymInt factors = need_dprobs ? x.sym_size(0) : c10::SymInt(0);
  return std::tuple_cat(codes::empty_outputs(x, capacity_of(rows_by_index(x, index), offsets, kStep),
                                             columns_of(x, of_named(of)), coding),
                        std::make_tuple(at::empty_symint(offsets.sym_sizes(), offsets.options()),
                                        at::empty_symint({factors}, x.options().dtype(at::kFloat))));
}

CodesAndFactors grouped_codes(const Tensor& x, const Tensor& offsets, at::ScalarType format,
                              std::string_view granularity, std::string_view rule, std::string_view of,
                              const OptionalTensor& dy, const OptionalTensor& probs, bool need_dprobs,
                              const OptionalTensor& index) {
  check_same_device(kCodes, {{"x", &x}, {"the offsets", &offsets}, {"dy", &dy}, {"probs", &probs}, {"index", &index}});
  const codes::Coding coding = check_codes(x, offsets, dy, probs, index, {format, granularity, rule, of, need_dprobs});
  const OnDeviceOf on_device(x);
  GroupedQuantizeArgs args;
  args.of = of_named(of);
  Quantized out = codes::allocated_outputs(x, capacity_of(rows_by_index(x, index), offsets, kStep).expect_int(),
                                           columns_of(x, args.of).expect_int(), coding);
  Tensor padded = allocated(offsets, offsets.sizes(), offsets.scalar_type());
  args.x = row_major_view(x, kCodes, "x");
  args.offsets = dense_view(offsets, kCodes, "the offsets");
  if (given(index)) args.index = dense_view(index->flatten(), kCodes, "index");
  if (given(dy)) args.dy = row_major_view(*dy, kCodes, "dy");
  if (given(probs)) args.probs = dense_view(*probs, kCodes, "probs");
  args.padded = dense_view(padded, kCodes, "the padded offsets");
  Tensor dprobs = allocated(x, {need_dprobs ? x.size(0) : 0}, at::kFloat);
  if (need_dprobs) args.dprobs = dense_view(dprobs, kCodes, "the gradient of probs");
  args.align = kStep;
  args.own_rows = true;
  codes::give(args, coding, out, kCodes);
  check(ridge::grouped_quantize(args, stream_of(x)));
  return std::tuple_cat(std::move(out), std::make_tuple(std::move(padded), std::move(dprobs)));
}

CodesAndFactors dispatch_codes(const Tensor& x, const Tensor& offsets, at::ScalarType format,
                               std::string_view granularity, std::string_view rule, std::string_view of,
                               const OptionalTensor& dy, const OptionalTensor& probs, bool need_dprobs,
                               const OptionalTensor& index) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::grouped_codes", "").typed<decltype(dispatch_codes)>();
  return op.call(x, offsets, format, granularity, rule, of, dy, probs, need_dprobs, index);
}

CodesAndFactors grouped_codes_autograd(const Tensor& x, const Tensor& offsets, at::ScalarType format,
                                       std::string_view granularity, std::string_view rule, std::string_view of,
                                       const OptionalTensor& dy, const OptionalTensor& probs, bool need_dprobs,
                                       const OptionalTensor& index) {
  const std::initializer_list<Tensor> inputs = {x, dy.value_or(Tensor()), probs.value_or(Tensor())};
  Tensor dprobs;
  GroupedCodes codes = coded_without_derivative(kCodes, inputs, [&] {
    auto [q, scale, q_t, scale_t, padded, of_factors] =
        dispatch_codes(x, offsets, format, granularity, rule, of, dy, probs, need_dprobs, index);
    dprobs = std::move(of_factors);
    return GroupedCodes(std::move(q), std::move(scale), std::move(q_t), std::move(scale_t), std::move(padded));
  });
  refuse_derivative(dprobs, inputs, kCodes, kCodesHaveNone);
  return std::tuple_cat(std::move(codes), std::make_tuple(std::move(dprobs)));
}

}  // namespace

void register_grouped_quantize(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("grouped_quantize", grouped_quantize);
      library.impl("grouped_codes", grouped_codes);
      return;
    case c10::DispatchKey::Meta:
      library.impl("grouped_quantize", grouped_quantize_meta);
      library.impl("grouped_codes", grouped_codes_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("grouped_quantize", grouped_quantize_autograd);
      library.impl("grouped_codes", grouped_codes_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
