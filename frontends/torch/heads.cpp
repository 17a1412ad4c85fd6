#include "heads.h"

#include <cmath>

#include "convert.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::int64_t kLargestDim = 256;

}  // namespace

void check_rows_of_heads(const Tensor& x, std::string_view op, std::string_view name) {
  TORCH_CHECK_VALUE(x.dim() == 4, op, ": ", name, " has shape ", x.sym_sizes(),
                    "; give [batch, length, heads, dim], a view in any order of memory");
  const auto sizes = x.sym_sizes(), strides = x.sym_strides();
  c10::SymBool right = sizes[3].sym_le(1) | strides[3].sym_eq(1);
  for (std::size_t d = 0; d < 3; ++d) right = right & (sizes[d].sym_le(1) | strides[d].sym_ge(sizes[3]));
  right = right | x.sym_numel().sym_eq(0);
  TORCH_CHECK_VALUE(!TORCH_GUARD_OR_FALSE(right.sym_not()), op, ": ", name, " of shape ", sizes, " has strides ",
                    strides,
                    "; the elements of a head must be adjacent and rows apart (expanded tensors have stride 0): call "
                    ".contiguous() on it first");
}

void check_scale(const std::optional<double>& scale, std::string_view op) {
  if (!scale) return;
  const auto factor = static_cast<float>(*scale);
  TORCH_CHECK_VALUE(factor > 0 && std::isfinite(factor), op, ": scale is ", *scale,
                    "; give a finite number above 0, or None for 1 / sqrt(dim)");
}

void check_window(std::int64_t left, std::int64_t right, std::string_view op) {
  TORCH_CHECK_VALUE(left >= -1 && right >= -1, op, ": window is (", left, ", ", right,
                    "); give the keys before and behind its place that a query sees, from 0, or -1 for all of them");
}

void check_heads_of(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view op) {
  const c10::SymInt heads = q.sym_size(2), kv_heads = k.sym_size(2), dim = q.sym_size(3);
  TORCH_CHECK_VALUE(same(q.sym_size(0), k.sym_size(0)) && same(dim, k.sym_size(3)), op, ": q has shape ", q.sym_sizes(),
                    " and k ", k.sym_sizes(), "; they differ in length and heads alone");
  for (std::int64_t d = 0; d < 3; ++d) {
    TORCH_CHECK_VALUE(same(k.sym_size(d), v.sym_size(d)), op, ": k has shape ", k.sym_sizes(), " and v ", v.sym_sizes(),
                      "; they differ in the size of a head alone");
  }
  const bool shared = !TORCH_GUARD_OR_FALSE(kv_heads.sym_lt(1)) && same(heads % kv_heads, 0);
  TORCH_CHECK_VALUE(shared, op, ": ", heads, " heads of q cannot share ", kv_heads,
                    " heads of k and v; give q a multiple of theirs, of which there is at least one");
  for (const c10::SymInt& size : {dim, v.sym_size(3)}) {
    TORCH_CHECK_VALUE(TORCH_GUARD_OR_TRUE(size.sym_ge(1)) && TORCH_GUARD_OR_TRUE(size.sym_le(kLargestDim)), op,
                      ": heads of ", size, " elements; give 1 to ", kLargestDim);
  }
}

TensorView strided_view(const Tensor& tensor, std::string_view op, std::string_view name) {
  TensorView view;
  view.data = tensor.data_ptr();
  view.dtype = dtype_of(tensor, op, name);
  view.rank = static_cast<int>(tensor.dim());
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    view.shape[static_cast<std::size_t>(d)] = tensor.size(d);
    view.stride[static_cast<std::size_t>(d)] = tensor.stride(d);
  }
  return view;
}

}  // namespace ridge::torch_frontend
