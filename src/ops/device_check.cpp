#include "ops/device_check.h"

#include <stdexcept>

#include "base/error.h"
#include "ops/described_kernel.h"

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

std::string_view source_of(std::string_view file) {
  for (const EmbeddedFile& one : device_sources()) {
    if (one.path == file) return one.text;
  }
  throw std::logic_error(fmt::format("no device source is named {}", file));
}

std::string check_source(std::initializer_list<std::string_view> files) {
  std::string source(source_of("ops/check_numbers.cuh"));
  for (const std::string_view file : files) source += source_of(file);
  return source;
}

}  // namespace ridge::ops
