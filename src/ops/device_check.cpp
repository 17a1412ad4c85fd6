#include "ops/device_check.h"

#include "base/embedded.h"

namespace ridge::ops {

std::span<const EmbeddedFile> device_sources();  // every device source of the operators

DeviceMatrix device_matrix(const TensorView& view) {
  DeviceMatrix matrix;
  matrix.data = reinterpret_cast<std::uint64_t>(view.data);
  // Device code knows no whole numbers: 64 bits of them (seeds) are filled, hashed and compared as an f64's.
  const bool seeds = is_integer(view.dtype) && size_bits(view.dtype) == 64;
  matrix.type = static_cast<std::int64_t>(seeds ? DType::kF64 : view.dtype);
  matrix.rows = matrix.columns = 1;
  if (view.rank > 0) matrix.columns = view.shape[static_cast<std::size_t>(view.rank - 1)];
  for (int axis = 0; axis + 1 < view.rank; ++axis) matrix.rows *= view.shape[static_cast<std::size_t>(axis)];
  matrix.pitch = view.rank > 1 ? view.stride[static_cast<std::size_t>(view.rank - 2)] : matrix.columns;
  return matrix;
}

std::string check_source(std::string_view file) {
  std::string source;
  for (const std::string_view wanted : {std::string_view("check_numbers.cuh"), file}) {
    for (const EmbeddedFile& one : device_sources()) {
      if (one.path.starts_with("ops/") && one.path.substr(4) == wanted) source += one.text;
    }
  }
  return source;
}

}  // namespace ridge::ops
