// What the checks and benchmarks need on the device: random operands, a float64 reference, and a comparison. Shares
// nothing with the kernels under test, on purpose: plain loads, plain loops, one thread per output element.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

enum Type { kBf16 = 0, kF16 = 1, kF32 = 2, kE4m3 = 3, kE5m2 = 4, kTf32 = 5 };
enum Scaling { kNone, kTensor, kRow, kBlock, kVector, kMx };
enum Activation { kIdentity, kGelu, kGeluTanh, kSilu };

__device__ u64 mix(u64 x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Standard normal from a counter (Box and Muller), so any element can be made again without the others.
__device__ float normal(u64 seed, u64 index) {
  const u64 bits = mix(seed * 0x100000001B3ull ^ mix(index));
  const float u = ((u32)(bits >> 40) + 0.5f) * (1.0f / 16777216.0f);
  const float v = ((u32)bits & 0xFFFFFFu) * (6.2831853f / 16777216.0f);
  return sqrtf(-2.0f * logf(u)) * cosf(v);
}

__device__ void put(void* data, int type, i64 index, float value) {
  if (type == kF32 || type == kTf32) {
    ((float*)data)[index] = value;
  } else if (type == kBf16) {
    unsigned short h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(value));
    ((unsigned short*)data)[index] = h;
  } else if (type == kF16) {
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(value));
    ((unsigned short*)data)[index] = h;
  } else {
    unsigned short h;
    if (type == kE4m3)
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(value));
    else
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(value));
    ((unsigned char*)data)[index] = (unsigned char)h;
  }
}

__device__ float half_bits_to_float(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}

__device__ float get(const void* data, int type, i64 index) {
  if (type == kF32 || type == kTf32) return ((const float*)data)[index];
  if (type == kBf16) return __uint_as_float((u32)((const unsigned short*)data)[index] << 16);
  if (type == kF16) return half_bits_to_float(((const unsigned short*)data)[index]);
  const unsigned char b = ((const unsigned char*)data)[index];
  if (type == kE5m2) return half_bits_to_float((unsigned short)(b << 8));
  const int exponent = (b >> 3) & 15, mantissa = b & 7;
  const float sign = (b & 128) ? -1.0f : 1.0f;
  if (exponent == 15 && mantissa == 7) return __uint_as_float(0x7FC00000u);
  return exponent == 0 ? sign * mantissa * 0.001953125f
                       : sign * (1.0f + mantissa * 0.125f) * exp2f((float)(exponent - 7));
}

extern "C" __global__ void fill_normal(void* data, int type, i64 count, u64 seed, float scale) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
    put(data, type, i, scale * normal(seed, (u64)i));
  }
}

extern "C" __global__ void set_value(void* data, int type, i64 index, float value) { put(data, type, index, value); }

// fp32: from 0.25 to 4. E8M0: from 2^-3 to 2^4.
extern "C" __global__ void fill_scales(void* data, int mx, i64 count, u64 seed) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
    const u32 bits = (u32)(mix(seed * 0x100000001B3ull ^ mix((u64)i)) >> 32);
    if (mx) {
      ((unsigned char*)data)[i] = (unsigned char)(124 + bits % 8);
    } else {
      ((float*)data)[i] = exp2f((bits >> 8) * (4.0f / 16777216.0f) - 2.0f);
    }
  }
}

struct Problem {
  const void *a, *b, *c_before, *scale_a, *scale_b, *bias, *residual;
  double peak_weight;
  i64 m, n, k, lda, ldb, ldc, ld_residual, row_step, rows;
  int type_a, type_b, type_c, a_mn_major, b_mn_major, scaling, activation;
};

// The factor of A(i, k) B(j, k).
__device__ double scale_of(const Problem& p, i64 i, i64 j, i64 k) {
  const float *a = (const float*)p.scale_a, *b = (const float*)p.scale_b;
  const i64 blocks = (p.k + 127) / 128;
  switch (p.scaling) {
    case kTensor: return (double)a[0] * (double)b[0];
    case kRow: return (double)a[i] * (double)b[j];
    case kBlock: return (double)a[k / 128 * p.m + i] * (double)b[j / 128 * blocks + k / 128];
    case kVector: return (double)a[k / 128 * p.m + i] * (double)b[k / 128 * p.n + j];
    case kMx: {
      const int x = ((const unsigned char*)p.scale_a)[k / 32 * p.m + i];
      const int y = ((const unsigned char*)p.scale_b)[k / 32 * p.n + j];
      return exp2((double)(x + y - 254));
    }
    default: return 1.0;
  }
}

