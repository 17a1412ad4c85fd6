#include "norms.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "convert.h"
#include "shapes.h"

namespace ridge::torch_frontend::norms {
namespace {

c10::SymIntArrayRef leading_sizes(const Tensor& x) {
  return x.sym_sizes().slice(0, static_cast<std::size_t>(x.dim() - 1));
}

}  // namespace

void check_eps(double eps, std::string_view op) {
  const auto stored = static_cast<float>(eps);
  TORCH_CHECK_VALUE(stored >= 0 && std::isfinite(stored), op, ": an eps of ", eps,
                    " is not possible; give a finite number from 0");
}

void check_input(const Tensor& x, std::string_view op) {
  const auto type = x.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf ||
                           (type == at::kDouble && !x.is_cuda());  // by_torch
  TORCH_CHECK_TYPE(usable_type, op, ": the input is ", type_of(x),
                   "; give torch.float32, torch.bfloat16 or torch.float16 (torch.float64: on the CPU)");
  check_rows(x, op, "the input");
  TORCH_CHECK_VALUE(!TORCH_GUARD_OR_FALSE(x.sym_size(-1).sym_eq(0)), op, ": the input of shape ", x.sym_sizes(),
                    " has rows without elements, which have no mean; give rows of at least one");
}

void check_weight(const OptionalTensor& weight, const Tensor& x, bool zero_centred, std::string_view op) {
  TORCH_CHECK_VALUE(given(weight) || !zero_centred, op, ": zero_centred is about the weight, and there is none");
  if (!given(weight)) return;
  const bool wide = weight->scalar_type() == at::kFloat && x.scalar_type() != at::kDouble;
  check_columns(*weight, x, wide ? at::kFloat : x.scalar_type(), op, "weight");
}

void check_columns(const Tensor& vector, const Tensor& x, at::ScalarType type, std::string_view op,
                   std::string_view name) {
  check_like(vector, op, name, {x.sym_size(-1)}, type);
  TORCH_CHECK_VALUE(vector.is_contiguous(), op, ": ", name, " has stride ", vector.sym_stride(0),
                    "; call .contiguous() on it first");
}

void check_same_rows(const Tensor& other, const Tensor& x, std::string_view op, std::string_view name) {
  check_like(other, op, name, x.sym_sizes(), x.scalar_type());
  check_rows(other, op, name);
}

void check_statistic(const Tensor& statistic, const Tensor& x, std::string_view op, std::string_view name) {
  check_like(statistic, op, name, leading_sizes(x), wide_type(x));
}

Tensor empty_rows(const Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); }
Tensor empty_statistic(const Tensor& x) { return at::empty_symint(leading_sizes(x), x.options().dtype(wide_type(x))); }
Tensor nothing(const Tensor& like) { return at::empty({0}, like.options()); }

TensorView statistic_view(const Tensor& statistic, std::string_view op, std::string_view name) {
  return TensorView::contiguous(statistic.data_ptr(), dtype_of(statistic, op, name), {statistic.numel()});
}

TensorView columns_view(const OptionalTensor& vector, std::string_view op, std::string_view name) {
  return given(vector) ? dense_view(*vector, op, name) : TensorView();
}

at::ScalarType wide_type(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

Tensor weighted(const Tensor& x, const OptionalTensor& weight, bool zero_centred) {
  if (!given(weight)) return x;
  const Tensor wide = weight->to(x.scalar_type());
  return x * (zero_centred ? wide + 1 : wide);
}

Tensor rows_of_gradient(const Tensor& grad, const Tensor& x) {
  if (!grad.defined()) return at::zeros_like(x, x.options(), at::MemoryFormat::Contiguous);
  return grad.contiguous();
}

}  // namespace ridge::torch_frontend::norms
