#include "red_zones.h"

#include <dlfcn.h>

namespace ridge::host {
namespace {

// Bytes of an element; packed 4-bit codes are two per byte.
std::size_t bytes_of(int32_t dtype, int64_t elements) {
  const auto n = static_cast<std::size_t>(elements);
  switch (dtype) {
    case RIDGE_F64:
    case RIDGE_I64:
    case RIDGE_U64: return 8 * n;
    case RIDGE_F32:
    case RIDGE_I32: return 4 * n;
    case RIDGE_F16:
    case RIDGE_BF16: return 2 * n;
    case RIDGE_E2M1: return (n + 1) / 2;
    default: return n;
  }
}

std::size_t extent(const ridge_tensor& tensor) {
  int64_t last = 0;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 0) return 0;
    last += (tensor.shape[axis] - 1) * tensor.stride[axis];
  }
  return bytes_of(tensor.dtype, last + 1);
}

}  // namespace

RedZones::RedZones(void* region, std::size_t bytes, bool sanitized) : region_(region), bytes_(bytes) {
  if (!sanitized) return;
  poison_ = reinterpret_cast<Mark>(::dlsym(RTLD_DEFAULT, "__asan_poison_memory_region"));
  clear_ = reinterpret_cast<Mark>(::dlsym(RTLD_DEFAULT, "__asan_unpoison_memory_region"));
}

void RedZones::raise(const ridge_call& call) const {
  if (poison_ == nullptr || clear_ == nullptr) return;
  poison_(region_, bytes_);
  for (int i = 0; i < call.operand_count; ++i) clear_(call.operands[i].data, extent(call.operands[i]));
}

void RedZones::lower() const {
  if (clear_ != nullptr) clear_(region_, bytes_);
}

}  // namespace ridge::host
