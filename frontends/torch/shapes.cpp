#include "shapes.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "convert.h"

namespace ridge::torch_frontend {
namespace {

// Rows [rows, cols] with adjacent elements, and the matrices of a batch apart or, `interleaved`, each of their rows
// before the next of any. Dimensions of one element have any stride.
c10::SymBool dense_rows(const Tensor& tensor, std::int64_t row, std::int64_t col, bool interleaved = false) {
  const auto sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  const auto at = [&](c10::SymIntArrayRef list, std::int64_t dim) { return list[static_cast<std::size_t>(dim)]; };
  const c10::SymInt rows = at(sizes, row), cols = at(sizes, col);
  c10::SymBool right = (cols.sym_le(1) | at(strides, col).sym_eq(1)) & (rows.sym_le(1) | at(strides, row).sym_ge(cols));
  if (tensor.dim() == 3) {
    const c10::SymInt matrix = (rows - 1) * at(strides, row) + cols;
    c10::SymBool apart = sizes[0].sym_le(1) | strides[0].sym_ge(matrix);
    if (interleaved) {
      apart = apart | (strides[0].sym_ge(cols) & at(strides, row).sym_ge((sizes[0] - 1) * strides[0] + cols));
    }
    right = right & apart;
  }
  return right;
}

void require_strides(const c10::SymBool& right, const Tensor& tensor, std::string_view op, std::string_view name,
                     const char* wrong) {
  TORCH_CHECK_VALUE(!TORCH_GUARD_OR_FALSE(right.sym_not()), op, ": ", name, " of shape ", tensor.sym_sizes(),
                    " has strides ", tensor.sym_strides(), ", ", wrong,
                    "; call .contiguous() on it first (expanded tensors have stride 0)");
}

}  // namespace

bool same(const c10::SymInt& a, const c10::SymInt& b) { return a.sym_eq(b).expect_true(__FILE__, __LINE__); }

void check_strides(const Tensor& tensor, std::string_view op, std::string_view name, bool or_columns) {
  const std::int64_t last = tensor.dim() - 1;
  c10::SymBool right = tensor.sym_numel().sym_eq(0) | dense_rows(tensor, last - 1, last);
  if (or_columns) right = right | dense_rows(tensor, last, last - 1);
  require_strides(right, tensor, op, name, or_columns ? "not row- or column-major" : "not row-major");
}

void check_stack_strides(const Tensor& tensor, std::string_view op, std::string_view name) {
  const c10::SymBool right = tensor.sym_numel().sym_eq(0) | dense_rows(tensor, 1, 2, true);
  require_strides(right, tensor, op, name, "and its rows are not contiguous and apart");
}

void check_rows(const Tensor& tensor, std::string_view op, std::string_view name) {
  TORCH_CHECK_VALUE(tensor.dim() >= 1, op, ": ", name, " has no dimension; give [..., columns]");
  if (tensor.dim() == 2) return check_strides(tensor, op, name, false);
  TORCH_CHECK_VALUE(tensor.is_contiguous(), op, ": ", name, " of shape ", tensor.sym_sizes(), " has strides ",
                    tensor.sym_strides(), ", not contiguous; call .contiguous() on it first");
}

void check_like(const Tensor& tensor, std::string_view op, std::string_view name, c10::SymIntArrayRef sizes,
                at::ScalarType dtype) {
  const auto found = tensor.sym_sizes();
  const bool equal = found.size() == sizes.size() && std::equal(found.begin(), found.end(), sizes.begin(), same);
  TORCH_CHECK_VALUE(equal && tensor.scalar_type() == dtype, op, ": ", name, " is ", type_of(tensor), " of shape ",
                    found, "; give ", name_of(dtype), " of shape ", sizes);
}

c10::SymInt rows_by_index(const Tensor& operand, const std::optional<Tensor>& index) {
  return index && index->defined() ? index->sym_size(0) : operand.sym_size(0);
}

void check_index(const Tensor& index, std::string_view op, std::string_view name) {
  TORCH_CHECK_TYPE(index.scalar_type() == at::kInt, op, ": ", name, " is ", type_of(index), "; give torch.int32");
  TORCH_CHECK_VALUE(index.dim() == 1 || (index.dim() == 2 && same(index.sym_size(1), 1)), op, ": ", name, " has shape ",
                    index.sym_sizes(), "; give the number of a row for each row of the groups");
  TORCH_CHECK_VALUE(index.is_contiguous(), op, ": ", name, " is not contiguous; call .contiguous() on it first");
}

void check_bias(const Tensor& bias, std::string_view op, const c10::SymInt& n, at::ScalarType type) {
  check_like(bias, op, "bias", {n}, type);
  TORCH_CHECK_VALUE(bias.is_contiguous(), op, ": bias has stride ", bias.sym_stride(0),
                    "; call .contiguous() on it first");
}

void check_main_grad(const Tensor& main_grad, const Tensor& b, std::string_view op) {
  const auto type = main_grad.scalar_type() == at::kFloat ? at::kFloat : b.scalar_type();
  check_like(main_grad, op, "main_grad", b.sym_sizes(), type);
}

void check_result_type(at::ScalarType type, std::string_view op, std::initializer_list<at::ScalarType> allowed) {
  const bool found = std::find(allowed.begin(), allowed.end(), type) != allowed.end();
  std::string all;
  for (const at::ScalarType one : allowed) {
    if (all.find(name_of(one)) == std::string::npos) all += (all.empty() ? "" : ", ") + name_of(one);
  }
  TORCH_CHECK_TYPE(found || at::isFloatingType(type), op, ": the result cannot be ", name_of(type), "; give ", all);
  TORCH_CHECK_VALUE(found, op, ": the result cannot be ", name_of(type), "; give ", all, ", or cast it: .to(",
                    name_of(type), ")");
}

std::vector<c10::SymInt> scale_sizes(Granularity granularity, const c10::SymInt& rows, const c10::SymInt& cols) {
  const auto parts = [](const c10::SymInt& size, std::int64_t by) { return (size + (by - 1)) / by; };
  switch (granularity) {
    case Granularity::kTensor: return {1};
    case Granularity::kRow: return {rows};
    case Granularity::kVector: return {parts(cols, 128), rows};
    case Granularity::kBlock: return {parts(rows, 128), parts(cols, 128)};
    case Granularity::kMx: return {parts(cols, 32), rows};
  }
  TORCH_CHECK(false, "ridgeline: unknown granularity");
}

at::ScalarType scale_type(Granularity granularity) {
  return granularity == Granularity::kMx ? at::kFloat8_e8m0fnu : at::kFloat;
}

void check_scales(const Tensor& scale, std::string_view op, std::string_view name, Granularity granularity,
                  const c10::SymInt& rows, const c10::SymInt& cols) {
  check_like(scale, op, name, scale_sizes(granularity, rows, cols), scale_type(granularity));
  TORCH_CHECK_VALUE(scale.is_contiguous(), op, ": ", name, " of shape ", scale.sym_sizes(), " has strides ",
                    scale.sym_strides(), ", not contiguous; call .contiguous() on it first");
}

}  // namespace ridge::torch_frontend
