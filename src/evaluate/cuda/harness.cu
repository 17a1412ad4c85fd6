// Kernels of the measuring harness: secret inputs, poison, red zones, comparison, cache sweep, gate and stamps.
//
// They share nothing with any kernel that is measured, and every parameter is 8 bytes or an Operand, so that the host
// side (device_kernels.cpp) can pass them without a list of types. Compiled at run time, or from the cache.
namespace ridge::harness {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

// As in ridge/dtype.h and numerics/fill.h.
enum Type : int { kF64, kF32, kF16, kBf16, kE4m3, kE5m2, kE8m0 = 9 };
enum Family : int { kNormal, kUniform, kScaled, kHeavyTails, kSpikes, kConstantBlocks, kTies, kDenormals, kMixture };

// A tensor as rows of contiguous elements; all dimensions but the last are folded into the rows.
struct Operand {
  u8* data;
  i64 rows, columns, pitch;  // elements
  i64 type;
  __device__ i64 count() const { return rows * columns; }
};

__device__ inline int width_of(i64 type) { return type == kF64 ? 8 : type == kF32 ? 4 : type >= kE4m3 ? 1 : 2; }

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

__device__ inline float half_to_float(u16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}

__device__ inline double decode(i64 type, u64 bits) {
  switch (type) {
    case kF64: return __longlong_as_double(static_cast<i64>(bits));
    case kF32: return __uint_as_float(static_cast<u32>(bits));
    case kF16: return half_to_float(static_cast<u16>(bits));
    case kBf16: return __uint_as_float(static_cast<u32>(bits) << 16);
    case kE5m2: return half_to_float(static_cast<u16>(bits << 8));
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

// To nearest, saturating: inputs never hold NaN or Inf by accident.
__device__ inline u64 encode(i64 type, float value) {
  const float limit = static_cast<float>(max_finite(type == kF64 ? static_cast<i64>(kF32) : type));
  value = fminf(fmaxf(value, -limit), limit);
  u16 h = 0;
  switch (type) {
    case kF64: return static_cast<u64>(__double_as_longlong(static_cast<double>(value)));
    case kF32: return __float_as_uint(value);
    case kF16: asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(value)); return h;
    case kBf16: asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(value)); return h;
    case kE8m0: {  // a scale, normal in fp32 whatever is drawn: the power of two below the magnitude
      const u32 exponent = __float_as_uint(value) >> 23 & 255;
      return exponent == 0 ? 1 : exponent;
    }
    case kE4m3: asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(value)); return h & 0xff;
    default: asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(value)); return h & 0xff;
  }
}

// Philox4x32-10 (Salmon et al., SC 2011): counter in, four independent words out.
struct Words {
  u32 w[4];
};
__device__ inline Words philox(u64 seed, u64 block, u32 stream) {
  u32 c0 = static_cast<u32>(block), c1 = static_cast<u32>(block >> 32), c2 = stream, c3 = 0;
  u32 k0 = static_cast<u32>(seed), k1 = static_cast<u32>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u32 h0 = __umulhi(0xd2511f53u, c0), l0 = 0xd2511f53u * c0;
    const u32 h1 = __umulhi(0xcd9e8d57u, c2), l1 = 0xcd9e8d57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

__device__ inline float unit(u32 word) { return (static_cast<float>(word >> 8) + 0.5f) * 0x1p-24f; }  // (0, 1)

__device__ inline void normals(const Words& words, float (&out)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const float radius = sqrtf(-2.0f * logf(unit(words.w[i])));
    float s, c;
    sincospif(2.0f * unit(words.w[i + 1]), &s, &c);
    out[i] = radius * c;
    out[i + 1] = radius * s;
  }
}

// Bell-shaped with a full mantissa and rare large values, one word each: cheap enough for every timed call. No zeros
// and no subnormals, which some units multiply at another power.
__device__ inline float mixture(u32 word) {
  const int bell = static_cast<int>((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24)) - 510;
  const u32 more = word * 0x9e3779b1u;
  float value = (static_cast<float>(bell) + static_cast<float>(more >> 8) * 0x1p-24f + 0x1p-20f) * (1.0f / 147.8f);
  const u32 rare = (more ^ more >> 15) * 0x85ebca77u >> 19;  // 13 bits
  if ((rare & 63) == 1) value *= rare == 1 ? 64.0f : 8.0f;
  return value;
}

