// Operands as the harness's own kernels see them, in front of compare.cu and harness.cu: no include guard, and it
// includes nothing.
namespace ridge::harness {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

// As in ridge/dtype.h.
enum Type : int { kF64, kF32, kF16, kBf16, kE4m3, kE5m2, kE8m0 = 9, kI32, kI64, kU8, kU64 };

// A tensor as rows of contiguous elements; all dimensions but the last are folded into the rows.
struct Operand {
  u8* data;
  i64 rows, columns, pitch;  // elements
  i64 type;
  __device__ i64 count() const { return rows * columns; }
};

__device__ inline int width_of(i64 type) {
  switch (type) {
    case kF64:
    case kI64:
    case kU64: return 8;
    case kF32:
    case kI32: return 4;
    case kF16:
    case kBf16: return 2;
    default: return 1;
  }
}

// Position of element e. Most tensors are below 2^32 elements, where a division costs a quarter.
__device__ inline i64 offset_of(const Operand& x, i64 e) {
  if (x.pitch == x.columns) return e;
  if (x.count() <= 0xffffffffll) {
    const u32 row = static_cast<u32>(e) / static_cast<u32>(x.columns);
    return row * x.pitch + (static_cast<u32>(e) - row * static_cast<u32>(x.columns));
  }
  return e / x.columns * x.pitch + e % x.columns;
}

__device__ inline u64 bits_at(const Operand& x, i64 e) {
  const i64 at = offset_of(x, e);
  switch (width_of(x.type)) {
    case 8: return reinterpret_cast<const u64*>(x.data)[at];
    case 4: return reinterpret_cast<const u32*>(x.data)[at];
    case 2: return reinterpret_cast<const u16*>(x.data)[at];
    default: return x.data[at];
  }
}

__device__ inline void put_bits(const Operand& x, i64 e, u64 bits) {
  const i64 at = offset_of(x, e);
  switch (width_of(x.type)) {
    case 8: reinterpret_cast<u64*>(x.data)[at] = bits; break;
    case 4: reinterpret_cast<u32*>(x.data)[at] = static_cast<u32>(bits); break;
    case 2: reinterpret_cast<u16*>(x.data)[at] = static_cast<u16>(bits); break;
    default: x.data[at] = static_cast<u8>(bits);
  }
}

#ifndef RIDGE_CHECK_ON_HOST  // a test that runs these kernels without a GPU converts by other means
__device__ inline float half_to_float(u16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
#endif

__device__ inline double decode(i64 type, u64 bits) {
  switch (type) {
    case kF64: return __longlong_as_double(static_cast<i64>(bits));
    case kF32: return __uint_as_float(static_cast<u32>(bits));
    case kF16: return half_to_float(static_cast<u16>(bits));
    case kBf16: return __uint_as_float(static_cast<u32>(bits) << 16);
    case kE5m2: return half_to_float(static_cast<u16>(bits << 8));
    case kI32: return static_cast<int>(bits);
    case kI64: return static_cast<double>(static_cast<i64>(bits));
    case kU8: return static_cast<double>(bits & 255);
    case kU64: return static_cast<double>(bits);
    case kE8m0:
      return bits == 255 ? __longlong_as_double(0x7ff8000000000000ll) : scalbn(1.0, static_cast<int>(bits) - 127);
    default: {
      const int exponent = static_cast<int>(bits >> 3) & 15, mantissa = static_cast<int>(bits) & 7;
      const double sign = (bits & 128) != 0 ? -1.0 : 1.0;
      if (exponent == 15 && mantissa == 7) return __longlong_as_double(0x7ff8000000000000ll);
      return exponent == 0 ? sign * mantissa * 0x1p-9
                           : sign * (8 + mantissa) * exp2(static_cast<double>(exponent - 10));
    }
  }
}

__device__ inline double max_finite(i64 type) {
  switch (type) {
    case kF64: return 1.7976931348623157e308;
    case kF32: return 3.4028234663852886e38;
    case kF16: return 65504.0;
    case kBf16: return 3.3895313892515355e38;
    case kE5m2: return 57344.0;
    case kE8m0: return 0x1p127;
    default: return 448.0;
  }
}

__device__ inline i64 thread_index() { return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline i64 thread_count() { return static_cast<i64>(gridDim.x) * blockDim.x; }

}  // namespace ridge::harness
