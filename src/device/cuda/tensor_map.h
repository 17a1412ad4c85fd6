// Descriptors for Hopper's tensor copy engine (TMA): how a box of a tensor is addressed.
#pragma once

#include <array>
#include <cstdint>

#include "device/cuda/backend.h"
#include "ridge/dtype.h"

namespace ridge::device::cuda {

// 128 bytes that go to a kernel by value, as a __grid_constant__ parameter.
struct alignas(128) TensorMap {
  std::array<std::uint64_t, 16> words{};
};

struct TensorMapRequest {
  // The element's size is what the engine looks at; 8-bit types travel as bytes.
  DType dtype = DType::kBf16;
  int rank = 2;                                  // 1..5; dimension 0 is the contiguous one
  std::array<std::uint64_t, 5> sizes{};          // elements
  std::array<std::uint64_t, 5> strides_bytes{};  // of dimensions 1..; [0] is not read. Multiples of 16
  std::array<std::uint32_t, 5> box{};            // elements, 1..256 each
  std::array<std::uint32_t, 5> element_strides{1, 1, 1, 1, 1};
  int swizzle_bytes = 128;       // 0, 32, 64, 128: the inner side of the box may not be larger
  int l2_promotion_bytes = 256;  // 0, 64, 128, 256
  bool fill_nan = false;         // what is read outside the tensor: zero, or NaN
};

// The request checked against the rules of the engine, each error with the values: base and strides multiples of 16
// bytes, sides of the box, swizzle width, sizes from 1 to 2^32.
Status check(const TensorMapRequest& request, const void* base);
// Host arithmetic in the driver, about a microsecond; no device work.
Status encode(const TensorMapRequest& request, const void* base, TensorMap& map);

}  // namespace ridge::device::cuda
