// Numbers in memory that an operator reads on its device: the factor and the skip of a step.
#pragma once

#include <string_view>

#include "convert.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {

inline void check_number(const OptionalTensor& number, std::string_view op, std::string_view name) {
  if (!given(number)) return;
  TORCH_CHECK_VALUE(number->scalar_type() == at::kFloat && same(number->sym_numel(), 1), op, ": ", name, " is ",
                    type_of(*number), " of shape ", number->sym_sizes(), "; give one number in torch.float32");
}

// Rank 0 where it is left out.
inline TensorView number_view(const OptionalTensor& number) {
  return given(number) ? TensorView::contiguous(number->data_ptr(), DType::kF32, {1}) : TensorView();
}

}  // namespace ridge::torch_frontend
