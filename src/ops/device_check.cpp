#include "ops/device_check.h"

namespace ridge::ops {

DeviceMatrix device_matrix(const TensorView& view) {
  DeviceMatrix matrix;
  matrix.data = reinterpret_cast<std::uint64_t>(view.data);
  matrix.type = static_cast<std::int64_t>(view.dtype);
  matrix.rows = matrix.columns = 1;
  if (view.rank > 0) matrix.columns = view.shape[static_cast<std::size_t>(view.rank - 1)];
  for (int axis = 0; axis + 1 < view.rank; ++axis) matrix.rows *= view.shape[static_cast<std::size_t>(axis)];
  matrix.pitch = view.rank > 1 ? view.stride[static_cast<std::size_t>(view.rank - 2)] : matrix.columns;
  return matrix;
}

}  // namespace ridge::ops
