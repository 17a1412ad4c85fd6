// What check kernels of every operator start from: numbers as stored, in double, and their grids. Goes in front of an
// operator's own check kernels (ops/device_check.h), so it has no include guard and includes nothing.
namespace ridge::check_numbers {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

enum Type : int { kF64, kF32, kF16, kBf16, kE4m3, kE5m2, kE8m0 = 9, kI32, kI64, kU8, kU64 };  // ridge/dtype.h
enum Granularity : int { kNoScale = -1, kTensor, kRow, kVector, kBlock, kMx };                // ridge/scaling.h

struct Matrix {
  const u8* data;
  i64 rows, columns, pitch;  // as stored; pitch in elements
  i64 type;
};

// ops/device_check.h
struct Projection {
  u64 worst;  // residual / allowed as float bits << 32 | row; the maximum wins
  double square_sum, count;
  u64 not_finite;
};

#ifndef RIDGE_CHECK_ON_HOST  // a test that runs these kernels without a GPU converts by other means
__device__ inline float half_to_float(u16 bits) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
  return f;
}
__device__ inline float from_e4m3(u8 code) {
  u32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<u16>(code)));
  return half_to_float(static_cast<u16>(halves));
}
// To nearest even, saturating.
__device__ inline u8 to_code(float x, i64 format) {
  u16 code;
  if (format == kE4m3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(code) : "f"(0.0f), "f"(x));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(code) : "f"(0.0f), "f"(x));
  }
  return static_cast<u8>(code);
}
#endif

__device__ inline double load(const Matrix& x, i64 row, i64 column) {
  const i64 at = row * x.pitch + column;
  switch (x.type) {
    case kF64: return reinterpret_cast<const double*>(x.data)[at];
    case kF32: return reinterpret_cast<const float*>(x.data)[at];
    case kF16: return half_to_float(reinterpret_cast<const u16*>(x.data)[at]);
    case kBf16: return __uint_as_float(static_cast<u32>(reinterpret_cast<const u16*>(x.data)[at]) << 16);
    case kE4m3: return from_e4m3(x.data[at]);
    case kE5m2: return half_to_float(static_cast<u16>(x.data[at] << 8));
    case kI32: return reinterpret_cast<const int*>(x.data)[at];
    case kI64: return static_cast<double>(reinterpret_cast<const i64*>(x.data)[at]);
    case kU8: return x.data[at];
    case kU64: return static_cast<double>(reinterpret_cast<const u64*>(x.data)[at]);
    default: return x.data[at] == 255 ? __longlong_as_double(0x7ff8000000000000ll) : scalbn(1.0, x.data[at] - 127);
  }
}

__device__ inline double max_finite(i64 type) {
  switch (type) {
    case kF32: return 3.4028234663852886e38;
    case kF16: return 65504.0;
    case kBf16: return 3.3895313892515355e38;
    case kE4m3: return 448.0;
    case kE5m2: return 57344.0;
    default: return 0x1p127;
  }
}

// Half the distance between neighbours of the type at |x|.
__device__ inline double half_ulp(i64 type, double x) {
  int mantissa = 0, lowest = -127;
  switch (type) {
    case kF32: mantissa = 23, lowest = -126; break;
    case kF16: mantissa = 10, lowest = -14; break;
    case kBf16: mantissa = 7, lowest = -126; break;
    case kE4m3: mantissa = 3, lowest = -6; break;
    case kE5m2: mantissa = 2, lowest = -14; break;
    default: break;
  }
  int exponent = x == 0.0 || !isfinite(x) ? lowest : ilogb(x);
  exponent = exponent < lowest ? lowest : exponent;
  return scalbn(0.5, exponent - mantissa);
}

// To nearest even; beyond the largest number infinite.
__device__ inline double round_to(i64 type, double x) {
  if (!isfinite(x)) return x;
  const double step = 2 * half_ulp(type, x), rounded = rint(x / step) * step;
  return fabs(rounded) > max_finite(type) ? copysign(__longlong_as_double(0x7ff0000000000000ll), x) : rounded;
}

