// Checks of the operands that callers pass, with messages that hold the values. The names in the messages are those
// of the contract.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "ridge/result.h"
#include "ridge/tensor.h"

namespace ridge::ops {

// Of that rank, no negative size, memory where there are elements, the last dimension contiguous and every other at
// least as far apart as what it contains. `way_out` is said where a stride is refused.
Status check_layout(std::string_view op, std::string_view name, const TensorView& view, int rank,
                    std::string_view way_out);

// Of exactly this dtype and shape.
Status check_shape(std::string_view op, std::string_view name, const TensorView& view, DType dtype,
                   std::span<const std::int64_t> shape, std::string_view way_out);

// Whether the bytes from the first to the last element of both have any in common.
bool overlap(const TensorView& x, const TensorView& y);

struct NamedView {
  std::string_view name;
  const TensorView* view = nullptr;
};
// An output must not share memory with anything else of the call.
Status check_apart(std::string_view op, const NamedView& output, std::initializer_list<NamedView> others);

}  // namespace ridge::ops
