// ridgeline::grouped_gemm_fp8 and ridgeline::grouped_gemm_fp8_add_: products of codes, which have no derivative.
#include "ridge/ops/grouped_gemm_fp8.h"

#include <ATen/Functions.h>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "grouped_gemm_fp8", kAdd = "grouped_gemm_fp8_add_";

// ---- What a call asks of its tensors, of symbolic sizes

void check_types(const Tensor& a, const Tensor& b, const Tensor& offsets, std::string_view op) {
  const auto codes = [](const Tensor& t) {
    return t.scalar_type() == at::kFloat8_e4m3fn || t.scalar_type() == at::kFloat8_e5m2;
  };
  TORCH_CHECK_VALUE(codes(a) && codes(b), op, ": a is ", type_of(a), " and b is ", type_of(b),
                    "; give torch.float8_e4m3fn or torch.float8_e5m2");
  const auto index = offsets.scalar_type();
  TORCH_CHECK_TYPE(index == at::kInt || index == at::kLong, op, ": the offsets are ", type_of(offsets),
                   "; give torch.int32 or torch.int64");
}

void check_offsets(const Tensor& offsets, const c10::SymInt& groups, std::string_view op) {
  TORCH_CHECK_VALUE(same(offsets.sym_size(0), groups + 1), op, ": the offsets have shape ", offsets.sym_sizes(),
                    " and there are ", groups, " groups; give ", groups + 1,
                    " numbers: where each group begins, and where the last ends");
}

void check_scale_stack(const Tensor& scale, const c10::SymInt& groups, const c10::SymInt& n, const c10::SymInt& k) {
  std::vector<c10::SymInt> sizes = scale_sizes(Granularity::kBlock, n, k);
  sizes.insert(sizes.begin(), groups);
  check_like(scale, kOp, "scale_b", sizes, at::kFloat);
  check_strides(scale, kOp, "scale_b", false);
}

// Sizes of the result.
std::vector<c10::SymInt> result_sizes(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                      const Tensor& offsets, bool along_sums, std::string_view op) {
  check_types(a, b, offsets, op);
  TORCH_CHECK_VALUE(a.dim() == 2, op, ": a has shape ", a.sym_sizes(), "; give a matrix of codes");
  const std::int64_t dims = along_sums ? 2 : 3;
  TORCH_CHECK_VALUE(b.dim() == dims, op, ": b has shape ", b.sym_sizes(), "; give ",
                    along_sums ? "a matrix of codes, whose columns are summed over" : "a matrix for each group");
  TORCH_CHECK_VALUE(offsets.dim() == 1 && TORCH_GUARD_OR_TRUE(offsets.sym_size(0).sym_ge(2)), op,
                    ": the offsets have shape ", offsets.sym_sizes(),
                    "; give where each group begins, and where the last ends");
  TORCH_CHECK_VALUE(offsets.is_contiguous(), op, ": the offsets are not contiguous; call .contiguous() on them first");
  TORCH_CHECK_VALUE(same(a.sym_size(1), b.sym_size(dims - 1)), op, ": a has ", a.sym_size(1), " columns and b has ",
                    b.sym_size(dims - 1), "; what is summed over is contiguous in both");
  check_strides(a, op, "a", false);
  check_strides(b, op, "b", false);
  check_scales(scale_a, op, "scale_a", Granularity::kVector, a.sym_size(0), a.sym_size(1));
  if (along_sums) {
    check_scales(scale_b, op, "scale_b", Granularity::kVector, b.sym_size(0), b.sym_size(1));
    return {offsets.sym_size(0) - 1, a.sym_size(0), b.sym_size(0)};
  }
  check_offsets(offsets, b.sym_size(0), op);
  check_scale_stack(scale_b, b.sym_size(0), b.sym_size(1), b.sym_size(2));
  return {a.sym_size(0), b.sym_size(1)};
}

void check_out(at::ScalarType type, std::string_view op) {
  check_result_type(type, op, {at::kBFloat16, at::kHalf, at::kFloat});
}

