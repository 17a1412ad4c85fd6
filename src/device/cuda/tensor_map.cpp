#include "device/cuda/tensor_map.h"

#include "base/error.h"
#include "device/cuda/driver.h"

namespace ridge::device::cuda {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));

constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 32;
constexpr std::uint64_t kMaxStride = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxBox = 256;

CUtensorMapDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::kF32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::kF16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kBf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

CUtensorMapSwizzle swizzle_of(int bytes) {
  switch (bytes) {
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128: return CU_TENSOR_MAP_SWIZZLE_128B;
    default: return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

CUtensorMapL2promotion promotion_of(int bytes) {
  switch (bytes) {
    case 64: return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case 128: return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case 256: return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    default: return CU_TENSOR_MAP_L2_PROMOTION_NONE;
  }
}

bool one_of(int value, std::initializer_list<int> allowed) {
  for (const int item : allowed) {
    if (value == item) return true;
  }
  return false;
}

Status check_dimensions(const TensorMapRequest& r, std::uint64_t element_bytes) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(r.rank); ++i) {
    if (r.sizes[i] == 0 || r.sizes[i] > kMaxSize) {
      return invalid("tensor map: size {} of dimension {}; it must be 1 to 2^32", r.sizes[i], i);
    }
    if (r.box[i] == 0 || r.box[i] > kMaxBox) {
      return invalid("tensor map: box {} of dimension {}; it must be 1 to 256", r.box[i], i);
    }
    if (r.element_strides[i] == 0 || r.element_strides[i] > 8) {
      return invalid("tensor map: element stride {} of dimension {}; it must be 1 to 8", r.element_strides[i], i);
    }
    if (i > 0 && (r.strides_bytes[i] % 16 != 0 || r.strides_bytes[i] == 0 || r.strides_bytes[i] >= kMaxStride)) {
      return with_hint(invalid("tensor map: stride of {} bytes of dimension {}; it must be a multiple of 16 below 2^40",
                               r.strides_bytes[i], i),
                       "pad the rows, or load without the copy engine");
    }
  }
  const std::uint64_t inner = r.box[0] * element_bytes;
  if (inner % 16 != 0) {
    return invalid("tensor map: the box is {} bytes wide inside; it must be a multiple of 16", inner);
  }
  if (r.swizzle_bytes != 0 && inner > static_cast<std::uint64_t>(r.swizzle_bytes)) {
    return invalid("tensor map: the box is {} bytes wide inside, more than the swizzle of {} bytes", inner,
                   r.swizzle_bytes);
  }
  return ok_status();
}

}  // namespace

Status check(const TensorMapRequest& r, const void* base) {
  const int bits = size_bits(r.dtype);
  if (bits < 8) return invalid("tensor map: elements of {} have {} bits", to_string(r.dtype), bits);
  if (r.rank < 1 || r.rank > 5) return invalid("tensor map: rank {}; it must be 1 to 5", r.rank);
  if (!one_of(r.swizzle_bytes, {0, 32, 64, 128})) {
    return invalid("tensor map: swizzle {}; it must be 0, 32, 64 or 128", r.swizzle_bytes);
  }
  if (!one_of(r.l2_promotion_bytes, {0, 64, 128, 256})) {
    return invalid("tensor map: L2 promotion {}; it must be 0, 64, 128 or 256", r.l2_promotion_bytes);
  }
  if (reinterpret_cast<std::uintptr_t>(base) % 16 != 0) {
    return invalid("tensor map: the tensor starts at {}; it must be a multiple of 16 bytes", base);
  }
  return check_dimensions(r, static_cast<std::uint64_t>(bits / 8));
}

Status encode(const TensorMapRequest& r, const void* base, TensorMap& map) {
  RIDGE_CHECK_OK(check(r, base));
  std::array<cuuint64_t, 5> sizes{}, strides{};
  for (std::size_t i = 0; i < 5; ++i) {
    sizes[i] = r.sizes[i];
    if (i > 0) strides[i - 1] = r.strides_bytes[i];
  }
  const CUresult code = driver().cuTensorMapEncodeTiled(
      reinterpret_cast<CUtensorMap*>(&map), type_of(r.dtype), static_cast<cuuint32_t>(r.rank), const_cast<void*>(base),
      sizes.data(), strides.data(), r.box.data(), r.element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzle_of(r.swizzle_bytes), promotion_of(r.l2_promotion_bytes),
      r.fill_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return check(code, "cuTensorMapEncodeTiled");
}

}  // namespace ridge::device::cuda
