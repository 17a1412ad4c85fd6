#include "ridge/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "base/check.h"

namespace ridge {
namespace {

bool is_row_major(const TensorView& view) {
  std::int64_t expected = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (view.shape[i] > 1 && view.stride[i] != expected) return false;
    expected *= view.shape[i];
  }
  return true;
}

}  // namespace

TensorView TensorView::contiguous(void* data, DType dtype, std::initializer_list<std::int64_t> shape) {
  check(shape.size() <= static_cast<std::size_t>(kMaxRank), "a tensor view has at most 5 dimensions");
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  for (const std::int64_t extent : shape) view.shape[static_cast<std::size_t>(view.rank++)] = extent;
  std::int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    view.stride[i] = stride;
    stride *= view.shape[i];
  }
  return view;
}

TensorView TensorView::matrix(void* data, DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t row_stride) {
  TensorView view = contiguous(data, dtype, {rows, cols});
  view.stride[0] = row_stride;
  return view;
}

std::int64_t TensorView::element_count() const {
  std::int64_t count = 1;
  for (int axis = 0; axis < rank; ++axis) count *= shape[static_cast<std::size_t>(axis)];
  return count;
}

std::string TensorView::describe() const {
  const auto n = static_cast<std::size_t>(rank);
  const std::span extents(shape.data(), n);
  const std::span strides(stride.data(), n);
  const std::string text = fmt::format("{} [{}]", to_string(dtype), fmt::join(extents, ", "));
  return is_row_major(*this) ? text : fmt::format("{} strides [{}]", text, fmt::join(strides, ", "));
}

}  // namespace ridge
