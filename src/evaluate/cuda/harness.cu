// Kernels of the measuring harness: secret inputs, poison, red zones, cache sweep, gate and stamps. operand.cuh and
// compare.cu go in front of them.
//
// They share nothing with any kernel that is measured, and every parameter is 8 bytes or an Operand, so that the host
// side (device_kernels.cpp) can pass them without a list of types. Compiled at run time, or from the cache.
namespace ridge::harness {

// As in numerics/fill.h.
enum Family : int { kNormal, kUniform, kScaled, kHeavyTails, kSpikes, kConstantBlocks, kTies, kDenormals, kMixture };

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

// The same as they are stored; whole numbers have any bits.
__device__ inline void draw_bits(i64 family, i64 type, u64 seed, u64 q, u64 (&out)[4]) {
  if (type >= kI32) {
    constexpr u32 kLow = 3, kHigh = 4;  // streams beside those of draw()
    const Words low = philox(seed, q, kLow), high = philox(seed, q, kHigh);
    for (int i = 0; i < 4; ++i) out[i] = static_cast<u64>(high.w[i]) << 32 | low.w[i];
    return;
  }
  float values[4];
  draw(family, type, seed, q, values);
  for (int i = 0; i < 4; ++i) out[i] = encode(type, values[i]);
}

// Element q of a fill from `least` to `most` (ops/fill.h), in [0, 1): a family says how they are spread.
__device__ inline double spread(i64 family, u64 seed, u64 q) {
  const Words words = philox(seed, family == kConstantBlocks ? 0 : q, 0);
  const double u = static_cast<double>((static_cast<u64>(words.w[0]) << 32 | words.w[1]) >> 11) * 0x1p-53;
  switch (family) {
    case kHeavyTails:
    case kSpikes: return u * u * u * u;
    case kTies: return floor(4 * u) / 4;
    default: return u;
  }
}

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

}  // namespace ridge::harness

using namespace ridge::harness;

// ---- Before a call

extern "C" __global__ void ridge_fill(Operand x, i64 family, u64 seed) {
  const i64 count = x.count();
  const bool whole = x.columns % 4 == 0 && x.pitch % 4 == 0 && reinterpret_cast<u64>(x.data) % 16 == 0;
  for (i64 q = thread_index(); 4 * q < count; q += thread_count()) {
    u64 bits[4];
    draw_bits(family, x.type, seed, static_cast<u64>(q), bits);
    const int width = width_of(x.type);
    if (whole && width == 2) {
      *reinterpret_cast<u64*>(x.data + 2 * offset_of(x, 4 * q)) =
          bits[3] << 48 | bits[2] << 32 | bits[1] << 16 | bits[0];
    } else if (whole && width == 4) {
      *reinterpret_cast<uint4*>(x.data + 4 * offset_of(x, 4 * q)) = {
          static_cast<u32>(bits[0]), static_cast<u32>(bits[1]), static_cast<u32>(bits[2]), static_cast<u32>(bits[3])};
    } else {
      for (int i = 0; i < 4 && 4 * q + i < count; ++i) put_bits(x, 4 * q + i, bits[i]);
    }
  }
}

// From `least` to `most`; `whole`: whole numbers, both included.
extern "C" __global__ void ridge_fill_range(Operand x, i64 family, u64 seed, double least, double most, u64 whole) {
  for (i64 e = thread_index(); e < x.count(); e += thread_count()) {
    const double u = spread(family, seed, static_cast<u64>(e)), size = most - least;
    const double value = whole != 0 ? fmin(most, least + floor(u * (size + 1))) : least + u * size;
    put_bits(x, e,
             x.type >= kI32 ? static_cast<u64>(static_cast<i64>(value)) : encode(x.type, static_cast<float>(value)));
  }
}

// Multiples of `step` that never fall: 0, draws from 0 to `most` steps in ascending order, `most` steps. A thread finds
// the place of its draw among the others.
extern "C" __global__ void ridge_fill_offsets(Operand x, i64 family, u64 seed, double most, double step) {
  const i64 inner = x.count() - 2;
  const auto drawn = [&](i64 i) { return fmin(most, floor(spread(family, seed, static_cast<u64>(i)) * (most + 1))); };
  for (i64 i = thread_index(); i < inner; i += thread_count()) {
    const double value = drawn(i);
    i64 before = 0;
    for (i64 j = 0; j < inner; ++j) {
      const double other = drawn(j);
      before += other < value || (other == value && j < i);
    }
    put_bits(x, 1 + before, static_cast<u64>(value * step));
  }
  if (thread_index() != 0) return;
  if (inner > -1) put_bits(x, inner + 1, static_cast<u64>(most * step));
  put_bits(x, 0, 0);
}

// Rows of positive numbers that add up to 1, a warp for each.
extern "C" __global__ void ridge_fill_probabilities(Operand x, i64 family, u64 seed) {
  constexpr int kWarp = 32;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto drawn = [&](i64 e) { return spread(family, seed, static_cast<u64>(e)) + 0x1p-20; };
  for (i64 row = thread_index() / kWarp; row < x.rows; row += thread_count() / kWarp) {
    const i64 first = row * x.columns;
    double sum = 0;
    for (i64 j = lane; j < x.columns; j += kWarp) sum += drawn(first + j);
    for (int distance = kWarp / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    for (i64 j = lane; j < x.columns; j += kWarp) {
      put_bits(x, first + j, encode(x.type, static_cast<float>(drawn(first + j) / sum)));
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
    u64 drawn[4];
    draw_bits(family, x.type, seed, static_cast<u64>(q), drawn);
    for (int i = 0; i < 4 && 4 * q + i < x.count(); ++i) {
      const u64 found = bits_at(x, 4 * q + i), width = width_of(x.type);
      const u64 expected = width == 8 ? drawn[i] : drawn[i] & ((1ull << 8 * width) - 1);
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

// A known answer from every multiprocessor: whether the device still works after a candidate's kernel.
extern "C" __global__ void ridge_alive(u32* out) {
  u32 x = blockIdx.x + threadIdx.x * 2654435761u;
  for (int i = 0; i < 64; ++i) x = x * 1664525u + 1013904223u;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