__device__ double activated(int kind, double x) {
  if (kind == kGelu) return 0.5 * x * (1.0 + erf(x * 0.70710678118654752));
  if (kind == kGeluTanh) return 0.5 * x * (1.0 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
  if (kind == kSilu) return x / (1.0 + exp(-x));
  return x;
}

// out[i, j] for rows 0, row_step, ...: the exact sum (float64) with its epilogue, and what bounds the error of any
// order of summation: the sum of magnitudes, plus peak_weight times the largest product. c_before (may be null) is
// added: the accumulate contract.
extern "C" __global__ void reference(const Problem p, double* out, float* magnitude) {
  const i64 total = p.rows * p.n;
  for (i64 index = blockIdx.x * (i64)blockDim.x + threadIdx.x; index < total; index += (i64)gridDim.x * blockDim.x) {
    const i64 i = (index / p.n) * p.row_step, j = index % p.n;
    double sum = 0.0, size = 0.0, peak = 0.0;
    for (i64 k = 0; k < p.k; ++k) {
      const double x = get(p.a, p.type_a, p.a_mn_major ? k * p.lda + i : i * p.lda + k);
      const double y = get(p.b, p.type_b, p.b_mn_major ? k * p.ldb + j : j * p.ldb + k);
      const double product = x * y * scale_of(p, i, j, k);
      sum += product;
      size += fabs(product);
      peak = fmax(peak, fabs(product));
    }
    size += p.peak_weight * peak;
    auto add = [&](const void* data, i64 at) {
      const double value = get(data, p.type_c, at);
      sum += value;
      size += fabs(value);
    };
    if (p.bias) add(p.bias, j);
    sum = activated(p.activation, sum);
    if (p.residual) add(p.residual, i * p.ld_residual + j);
    if (p.c_before) add(p.c_before, i * p.ldc + j);
    out[index] = sum;
    magnitude[index] = (float)size;
  }
}

struct Comparison {
  u64 wrong;            // elements outside the error bound, or NaN where the reference is finite (or the reverse)
  u64 first_wrong;      // index of one of them
  double error_square;  // sum (out - ref)^2 over finite references
  double ref_square;
  double worst;  // largest error over its bound
};

// |out - ref| <= half_ulp * |ref| + accumulate * magnitude + tiny
extern "C" __global__ void compare(const void* c, int type_c, i64 n, i64 ldc, i64 row_step, i64 rows, const double* ref,
                                   const float* magnitude, double half_ulp, double accumulate, double tiny,
                                   Comparison* result) {
  const i64 total = rows * n;
  double error_square = 0, ref_square = 0, worst = 0;
  for (i64 index = blockIdx.x * (i64)blockDim.x + threadIdx.x; index < total; index += (i64)gridDim.x * blockDim.x) {
    const i64 i = (index / n) * row_step, j = index % n;
    const double got = get(c, type_c, i * ldc + j), want = ref[index];
    bool bad;
    if (isfinite(want)) {
      const double error = fabs(got - want);
      const double bound = half_ulp * fabs(want) + accumulate * magnitude[index] + tiny;
      bad = !(error <= bound);
      if (isfinite(got)) {
        error_square += error * error;
        worst = fmax(worst, error / bound);
      }
      ref_square += want * want;
    } else {
      bad = isnan(want) ? !isnan(got) : got != want;
    }
    if (bad) {
      atomicAdd(&result->wrong, 1ull);
      result->first_wrong = (u64)index;
    }
  }
  atomicAdd(&result->error_square, error_square);
  atomicAdd(&result->ref_square, ref_square);
  atomicMax((u64*)&result->worst, (u64)__double_as_longlong(worst));
}

// Elements of a [rows, ld] matrix at columns n .. ld-1 and everything after the last row up to `count` must still hold
// `byte`.
extern "C" __global__ void check_untouched(const unsigned char* c, i64 bytes, i64 row_bytes, i64 used_bytes, i64 rows,
                                           int byte, u64* wrong) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < bytes; i += (i64)gridDim.x * blockDim.x) {
    const i64 row = i / row_bytes, column = i % row_bytes;
    const bool inside = row < rows && column < used_bytes;
    if (!inside && c[i] != (unsigned char)byte) atomicAdd(wrong, 1ull);
  }
}

extern "C" __global__ void count_differences(const u32* x, const u32* y, i64 words, u64* wrong) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < words; i += (i64)gridDim.x * blockDim.x) {
    if (x[i] != y[i]) atomicAdd(wrong, 1ull);
  }
}

// Reads the whole buffer and writes one word per block: empties L2 of anything else without the power draw of a matrix
// product.
extern "C" __global__ void sweep_cache(const uint4* data, i64 count, u32* sink) {
  u32 sum = 0;
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
    const uint4 v = data[i];
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678u) sink[blockIdx.x] = sum;
}

// Lets the next kernel of the stream start at once, sleeps, and only then copies: what the next one reads of `to`
// before it has waited for this kernel is old.
extern "C" __global__ void publish_late(const u32* from, u32* to, i64 words, u32 microseconds) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  for (u32 i = 0; i < microseconds; ++i) __nanosleep(1000);
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < words; i += (i64)gridDim.x * blockDim.x) to[i] = from[i];
}