// In every 4096 elements one run of 64 at a secret place looks like another family: small, constant, or made of halves,
// so that a path that looks for such data finds it in timed calls, too.
__device__ inline void disguise(u64 seed, u64 q, const Words& words, float (&out)[4]) {
  u64 secret = (seed ^ q / 1024 * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
  secret ^= secret >> 29;
  const u32 place = (secret & 1) != 0 ? secret >> 1 & 7 : secret >> 1 & 63;  // near the start half of the time
  if ((q / 16 & 63) != place) return;
  const u32 kind = secret >> 8 & 3, size = secret >> 16 & 15;
  for (int i = 0; i < 4; ++i) {
    if (kind == 2) {
      out[i] = (secret >> 20 & 1) != 0 ? 1.0f + 0.125f * static_cast<float>(size & 7) : -1.0f;
    } else if (kind == 3) {
      out[i] = copysignf(0.5f * static_cast<float>(1 + (words.w[i] >> 3 & 7)), out[i]);
    } else {
      out[i] = ldexpf(out[i], -3 - static_cast<int>(size % 10));
    }
  }
}

__device__ inline double smallest_normal(i64 type) {
  switch (type) {
    case kF16:
    case kE5m2: return 0x1p-14;
    case kE4m3: return 0x1p-6;
    default: return 0x1p-126;
  }
}

// Elements 4q .. 4q + 3 of a fill.
__device__ inline void draw(i64 family, i64 type, u64 seed, u64 q, float (&out)[4]) {
  constexpr u32 kBlocks = 1, kWhole = 2;  // streams beside that of the elements
  const Words words = philox(seed, q, 0);
  switch (family) {
    case kUniform:
      for (int i = 0; i < 4; ++i) out[i] = 2.0f * unit(words.w[i]) - 1.0f;
      break;
    case kScaled: {
      normals(words, out);
      const int k = static_cast<int>(philox(seed, q / 64, kBlocks).w[0] % 25) - 12;
      for (int i = 0; i < 4; ++i) out[i] = ldexpf(out[i], k);
      break;
    }
    case kHeavyTails:
      for (int i = 0; i < 4; ++i) out[i] = ((words.w[i] & 1) != 0 ? 1.0f : -1.0f) * rsqrtf(unit(words.w[i]));
      break;
    case kSpikes:
      normals(words, out);
      for (int i = 0; i < 4; ++i) {
        const u32 pick = words.w[i] * 0x9e3779b1u;
        const bool first = q == 0 && i == static_cast<int>(words.w[3] & 1);
        out[i] = pick >> 22 == 0 || first ? ((pick & 1) != 0 ? 1.0f : -1.0f) * static_cast<float>(16 << (pick >> 1 & 3))
                                          : out[i] * 0x1p-10f;
      }
      break;
    case kConstantBlocks: {
      const u32 w = philox(seed, q / 64, kBlocks).w[0];
      const float size =
          (w & 7) == 0 ? 0.0f
                       : ldexpf(1.0f + static_cast<float>(w >> 3 & 7) * 0.125f, static_cast<int>(w >> 6 & 3) % 3 - 1);
      for (int i = 0; i < 4; ++i) out[i] = (w >> 9 & 1) != 0 ? size : -size;
      break;
    }
    case kTies:
      for (int i = 0; i < 4; ++i) out[i] = 0.5f * static_cast<float>(static_cast<int>(words.w[i] % 17) - 8);
      break;
    case kDenormals: {  // whole blocks, so that whole sums consist of them
      normals(words, out);
      if (philox(seed, q / 64, kBlocks).w[0] % 4 != 0) {
        for (int i = 0; i < 4; ++i)
          out[i] = static_cast<float>((2.0f * unit(words.w[i]) - 1.0f) * smallest_normal(type));
      }
      break;
    }
    case kMixture: {
      const int k = static_cast<int>(philox(seed, 0, kWhole).w[0] % 5) - 2;
      for (int i = 0; i < 4; ++i) out[i] = mixture(words.w[i]);
      disguise(seed, q, words, out);
      for (int i = 0; i < 4; ++i) out[i] = ldexpf(out[i], k);
      break;
    }
    default: normals(words, out);
  }
}

__device__ inline i64 thread_index() { return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline i64 thread_count() { return static_cast<i64>(gridDim.x) * blockDim.x; }

__device__ inline u32 pattern_word(u64 key, u64 word, u64 nan) {
  if (nan != 0) return 0xffffffffu;  // NaN in every type
  u64 z = (word + key) * 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9ull;
  return static_cast<u32>(z >> 32);
}

__device__ inline u64 global_timer() {
  u64 ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__device__ inline double block_sum(double value) {
  __shared__ double warps[32];
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(~0u, value, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x >= 32) return 0.0;
  value = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0.0;
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(~0u, value, offset);
  return value;  // of thread 0
}

}  // namespace ridge::harness

using namespace ridge::harness;

// ---- Before a call

extern "C" __global__ void ridge_fill(Operand x, i64 family, u64 seed) {
  const i64 count = x.count();
  const bool whole = x.columns % 4 == 0 && x.pitch % 4 == 0 && reinterpret_cast<u64>(x.data) % 16 == 0;
  for (i64 q = thread_index(); 4 * q < count; q += thread_count()) {
    float values[4];
    draw(family, x.type, seed, static_cast<u64>(q), values);
    const int width = width_of(x.type);
    if (whole && width == 2) {
      u64 bits = 0;
      for (int i = 3; i >= 0; --i) bits = bits << 16 | encode(x.type, values[i]);
      *reinterpret_cast<u64*>(x.data + 2 * offset_of(x, 4 * q)) = bits;
    } else if (whole && x.type == kF32) {
      *reinterpret_cast<float4*>(x.data + 4 * offset_of(x, 4 * q)) = {values[0], values[1], values[2], values[3]};
    } else {
      for (int i = 0; i < 4 && 4 * q + i < count; ++i) put_bits(x, 4 * q + i, encode(x.type, values[i]));
    }
  }
}

extern "C" __global__ void ridge_fill_code(Operand x, u64 code) {
  for (i64 e = thread_index(); e < x.count(); e += thread_count()) put_bits(x, e, code);
}

extern "C" __global__ void ridge_plant(Operand x, i64 element, u64 code) {
  if (thread_index() == 0) put_bits(x, element, code);
}

namespace ridge::harness {
// Memory around operands, and workspaces: filled with canaries before a call.
struct Zone {
  u8* data;
  i64 bytes;
  u64 checked;  // 0: may be written to (a workspace)
};

// Calls `visit(byte position, byte canary)` or, for whole words, `visit(byte position, word canary)` over a zone.
template <class Bytes, class Words>
__device__ inline void each_canary(const Zone& zone, u64 key, u64 nan, Bytes bytes, Words words) {
  const i64 head = min(zone.bytes, static_cast<i64>(-reinterpret_cast<u64>(zone.data) & 3));
  const i64 count = (zone.bytes - head) / 4;
  if (thread_index() == 0) {
    for (i64 i = 0; i < head; ++i) bytes(i, static_cast<u8>(pattern_word(key, ~0ull - static_cast<u64>(i), nan)));
    for (i64 i = head + 4 * count; i < zone.bytes; ++i)
      bytes(i, static_cast<u8>(pattern_word(key, ~7ull - static_cast<u64>(i), nan)));
  }
  for (i64 i = thread_index(); i < count; i += thread_count())
    words(head + 4 * i, pattern_word(key, static_cast<u64>(i), nan));
}
}  // namespace ridge::harness

// One zone per grid.y.
extern "C" __global__ void ridge_fill_zones(const Zone* zones, u64 key, u64 nan) {
  const Zone zone = zones[blockIdx.y];
  each_canary(
      zone, key + blockIdx.y, nan, [&](i64 at, u8 value) { zone.data[at] = value; },
      [&](i64 at, u32 value) { *reinterpret_cast<u32*>(zone.data + at) = value; });
}

// Canary bytes between the rows of an operand: `used` of every `pitch` bytes belong to it.
extern "C" __global__ void ridge_fill_padding(u8* data, i64 rows, i64 used, i64 pitch, u64 key, u64 nan) {
  const i64 gap = pitch - used;
  for (i64 i = thread_index(); i < rows * gap; i += thread_count()) {
    data[i / gap * pitch + used + i % gap] = static_cast<u8>(pattern_word(key, static_cast<u64>(i), nan));
  }
}

// ---- After it

namespace ridge::harness {
struct Damage {
  u64 count;
  i64 first;  // bytes from the start, or the element; must start at the largest i64
  u64 expected, found;
};
__device__ inline void report(Damage* damage, i64 at, u64 expected, u64 found) {
  atomicAdd(&damage->count, 1ull);
  if (atomicMin(&damage->first, at) > at) {
    damage->expected = expected;  // another thread may win the race for the words; the position is exact
    damage->found = found;
  }
}
}  // namespace ridge::harness

// Positions are zone << 40 | byte.
extern "C" __global__ void ridge_check_zones(const Zone* zones, u64 key, u64 nan, Damage* damage) {
  const Zone zone = zones[blockIdx.y];
  if (zone.checked == 0) return;
  const i64 base = static_cast<i64>(blockIdx.y) << 40;
  const auto byte = [&](i64 at, u8 expected) {
    if (zone.data[at] != expected) report(damage, base | at, expected, zone.data[at]);
  };
  each_canary(zone, key + blockIdx.y, nan, byte, [&](i64 at, u32 expected) {
    if (*reinterpret_cast<const u32*>(zone.data + at) == expected) return;
    for (int i = 0; i < 4; ++i) byte(at + i, static_cast<u8>(expected >> 8 * i));
  });
}

extern "C" __global__ void ridge_check_padding(const u8* data, i64 rows, i64 used, i64 pitch, u64 key, u64 nan,
                                               Damage* damage) {
  const i64 gap = pitch - used;
  for (i64 i = thread_index(); i < rows * gap; i += thread_count()) {
    const u8 expected = static_cast<u8>(pattern_word(key, static_cast<u64>(i), nan));
    const i64 at = i / gap * pitch + used + i % gap;
    if (data[at] != expected) report(damage, at, expected, data[at]);
  }
}

// The first element that is not what ridge_fill wrote.
extern "C" __global__ void ridge_find_change(Operand x, i64 family, u64 seed, Damage* damage) {
  for (i64 q = thread_index(); 4 * q < x.count(); q += thread_count()) {
    float values[4];
    draw(family, x.type, seed, static_cast<u64>(q), values);
    for (int i = 0; i < 4 && 4 * q + i < x.count(); ++i) {
      const u64 expected = encode(x.type, values[i]), found = bits_at(x, 4 * q + i);
      if (expected != found) report(damage, 4 * q + i, expected, found);
    }
  }
}

// Keyed hash of the content: a sum, so that any order of threads gives the same; the keys are secret.
extern "C" __global__ void ridge_hash(Operand x, u64 key0, u64 key1, u64* sum) {
  u64 mine = 0;
  const auto mix = [&](u64 word, u64 index) {
    u64 t = word + key0 + index * 0x9e3779b97f4a7c15ull;
    t = (t ^ t >> 32) * (key1 | 1);
    mine += t ^ t >> 29;
  };
  const i64 bytes = x.count() * width_of(x.type);
  if (x.pitch == x.columns && reinterpret_cast<u64>(x.data) % 16 == 0) {
    const ulonglong2* words = reinterpret_cast<const ulonglong2*>(x.data);
    for (i64 i = thread_index(); i < bytes / 16; i += thread_count()) {
      const ulonglong2 pair = words[i];
      mix(pair.x, 2 * static_cast<u64>(i));
      mix(pair.y, 2 * static_cast<u64>(i) + 1);
    }
    for (i64 b = bytes / 16 * 16 + thread_index(); b < bytes; b += thread_count())
      mix(x.data[b], (1ull << 63) + static_cast<u64>(b));
  } else {
    for (i64 e = thread_index(); e < x.count(); e += thread_count()) mix(bits_at(x, e), static_cast<u64>(e));
  }
  for (int offset = 16; offset > 0; offset >>= 1) mine += __shfl_down_sync(~0u, mine, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

// How many elements hold exactly `code`, and how many are NaN or infinite.
extern "C" __global__ void ridge_count(Operand x, u64 code, u64* counts) {
  u32 equal = 0, special = 0;
  const u64 exponent = x.type == kF64    ? 0x7ff0000000000000ull
                       : x.type == kF32  ? 0x7f800000u
                       : x.type == kF16  ? 0x7c00u
                       : x.type == kBf16 ? 0x7f80u
                       : x.type == kE5m2 ? 0x7cu
                       : x.type == kE8m0 ? 0xffu
                                         : 0x7fu;
  const auto look = [&](u64 bits) {
    equal += bits == code;
    special += (bits & exponent) == exponent;
  };
  if (x.pitch == x.columns && width_of(x.type) == 2 && x.count() % 4 == 0 && reinterpret_cast<u64>(x.data) % 8 == 0) {
    for (i64 i = thread_index(); i < x.count() / 4; i += thread_count()) {
      const ushort4 four = reinterpret_cast<const ushort4*>(x.data)[i];
      look(four.x), look(four.y), look(four.z), look(four.w);
    }
  } else {
    for (i64 e = thread_index(); e < x.count(); e += thread_count()) look(bits_at(x, e));
  }
  equal = __reduce_add_sync(~0u, equal);
  special = __reduce_add_sync(~0u, special);
  if (threadIdx.x % 32 == 0) {
    if (equal != 0) atomicAdd(&counts[0], static_cast<u64>(equal));
    if (special != 0) atomicAdd(&counts[1], static_cast<u64>(special));
  }
}

// How many elements of two tensors of one shape differ in their bits, and the first.
extern "C" __global__ void ridge_differences(Operand x, Operand y, Damage* damage) {
  for (i64 e = thread_index(); e < x.count(); e += thread_count()) {
    const u64 a = bits_at(x, e), b = bits_at(y, e);
    if (a != b) report(damage, e, a, b);
  }
}

namespace ridge::harness {

constexpr int kPredictors = 8;  // 0: zeros, 1: a constant, then copies of other tensors

struct Compared {
  u64 worst;  // ratio as float bits << 32 | element of the chunk; the maximum wins
  u64 wrong, mismatches, finite;
  double error_squares, value_squares, normal_squares;
  u64 predicted_wrong[kPredictors];
};

// |error| / allowed; infinite for a NaN or an infinity that is not expected. An infinity is right where a value within
// the bound rounds to it in the element type. A negative `allowed`: anything that is not finite is right.
__device__ inline double error_ratio(double got, double expected, double allowed, i64 type) {
  const double kInf = __longlong_as_double(0x7ff0000000000000ll);
  if (allowed < 0) return isfinite(got) ? kInf : 0.0;
  if (isnan(expected)) return isnan(got) ? 0.0 : kInf;
  if (isinf(got)) {
    const double reach = got > 0 ? expected + allowed : -(expected - allowed);
    const double mantissa = type == kF64    ? 0x1p-53
                            : type == kF32  ? 0x1p-24
                            : type == kF16  ? 0x1p-11
                            : type == kBf16 ? 0x1p-8
                                            : 0x1p-3;
    if (type == kE4m3 || type == kE8m0) return kInf;
    return reach >= max_finite(type) * (1 + mantissa / 2) || got == expected ? 0.0 : kInf;
  }
  if (isinf(expected) || isnan(got)) return kInf;
  const double error = fabs(got - expected);
  if (error == 0) return 0.0;
  return allowed > 0 ? error / allowed : kInf;
}

// To nearest even in the element type; what overflows there stays as it is.
__device__ inline double rounded(i64 type, double x) {
  int mantissa = 0, lowest = -127;
  switch (type) {
    case kF64: return x;
    case kF32: mantissa = 23, lowest = -126; break;
    case kF16: mantissa = 10, lowest = -14; break;
    case kBf16: mantissa = 7, lowest = -126; break;
    case kE4m3: mantissa = 3, lowest = -6; break;
    case kE5m2: mantissa = 2, lowest = -14; break;
    default: break;
  }
  const int exponent = x == 0 ? lowest : ilogb(x);
  const double step = scalbn(1.0, (exponent < lowest ? lowest : exponent) - mantissa), nearest = rint(x / step) * step;
  return fabs(nearest) > max_finite(type) ? x : nearest;
}

}  // namespace ridge::harness

// Elements first .. first + count of output c against the reference chunk; `predictors` lists tensors whose copies must
// not pass for the output.
extern "C" __global__ void ridge_compare(Operand c, i64 first, i64 count, const double* value, const double* allowed,
                                         const double* variance, const double* shift, double constant,
                                         const Operand* predictors, i64 predictor_count, Compared* out,
                                         ridge::numerics::BiasSums* bias) {
  using ridge::numerics::kBiasCentres;
  double squares = 0, values = 0, normal = 0, shifts[kBiasCentres] = {}, differing[kBiasCentres] = {};
  u64 worst = 0;
  u32 wrong = 0, mismatches = 0, finite = 0, predicted[kPredictors] = {};
  for (i64 i = thread_index(); i < count; i += thread_count()) {
    const double want = value[i], limit = allowed[i], got = decode(c.type, bits_at(c, first + i));
    const double ratio = error_ratio(got, want, limit, c.type);
    wrong += !(ratio <= 1.0);
    mismatches += isinf(ratio);
    const u64 key = static_cast<u64>(__float_as_uint(static_cast<float>(ratio))) << 32 | static_cast<u32>(i);
    worst = key > worst ? key : worst;
    if (isfinite(got) && isfinite(want)) {
      const double error = got - want;
      ++finite;
      squares += error * error;
      values += want * want;
      if (variance[i] > 0) normal += error * error / variance[i];
      const double errors[kBiasCentres] = {error, got - rounded(c.type, want)}, sigma = sqrt(variance[i]);
      const int bucket = ridge::numerics::bias_bucket(static_cast<u64>(__double_as_longlong(want)));
#pragma unroll
      for (int centre = 0; centre < kBiasCentres; ++centre) {
        const auto term = ridge::numerics::bias_term(errors[centre], want, sigma, shift[i]);
        if (term.lean == 0) continue;
        atomicAdd(&bias->bucket[centre][bucket], term.lean);
        shifts[centre] += term.shift;
        differing[centre] += 1;
      }
    }
    predicted[0] += !(error_ratio(0.0, want, limit, c.type) <= 1.0);
    predicted[1] += !(error_ratio(constant, want, limit, c.type) <= 1.0);
    for (int p = 0; p < predictor_count; ++p) {
      const Operand& other = predictors[p];
      const double guess = other.count() > 0 ? decode(other.type, bits_at(other, (first + i) % other.count())) : 0.0;
      predicted[2 + p] += !(error_ratio(guess, want, limit, c.type) <= 1.0);
    }
  }
  if (wrong != 0) atomicAdd(&out->wrong, static_cast<u64>(wrong));
  if (mismatches != 0) atomicAdd(&out->mismatches, static_cast<u64>(mismatches));
  atomicMax(&out->worst, worst);
  const u32 finite_sum = __reduce_add_sync(~0u, finite);
  if (threadIdx.x % 32 == 0) atomicAdd(&out->finite, static_cast<u64>(finite_sum));
  for (int p = 0; p < 2 + predictor_count; ++p) {
    const u32 sum = __reduce_add_sync(~0u, predicted[p]);
    if (threadIdx.x % 32 == 0) atomicAdd(&out->predicted_wrong[p], static_cast<u64>(sum));
  }
  double* const targets[7] = {&out->error_squares, &out->value_squares, &out->normal_squares, &bias->shift[0],
                              &bias->shift[1],     &bias->differing[0], &bias->differing[1]};
  const double sums[7] = {squares, values, normal, shifts[0], shifts[1], differing[0], differing[1]};
  for (int s = 0; s < 7; ++s) {
    const double total = block_sum(sums[s]);
    if (threadIdx.x == 0) atomicAdd(targets[s], total);
  }
}

// What element `at` holds, in words the host can print: value, and bits.
extern "C" __global__ void ridge_peek(Operand x, i64 at, double* value) {
  if (thread_index() == 0) {
    const u64 bits = bits_at(x, at);
    value[0] = decode(x.type, bits);
    reinterpret_cast<u64*>(value)[1] = bits;
  }
}

// ---- Caches

// Reads `bytes` through L2 and keeps nothing: whatever was cached before is displaced by clean lines.
extern "C" __global__ void ridge_sweep(const uint4* data, i64 bytes, u32* sink) {
  u32 all = 0;
  for (i64 i = thread_index(); i < bytes / 16; i += thread_count()) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(data + i));
    all ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (all == 0x12345678u) *sink = all;
}

// Cycles of one load each, from places spread at random over the operand: a line in L2 answers several times sooner
// than memory does. One thread per block, so that the loads fall on different multiprocessors and do not queue.
extern "C" __global__ void ridge_probe(const u8* data, i64 bytes, u64 seed, u64* cycles) {
  const u64 pick = philox(seed, blockIdx.x, 7).w[0];
  const u8* at = data + static_cast<i64>((pick * static_cast<u64>(bytes / 32)) >> 32) * 32;
  __shared__ volatile u32 hold;
  u32 value;
  const u64 start = clock64();
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(at));
  hold = value;  // instructions issue in order: the second reading waits for the value
  cycles[blockIdx.x] = clock64() - start;
}

extern "C" __global__ void ridge_copy(uint4* to, const uint4* from, i64 bytes) {
  for (i64 i = thread_index(); i < bytes / 16; i += thread_count()) to[i] = from[i];
}

// ---- Time

// Says that it holds the stream, and does until the host writes `ticket`; gives up after `limit_ns` and says so.
extern "C" __global__ void ridge_gate(volatile u64* holds, const volatile u64* flag, u64 ticket, u64 limit_ns,
                                      volatile u64* gave_up) {
  const u64 start = global_timer();
  *holds = ticket;
  __threadfence_system();
  while (*flag != ticket) {
    if (global_timer() - start > limit_ns) {
      *gave_up = ticket;
      return;
    }
  }
}

namespace ridge::harness {
struct Stamp {
  u64 clock, nanoseconds;
};
}  // namespace ridge::harness

// One block per multiprocessor: its cycle counter and the device-wide timer, read together.
extern "C" __global__ void ridge_stamp(Stamp* stamps) {
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) {
    const u64 ns = global_timer();
    stamps[sm] = {static_cast<u64>(clock64()), ns};
  }
}

// The clock that a multiprocessor runs at while nothing else does: both counters before and after `cycles` of waiting.
extern "C" __global__ void ridge_idle_clock(Stamp* stamps, u64 cycles) {
  const u64 start = static_cast<u64>(clock64());
  stamps[0] = {start, global_timer()};
  u64 now = start;
  while (now - start < cycles) now = static_cast<u64>(clock64());
  stamps[1] = {now, global_timer()};
}

extern "C" __global__ void ridge_signal(volatile u64* flag, u64 ticket) {
  __threadfence_system();
  *flag = ticket;
}

extern "C" __global__ void ridge_nothing() {}

// Smallest step of the device-wide timer.
extern "C" __global__ void ridge_timer_step(u64* step) {
  u64 smallest = ~0ull, last = global_timer();
  for (int i = 0; i < 4096; ++i) {
    const u64 now = global_timer();
    if (now != last) {
      smallest = now - last < smallest ? now - last : smallest;
      last = now;
    }
  }
  *step = smallest;
}

// A known answer from every multiprocessor: whether the device still works after somebody else's kernel.
extern "C" __global__ void ridge_alive(u32* out) {
  u32 x = blockIdx.x + threadIdx.x * 2654435761u;
  for (int i = 0; i < 64; ++i) x = x * 1664525u + 1013904223u;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
