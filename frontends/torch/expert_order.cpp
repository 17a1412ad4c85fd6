// ridgeline::expert_order, the choices of a router sorted by expert. Whole numbers: there is no gradient.
#include "ridge/ops/expert_order.h"

#include <ATen/Functions.h>

#include <string>
#include <tuple>

#include "convert.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "expert_order";
constexpr std::int64_t kMostExperts = 4096, kMostAlign = 1024;

using Order = std::tuple<Tensor, Tensor, Tensor, Tensor>;  // offsets, tokens, rows, choices

Order expert_order_meta(const Tensor& experts, std::int64_t num_experts, std::int64_t align) {
  const bool whole = c10::isIntegralType(experts.scalar_type(), /*includeBool=*/false);
  TORCH_CHECK_TYPE(whole, kOp, ": experts is ", type_of(experts), "; give whole numbers, such as torch.int32");
  TORCH_CHECK_VALUE(experts.dim() == 2, kOp, ": experts has shape ", experts.sym_sizes(), "; give [tokens, top]");
  TORCH_CHECK_VALUE(num_experts >= 1 && num_experts <= kMostExperts, kOp, ": num_experts is ", num_experts,
                    "; give 1 to ", kMostExperts);
  TORCH_CHECK_VALUE(align >= 1 && align <= kMostAlign, kOp, ": align is ", align, "; give 1 to ", kMostAlign);
  const auto choices = experts.sym_size(0) * experts.sym_size(1);
  const auto places = (choices + num_experts * (align - 1)) / align * align;
  const auto numbers = experts.options().dtype(at::kInt);
  return {at::empty({num_experts + 1}, numbers), at::empty_symint({places, 1}, numbers),
          at::empty_symint(experts.sym_sizes(), numbers), at::empty_symint({places, 1}, numbers)};
}

// A number that 32 bits do not hold is none, as every other beyond the experts.
Tensor in_32_bits(const Tensor& experts, std::int64_t num_experts) {
  if (experts.scalar_type() == at::kInt) return experts.contiguous();
  if (experts.scalar_type() == at::kLong) return at::clamp(experts, -1, num_experts).to(at::kInt).contiguous();
  return experts.to(at::kInt).contiguous();
}

Order expert_order(const Tensor& experts, std::int64_t num_experts, std::int64_t align) {
  const Order made = expert_order_meta(experts, num_experts, align);
  const auto& [offsets, tokens, rows, choices] = made;
  if (experts.numel() == 0) {
    offsets.zero_();
    tokens.fill_(-1);
    choices.fill_(-1);
    return made;
  }
  const OnDeviceOf on_device(experts);
  const Tensor numbers = in_32_bits(experts, num_experts);
  const auto vector = [](const Tensor& tensor) {
    return TensorView::contiguous(tensor.data_ptr(), DType::kI32, {tensor.numel()});
  };
  ExpertOrderArgs args;
  args.experts = dense_view(numbers, kOp, "experts");
  args.offsets = vector(offsets);
  args.tokens = vector(tokens);
  args.rows = dense_view(rows, kOp, "rows");
  args.choices = vector(choices);
  args.align = align;
  check(ridge::expert_order(args, stream_of(experts)));
  return made;
}

}  // namespace

void register_expert_order(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA: library.impl("expert_order", expert_order); return;
    case c10::DispatchKey::Meta: library.impl("expert_order", expert_order_meta); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
