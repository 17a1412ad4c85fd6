// Conversion between element types: one number at a time, in bulk, and through strided views.
//
// Rounding is to nearest, ties to even, unless asked otherwise. Where a format ends (beyond its largest finite value
// after rounding, "overflow"), `saturate` decides:
//
//   format               overflow and Inf, saturate = false   saturate = true     NaN
//   f32 f16 bf16 e5m2    Inf (IEEE 754, OCP FP8)              +-max               NaN, sign kept
//   e4m3fn               NaN (OCP FP8)                        +-max (448)         NaN, sign kept
//   e4m3fnuz e5m2fnuz    NaN (0x80)                           +-max (240, 57344)  NaN (0x80)
//   e2m1                 +-6: has no Inf and no NaN, always saturates             +6 (as PTX cvt.satfinite)
//   e8m0                 NaN (0xff)                           2^127               NaN (0xff)
//
// Whole numbers take the nearest, ties to even, and the ends of their range beyond it, whatever `saturate` says; NaN
// becomes 0. Those of 64 bits beyond 2^53 go through a double and lose their last bits.
//
// E8M0 is a positive power of two: negative numbers become NaN; zero and everything below 2^-127 becomes 2^-127
// (code 0), because a scale must stay usable. FNUZ has no negative zero: what underflows becomes +0.
// NaN: f16 and bf16 keep sign and the upper payload bits and become quiet, as the CPU's own instructions do.
//
// Memory: E2M1 is packed two per byte, element 0 in the low four bits. Bulk calls start at a byte boundary.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/dtype.h"
#include "ridge/tensor.h"

namespace ridge::numerics {

enum class RoundMode : std::uint8_t {
  kNearestEven,
  // Up with the probability of the discarded fraction, so the mean over draws is the value itself. Element i of a bulk
  // call uses word offset + i of the Philox stream `seed`: reproducible, and independent of how work is split.
  // To f32 and f64 it rounds to nearest.
  kStochastic,
};

// How E8M0 rounds to a power of two; the names are those of the OCP MX scale rules.
enum class ScaleRounding : std::uint8_t {
  kFloor,  // largest power of two <= x: the MX specification's rule, elements may saturate
  kEven,   // nearest power of two; the midpoint 1.5 * 2^e goes up: of the significands 1 and 2 the latter is even
  kCeil,   // smallest power of two >= x: elements never saturate
};

struct Rounding {
  RoundMode mode = RoundMode::kNearestEven;
  bool saturate = false;
  ScaleRounding scale = ScaleRounding::kEven;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

// The value of a code, exact but for whole numbers beyond 2^53 (the code's unused upper bits must be zero).
double decode(DType dtype, std::uint64_t code);
// The code of a value. With kStochastic it draws word `offset` of the stream.
std::uint64_t encode(DType dtype, double value, const Rounding& rounding = {});
std::uint64_t encode(DType dtype, float value, const Rounding& rounding = {});
// decode(encode(value)): what is left of a value after one store in `dtype`.
double round_to(DType dtype, double value, const Rounding& rounding = {});

// `n` contiguous elements. to_float is exact except from f64 and whole numbers, which round to nearest even.
// f16 and bf16 in both directions run at memory speed; source and destination must not overlap. An odd count of E2M1
// writes zero into the unused half of its last byte.
void to_float(DType dtype, const void* codes, float* out, std::int64_t n);
void to_double(DType dtype, const void* codes, double* out, std::int64_t n);
void from_float(DType dtype, const float* in, void* codes, std::int64_t n, const Rounding& rounding = {});
void from_double(DType dtype, const double* in, void* codes, std::int64_t n, const Rounding& rounding = {});

// Element `offset` (in elements from `data`, so strides are already applied) of memory in `dtype`.
double load(DType dtype, const void* data, std::int64_t offset);
void store(DType dtype, void* data, std::int64_t offset, double value, const Rounding& rounding = {});
// The offset of the index-th element of a view in row-major order of its shape.
std::int64_t element_offset(const TensorView& view, std::int64_t index);
// The index-th element of a view, in row-major order of its shape.
double load_element(const TensorView& view, std::int64_t index);
void store_element(const TensorView& view, std::int64_t index, double value, const Rounding& rounding = {});
// All elements of a view, in row-major order of its shape.
std::vector<double> to_doubles(const TensorView& view);
// The reverse: values.size() must be view.element_count().
void from_doubles(const std::vector<double>& values, const TensorView& view, const Rounding& rounding = {});

// The instruction set the bulk conversions chose on this machine: "avx512", "avx2" or "portable".
const char* bulk_conversion_isa();

}  // namespace ridge::numerics
