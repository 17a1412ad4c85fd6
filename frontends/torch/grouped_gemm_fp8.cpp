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

GroupedFp8Scaling scaling_of(std::string_view name, std::string_view op) {
  if (name == "block") return GroupedFp8Scaling::kBlock;
  if (name == "row") return GroupedFp8Scaling::kRow;
  TORCH_CHECK_VALUE(name == "tensor", op, ": scaling \"", name, "\" is unknown; use block, row or tensor");
  return GroupedFp8Scaling::kTensor;
}

// Sizes of the scales of A and of B [n, k]; along sums of A [m, rows] and B [n, rows]. With an index A has rows of its
// own.
struct ScaleSizes {
  std::vector<c10::SymInt> a, b;
};
ScaleSizes scale_sizes_of(const Tensor& a, const Tensor& b, const c10::SymInt& groups, bool along_sums,
                          GroupedFp8Scaling scaling) {
  const c10::SymInt n = b.sym_size(along_sums ? 0 : 1), k = b.sym_size(along_sums ? 1 : 2), m = a.sym_size(0);
  switch (scaling) {
    case GroupedFp8Scaling::kTensor: return {{groups}, {groups}};
    case GroupedFp8Scaling::kRow: return {along_sums ? std::vector{groups, m} : std::vector{m}, {groups, n}};
    case GroupedFp8Scaling::kBlock: break;
  }
  ScaleSizes sizes{scale_sizes(Granularity::kVector, m, a.sym_size(1)),
                   scale_sizes(along_sums ? Granularity::kVector : Granularity::kBlock, n, k)};
  if (!along_sums) sizes.b.insert(sizes.b.begin(), groups);
  return sizes;
}

void check_scale(const Tensor& scale, std::string_view name, const std::vector<c10::SymInt>& sizes,
                 std::string_view op) {
  check_like(scale, op, name, sizes, at::kFloat);
  if (sizes.size() > 1) return check_strides(scale, op, name, false);
  TORCH_CHECK_VALUE(scale.is_contiguous(), op, ": ", name, " of shape ", scale.sym_sizes(), " has strides ",
                    scale.sym_strides(), "; call .contiguous() on it first");
}

// Sizes of the result.
std::vector<c10::SymInt> result_sizes(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                      const Tensor& offsets, bool along_sums, std::string_view scaling,
                                      const OptionalTensor& index, std::string_view op) {
  check_types(a, b, offsets, op);
  TORCH_CHECK_VALUE(a.dim() == 2, op, ": a has shape ", a.sym_sizes(), "; give a matrix of codes");
  if (given(index)) {
    TORCH_CHECK_VALUE(!along_sums, op, ": index_a with along_sums; sums over rows read codes of their transposes");
    check_index(*index, op, "index_a");
  }
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
  along_sums ? check_strides(b, op, "b", false) : check_stack_strides(b, op, "b");
  const c10::SymInt groups = along_sums ? offsets.sym_size(0) - 1 : b.sym_size(0);
  if (!along_sums) check_offsets(offsets, groups, op);
  const ScaleSizes sizes = scale_sizes_of(a, b, groups, along_sums, scaling_of(scaling, op));
  check_scale(scale_a, "scale_a", sizes.a, op);
  check_scale(scale_b, "scale_b", sizes.b, op);
  if (along_sums) return {groups, a.sym_size(0), b.sym_size(0)};
  return {rows_by_index(a, index), b.sym_size(1)};
}

void check_out(at::ScalarType type, std::string_view op) {
  check_result_type(type, op, {at::kBFloat16, at::kHalf, at::kFloat});
}

Tensor grouped_meta(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                    const Tensor& offsets, at::ScalarType out_dtype, bool along_sums, std::string_view scaling,
                    const OptionalTensor& index) {
  check_out(out_dtype, kOp);
  return at::empty_symint(result_sizes(a, b, scale_a, scale_b, offsets, along_sums, scaling, index, kOp),
                          a.options().dtype(out_dtype));
}

