// ridgeline::rescale_: a matrix times a factor, or a factor of each row, in place.
#include "ridge/ops/rescale.h"

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "rescale_";

void rescale_meta(Tensor& x, const Tensor& factor) {
  TORCH_CHECK_VALUE(x.dim() == 2, kOp, ": x has shape ", x.sym_sizes(), "; give a matrix");
  const at::ScalarType type = x.scalar_type(), wide = type == at::kDouble ? at::kDouble : at::kFloat;
  TORCH_CHECK_TYPE(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble, kOp,
                   ": x is ", type_of(x), "; give torch.float32, torch.bfloat16, torch.float16 or torch.float64");
  TORCH_CHECK_TYPE(factor.scalar_type() == wide, kOp, ": factor is ", type_of(factor), "; give ", c10::toString(wide));
  TORCH_CHECK_VALUE(factor.dim() == 0 || (factor.dim() == 1 && same(factor.sym_size(0), x.sym_size(0))), kOp,
                    ": factor has shape ", factor.sym_sizes(), " for x of shape ", x.sym_sizes(),
                    "; give one number, or one for each row");
}

void rescale(Tensor& x, const Tensor& factor) {
  check_same_device(kOp, {{"x", &x}, {"the factor", &factor}});
  rescale_meta(x, factor);
  if (x.scalar_type() == at::kDouble) {
    x.mul_(factor.dim() == 0 ? factor : factor.unsqueeze(1));
    return;
  }
  if (x.numel() == 0) return;
  const OnDeviceOf on_device(x);
  const Tensor factors = factor.contiguous();
  RescaleArgs args;
  args.x = rows_view(x, kOp, "x");
  args.factor = TensorView::contiguous(factors.data_ptr(), DType::kF32, {factors.numel()});
  check(ridge::rescale(args, stream_of(x)));
}

void rescale_autograd(Tensor& x, const Tensor& factor) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::rescale_", "").typed<decltype(rescale)>();
  check_no_derivative_in_place(kOp, {x, factor});
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    op.call(x, factor);
  }
  if (!x.is_inference()) x.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

void register_rescale(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA: library.impl("rescale_", rescale); return;
    case c10::DispatchKey::Meta: library.impl("rescale_", rescale_meta); return;
    case c10::DispatchKey::Autograd: library.impl("rescale_", rescale_autograd); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
