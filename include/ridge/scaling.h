// Scales of 8-bit operands: which elements share one, its type, and how it is chosen.
//
// A scale multiplies: x ~ q * scale. Scales run along the columns of a matrix [rows, cols]; of its transposed copy they
// run along the rows. What is stored:
//
//   granularity   elements that share a scale   scale tensor                   dtype
//   kTensor       all                           [1]                            f32
//   kRow          a row                         [rows]                         f32
//   kVector       1 x 128                       [ceil(cols / 128), rows]       f32
//   kBlock         128 x 128                     [ceil(rows/128), ceil(cols/128)] f32
//   kMx           1 x 32                        [ceil(cols / 32), rows]        E8M0
//
// kVector and kMx keep the scales of one step along the columns together for all rows, because a matrix product reads
// them that way: one contiguous run for each step along its sum.
#pragma once

#include <cstdint>

namespace ridge {

enum class Granularity : std::uint8_t { kTensor, kRow, kVector, kBlock, kMx };

// With the largest finite magnitude `amax` of the elements that share a scale, fmax the format's largest value (448 or
// 57344) and emax its exponent (8 or 15). A scale is at least 2^-126 (E8M0: 2^-127); amax = 0 gives 1.
enum class ScaleRule : std::uint8_t {
  kExact,  // amax / fmax in f32: the whole range is used. Not for kMx
  kFloor,  // 2^(floor(log2 amax) - emax): the rule of the OCP MX specification; the largest elements may saturate
  kEven,   // the same of amax rounded to the format's mantissa: less saturation, at most one step in error
  kCeil    // the smallest power of two with which nothing saturates
};

}  // namespace ridge
