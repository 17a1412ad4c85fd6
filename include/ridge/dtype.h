// Element types. The encoding is part of the name: there is no plain "fp8".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ridge/result.h"

namespace ridge {

enum class DType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kE4m3fn,    // OCP FP8 E4M3: finite only, NaN = S.1111.111, max 448
  kE5m2,      // OCP FP8 E5M2: IEEE-like with Inf, max 57344
  kE4m3fnuz,  // AMD CDNA3 FP8 E4M3: bias 8, one NaN (0x80), no negative zero, max 240
  kE5m2fnuz,  // AMD CDNA3 FP8 E5M2: bias 16, one NaN (0x80), no negative zero, max 57344
  kE2m1,      // OCP FP4: 0, .5, 1, 1.5, 2, 3, 4, 6; two per byte when packed
  kE8m0,      // OCP MX scale: 2^(code-127), 0xff = NaN
  kI32,       // whole numbers: indices, offsets, lengths
  kI64,
  kU8,
  kU64,  // seeds
};

inline constexpr DType kAllDTypes[] = {DType::kF64,  DType::kF32,      DType::kF16,      DType::kBf16, DType::kE4m3fn,
                                       DType::kE5m2, DType::kE4m3fnuz, DType::kE5m2fnuz, DType::kE2m1, DType::kE8m0,
                                       DType::kI32,  DType::kI64,      DType::kU8,       DType::kU64};

constexpr bool is_integer(DType dtype) { return dtype >= DType::kI32; }

// Bits of one element: 64, 32, 16, 8 or 4.
int size_bits(DType dtype);
// Bytes of `count` elements, rounded up to whole bytes.
std::size_t size_bytes(DType dtype, std::int64_t count);
// "f32", "bf16", "e4m3fn", "i32", ... ; parse_dtype also accepts the aliases fp32, fp16, float32, half, bfloat16,
// int32, int64, uint8, uint64.
std::string_view to_string(DType dtype);
Result<DType> parse_dtype(std::string_view name);

}  // namespace ridge