void grouped_add_meta(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                      const Tensor& offsets, std::string_view scaling) {
  check_out(c.scalar_type(), kAdd);
  check_like(c, kAdd, "c", result_sizes(a, b, scale_a, scale_b, offsets, true, scaling, {}, kAdd), c.scalar_type());
  check_strides(c, kAdd, "c", false);
}

// ---- The calls

GroupedGemmFp8Args arguments(const Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a,
                             const Tensor& scale_b, const Tensor& offsets, bool along_sums, std::string_view scaling,
                             std::string_view op) {
  const auto scales = [&](const Tensor& t, std::string_view name) {
    return t.dim() == 1 ? dense_view(t, op, name) : row_major_view(t, op, name);
  };
  GroupedGemmFp8Args args;
  args.a = row_major_view(a, op, "a");
  args.b = row_major_view(b, op, "b");
  args.scale_a = scales(scale_a, "scale_a");
  args.scale_b = scales(scale_b, "scale_b");
  args.scaling = scaling_of(scaling, op);
  args.offsets = dense_view(offsets, op, "the offsets");
  args.c = row_major_view(c, op, "the result");
  args.along_sums = along_sums;
  return args;
}

Tensor grouped(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, const Tensor& offsets,
               at::ScalarType out_dtype, bool along_sums, std::string_view scaling, const OptionalTensor& index) {
  check_same_device(kOp, {{"a", &a},
                          {"b", &b},
                          {"scale_a", &scale_a},
                          {"scale_b", &scale_b},
                          {"the offsets", &offsets},
                          {"index_a", &index}});
  Tensor c = grouped_meta(a, b, scale_a, scale_b, offsets, out_dtype, along_sums, scaling, index);
  const OnDeviceOf on_device(a);
  GroupedGemmFp8Args args = arguments(c, a, b, scale_a, scale_b, offsets, along_sums, scaling, kOp);
  if (given(index)) args.index_a = dense_view(index->flatten(), kOp, "index_a");
  check(ridge::grouped_gemm_fp8(args, stream_of(a)));
  return c;
}

void grouped_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                 const Tensor& offsets, std::string_view scaling) {
  check_same_device(
      kAdd, {{"a", &a}, {"b", &b}, {"scale_a", &scale_a}, {"scale_b", &scale_b}, {"the offsets", &offsets}, {"c", &c}});
  grouped_add_meta(c, a, b, scale_a, scale_b, offsets, scaling);
  const OnDeviceOf on_device(a);
  GroupedGemmFp8Args args = arguments(c, a, b, scale_a, scale_b, offsets, true, scaling, kAdd);
  args.accumulate = true;
  check(ridge::grouped_gemm_fp8(args, stream_of(a)));
}

Tensor dispatch(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, const Tensor& offsets,
                at::ScalarType out_dtype, bool along_sums, std::string_view scaling, const OptionalTensor& index) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::grouped_gemm_fp8", "").typed<decltype(grouped)>();
  return op.call(a, b, scale_a, scale_b, offsets, out_dtype, along_sums, scaling, index);
}

void dispatch_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                  const Tensor& offsets, std::string_view scaling) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::grouped_gemm_fp8_add_", "")
                             .typed<decltype(grouped_add)>();
  op.call(c, a, b, scale_a, scale_b, offsets, scaling);
}

Tensor grouped_autograd(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                        const Tensor& offsets, at::ScalarType out_dtype, bool along_sums, std::string_view scaling,
                        const OptionalTensor& index) {
  return without_derivative(kOp, {a, b, scale_a, scale_b}, [&] {
    return dispatch(a, b, scale_a, scale_b, offsets, out_dtype, along_sums, scaling, index);
  });
}

void grouped_add_autograd(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                          const Tensor& offsets, std::string_view scaling) {
  check_no_derivative_in_place(kAdd, {c, a, b, scale_a, scale_b});
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    dispatch_add(c, a, b, scale_a, scale_b, offsets, scaling);
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