__device__ inline u64 mix(u64 x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// The scale of element (row, column) of a matrix whose scales run along its columns.
__device__ inline double scale_at(const Matrix& scale, i64 granularity, i64 row, i64 column) {
  switch (granularity) {
    case kTensor: return load(scale, 0, 0);
    case kRow: return load(scale, 0, row);
    case kVector: return load(scale, column / 128, row);
    case kBlock: return load(scale, row / 128, column / 128);
    case kMx: return load(scale, column / 32, row);
    default: return 1.0;
  }
}

// What one number that is known exactly, up to a relative `slack`, may be stored as (numerics::rounded_once).
struct Rounded {
  double value, allowed, variance;
};
__device__ inline Rounded known(i64 type, double value) {
  if (!isfinite(value)) return {value, 1.0, 1.0};
  const double allowed = half_ulp(type, value) * 0x1p-9;
  return {value, allowed, allowed * allowed / 4};
}
__device__ inline Rounded rounded_once(i64 type, double value, double slack) {
  if (!isfinite(value)) return known(type, value);
  const double reach = slack > 0 && value != 0 ? fmax(slack * fabs(value), 0x1p-150) : 0;
  const double low = round_to(type, value - reach), high = round_to(type, value + reach);
  if (low == high) return known(type, round_to(type, value));
  const double step = 2 * half_ulp(type, value);
  if (!isfinite(high - low)) return {value, reach + step, step * step};
  return {value, (high - low) / 2 + 2 * reach, (high - low) * (high - low) / 4};
}
// The same for stochastic rounding (numerics::rounded_stochastically).
__device__ inline Rounded rounded_stochastically(i64 type, double value, double slack) {
  if (!isfinite(value)) return known(type, value);
  const double most = max_finite(type), reach = slack * fabs(value), step = 2 * half_ulp(type, value);
  const double low = fmin(fmax(value - reach, -most), most), high = fmin(fmax(value + reach, -most), most);
  const double fine = 2 * half_ulp(type, low), coarse = 2 * half_ulp(type, high);
  const double below = floor(low / fine) * fine, above = ceil(high / coarse) * coarse;
  if (below == above) return known(type, below);
  return {value, fmax(value - below, above - value) * (1 + 0x1p-20),
          fmax((value - below) * (above - value), step * step / 12)};
}

__device__ inline bool same(double x, double y) { return x == y || (x != x && y != y); }

// An element of a reference, as DeviceCheck::ReferenceRequest has it, and the arrays of them.
struct Element {
  double value, allowed, variance, shift;
};
struct ElementArrays {
  double *value, *allowed, *variance, *shift;

  __device__ void put(i64 at, const Element& element) const {
    value[at] = element.value;
    allowed[at] = element.allowed;
    variance[at] = element.variance;
    shift[at] = element.shift;
  }
};

// The group that a row is of, by the offsets at which the groups begin and the last one ends; -1: of none. Of empty
// ones at one place it is the last.
template <class OffsetAt>
__device__ inline i64 group_with(i64 row, i64 groups, const OffsetAt& offset_at) {
  i64 at = 0, end = groups + 1;  // offsets before `at` are not beyond the row, those from `end` on are
  while (at < end) {
    const i64 middle = (at + end) / 2;
    if (offset_at(middle) <= row) {
      at = middle + 1;
    } else {
      end = middle;
    }
  }
  return at == groups + 1 ? -1 : at - 1;
}

// Adds what a thread found to a Projection; every lane of the warp takes part.
__device__ inline void add_to(Projection* result, double squares, double count) {
  for (int offset = 16; offset > 0; offset >>= 1) {
    squares += __shfl_down_sync(~0u, squares, offset);
    count += __shfl_down_sync(~0u, count, offset);
  }
  if (threadIdx.x % 32 == 0 && count > 0) {
    atomicAdd(&result->square_sum, squares);
    atomicAdd(&result->count, count);
  }
}
__device__ inline void note_worst(Projection* result, double ratio, i64 row) {
  atomicMax(&result->worst, static_cast<u64>(__float_as_uint(static_cast<float>(ratio))) << 32 | static_cast<u32>(row));
}
// Notes what an element is off by; returns its square over the variance of the ideal kernel, for add_to. One that is
// not finite, or should not be, counts among those.
__device__ inline double judged(Projection* result, double got, double value, double allowed, double variance,
                                i64 row) {
  if (!isfinite(got) || !isfinite(value)) {
    atomicAdd(&result->not_finite, 1ull);
    return 0;
  }
  const double error = fabs(got - value);
  note_worst(result, error / allowed, row);
  return error * error / variance;
}

}  // namespace ridge::check_numbers

using namespace ridge::check_numbers;