Tensor grouped_meta(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                    const Tensor& offsets, at::ScalarType out_dtype, bool along_sums) {
  check_out(out_dtype, kOp);
  return at::empty_symint(result_sizes(a, b, scale_a, scale_b, offsets, along_sums, kOp), a.options().dtype(out_dtype));
}

void grouped_add_meta(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                      const Tensor& offsets) {
  check_out(c.scalar_type(), kAdd);
  check_like(c, kAdd, "c", result_sizes(a, b, scale_a, scale_b, offsets, true, kAdd), c.scalar_type());
  check_strides(c, kAdd, "c", false);
}

// ---- The calls

GroupedGemmFp8Args arguments(const Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a,
                             const Tensor& scale_b, const Tensor& offsets, bool along_sums, std::string_view op) {
  GroupedGemmFp8Args args;
  args.a = row_major_view(a, op, "a");
  args.b = row_major_view(b, op, "b");
  args.scale_a = row_major_view(scale_a, op, "scale_a");
  args.scale_b = row_major_view(scale_b, op, "scale_b");
  args.offsets = dense_view(offsets, op, "the offsets");
  args.c = row_major_view(c, op, "the result");
  args.along_sums = along_sums;
  return args;
}

Tensor grouped(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, const Tensor& offsets,
               at::ScalarType out_dtype, bool along_sums) {
  check_same_device(kOp,
                    {{"a", &a}, {"b", &b}, {"scale_a", &scale_a}, {"scale_b", &scale_b}, {"the offsets", &offsets}});
  Tensor c = grouped_meta(a, b, scale_a, scale_b, offsets, out_dtype, along_sums);
  const OnDeviceOf on_device(a);
  check(ridge::grouped_gemm_fp8(arguments(c, a, b, scale_a, scale_b, offsets, along_sums, kOp), stream_of(a)));
  return c;
}

void grouped_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                 const Tensor& offsets) {
  check_same_device(
      kAdd, {{"a", &a}, {"b", &b}, {"scale_a", &scale_a}, {"scale_b", &scale_b}, {"the offsets", &offsets}, {"c", &c}});
  grouped_add_meta(c, a, b, scale_a, scale_b, offsets);
  const OnDeviceOf on_device(a);
  GroupedGemmFp8Args args = arguments(c, a, b, scale_a, scale_b, offsets, true, kAdd);
  args.accumulate = true;
  check(ridge::grouped_gemm_fp8(args, stream_of(a)));
}

Tensor dispatch(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, const Tensor& offsets,
                at::ScalarType out_dtype, bool along_sums) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::grouped_gemm_fp8", "").typed<decltype(grouped)>();
  return op.call(a, b, scale_a, scale_b, offsets, out_dtype, along_sums);
}

void dispatch_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                  const Tensor& offsets) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::grouped_gemm_fp8_add_", "")
                             .typed<decltype(grouped_add)>();
  op.call(c, a, b, scale_a, scale_b, offsets);
}

Tensor grouped_autograd(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                        const Tensor& offsets, at::ScalarType out_dtype, bool along_sums) {
  return without_derivative(kOp, {a, b, scale_a, scale_b},
                            [&] { return dispatch(a, b, scale_a, scale_b, offsets, out_dtype, along_sums); });
}

void grouped_add_autograd(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                          const Tensor& offsets) {
  check_no_derivative_in_place(kAdd, {c, a, b, scale_a, scale_b});
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    dispatch_add(c, a, b, scale_a, scale_b, offsets);
  }
  if (!c.is_inference()) c.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

void register_grouped_gemm_fp8(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("grouped_gemm_fp8", grouped);
      library.impl("grouped_gemm_fp8_add_", grouped_add);
      return;
    case c10::DispatchKey::Meta:
      library.impl("grouped_gemm_fp8", grouped_meta);
      library.impl("grouped_gemm_fp8_add_", grouped_add_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("grouped_gemm_fp8", grouped_autograd);
      library.impl("grouped_gemm_fp8_add_", grouped_add_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
