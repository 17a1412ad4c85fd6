// A matrix in 8-bit floats with scales, and the same of its transpose, from one read of it. A block of 256 threads
// takes 128 x 128 elements, each thread 8 x 8 of them in registers, loaded 16 bytes at a time: whole 1 x 128, 128 x 1,
// 128 x 128 and 1 x 32 groups lie within a block, so their largest magnitudes are known before a code is written.
// Scales of a row or of the whole tensor are known only after all of it was read: `ridge_quantize_amax` collects the
// largest magnitudes in the memory of the scales, `ridge_quantize_scales` turns them into scales, and `ridge_quantize`
// reads the matrix a second time. The transposed codes go through shared memory, so that both copies are written in
// runs of 128 bytes.
//
// Bound by memory: x once (tensor, row: twice), every code and scale once. Loses to a kernel that keeps long rows in
// registers (row scales) and to one that loads the next tile while it writes this one. Matrices whose rows do not
// start on 16 bytes, and the last tiles, are read and written by elements.
//
// The macros of cuda_quantize.cpp choose the build: RIDGE_TYPE_X, RIDGE_FORMAT, RIDGE_GRANULARITY, RIDGE_COPIES,
// RIDGE_STOCHASTIC.
#include "../../device/cuda/kernel/fp8.cuh"

#ifndef RIDGE_TYPE_X
#define RIDGE_TYPE_X kBf16
#endif
#ifndef RIDGE_FORMAT
#define RIDGE_FORMAT kE4m3
#endif
#ifndef RIDGE_GRANULARITY
#define RIDGE_GRANULARITY kVector
#endif
#ifndef RIDGE_COPIES
#define RIDGE_COPIES kBoth
#endif
#ifndef RIDGE_STOCHASTIC
#define RIDGE_STOCHASTIC 0
#endif

namespace ridge::cuda {

enum class Element { kF32, kBf16, kF16 };
enum class Granularity { kTensor, kRow, kVector, kTile, kMx };  // ridge/scaling.h
enum class Copies { kAsIs, kTransposed, kBoth };
enum class Rule : u32 { kExact, kFloor, kEven, kCeil };  // ScaleRule

// As cuda_quantize.cpp fills it. `scale` and `scale_t` are fp32, for MX bytes; strides in elements.
struct QuantizeParameters {
  const void* x;
  u8* q;
  void* scale;
  u8* q_t;
  void* scale_t;
  const u64* random;  // {seed, offset}
  i64 x_stride, q_stride, scale_stride, q_t_stride, scale_t_stride;
  i64 rows, cols;
  u32 tile_cols;
  Rule rule;
  u32 aligned_x, aligned_q, aligned_q_t;  // rows start on 16, 8 and 16 bytes
};

namespace {

constexpr Element kTypeX = Element::RIDGE_TYPE_X;
constexpr Fp8 kFormat = Fp8::RIDGE_FORMAT;
constexpr Granularity kGranularity = Granularity::RIDGE_GRANULARITY;
constexpr Copies kCopies = Copies::RIDGE_COPIES;
constexpr bool kStochastic = RIDGE_STOCHASTIC != 0;
constexpr bool kAsIs = kCopies != Copies::kTransposed, kTransposed = kCopies != Copies::kAsIs;
constexpr bool kGiven = kGranularity == Granularity::kTensor || kGranularity == Granularity::kRow;  // by the first pass
constexpr bool kMx = kGranularity == Granularity::kMx;
constexpr u32 kTile = 128, kSide = 8, kUnit = 32;  // elements: of a block, of a thread, of the smallest group
constexpr u32 kUnits = kTile / kUnit, kThreads = 256;
using Range = Fp8Range<kFormat>;

struct Shared {
  u32 row_units[kTile][kUnits];         // largest magnitudes of 1 x 32
  u32 column_units[kTile / 16][kTile];  // of 16 x 1
  u32 largest;                          // of the tile
  float row_inverse[kTile][kMx ? kUnits : 1];
  float column_inverse[kMx ? kUnits : 1][kTile];
  u64 codes[kTile][kTile / 8];  // transposed
};

// This thread's 8 x 8 elements: columns 8 * column_group ..., rows 8 * row_group ... of the tile.
struct Place {
  i64 row0, col0;  // of the tile
  u32 row_group, column_group;
  __device__ __forceinline__ i64 row() const { return row0 + row_group * kSide; }
  __device__ __forceinline__ i64 col() const { return col0 + column_group * kSide; }
};
__device__ __forceinline__ Place place_of(const QuantizeParameters& p) {
  return {static_cast<i64>(blockIdx.x / p.tile_cols) * kTile, static_cast<i64>(blockIdx.x % p.tile_cols) * kTile,
          threadIdx.x / 16, threadIdx.x % 16};
}

__device__ __forceinline__ float widen(u16 bits) {
  if constexpr (kTypeX == Element::kF16) return half_to_float(bits);
  return __uint_as_float(static_cast<u32>(bits) << 16);
}

__device__ __forceinline__ void load_row(const QuantizeParameters& p, i64 row, i64 col, float (&x)[kSide]) {
  const i64 at = row * p.x_stride + col;
  if (row < p.rows && p.aligned_x && col + kSide <= p.cols) {
    if constexpr (kTypeX == Element::kF32) {
      const float4* const from = reinterpret_cast<const float4*>(static_cast<const float*>(p.x) + at);
      const float4 low = __ldg(from), high = __ldg(from + 1);
      x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
      x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
    } else {
      const uint4 raw = __ldg(reinterpret_cast<const uint4*>(static_cast<const u16*>(p.x) + at));
      const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
      for (u32 j = 0; j < kSide; ++j) x[j] = widen(static_cast<u16>(words[j / 2] >> (j % 2 * 16)));
    }
    return;
  }
#pragma unroll
  for (u32 j = 0; j < kSide; ++j) {
    x[j] = 0.0f;  // counts for no scale
    if (row >= p.rows || col + j >= p.cols) continue;
    if constexpr (kTypeX == Element::kF32) {
      x[j] = static_cast<const float*>(p.x)[at + j];
    } else {
      x[j] = widen(static_cast<const u16*>(p.x)[at + j]);
    }
  }
}

// Bits of magnitudes order as integers; NaN and Inf do not count.
__device__ __forceinline__ u32 finite_magnitude(float x) {
  const u32 bits = __float_as_uint(x) & 0x7FFFFFFFu;
  return bits >= kInfinityBits ? 0 : bits;
}

// Loads the thread's elements and leaves the largest magnitudes of units in shared memory, for the whole block. True
// where any of the thread's elements is not finite.
__device__ __forceinline__ bool load_tile(const QuantizeParameters& p, const Place& place, Shared& shared,
                                          float (&x)[kSide][kSide]) {
  const u32 lane = threadIdx.x % kWarpThreads, warp = threadIdx.x / kWarpThreads;
#pragma unroll
  for (u32 i = 0; i < kSide; ++i) load_row(p, place.row() + i, place.col(), x[i]);
  bool special = false;
  u32 columns[kSide] = {};
#pragma unroll
  for (u32 i = 0; i < kSide; ++i) {
    u32 row = 0;
#pragma unroll
    for (u32 j = 0; j < kSide; ++j) {
      const u32 size = finite_magnitude(x[i][j]);
      special = special || (__float_as_uint(x[i][j]) & 0x7FFFFFFFu) >= kInfinityBits;
      row = max(row, size);
      columns[j] = max(columns[j], size);
    }
    row = max(row, __shfl_xor_sync(~0u, row, 1));
    row = max(row, __shfl_xor_sync(~0u, row, 2));
    if (lane % 4 == 0) shared.row_units[place.row_group * kSide + i][place.column_group / 4] = row;
  }
#pragma unroll
  for (u32 j = 0; j < kSide; ++j) {
    const u32 column = max(columns[j], __shfl_xor_sync(~0u, columns[j], 16));
    if (lane < 16) shared.column_units[warp][place.column_group * kSide + j] = column;
  }
  if (threadIdx.x == 0) shared.largest = 0;
  __syncthreads();
  return special;
}

__device__ __forceinline__ u32 largest_of_row(const Shared& shared, u32 row) {
  const u32(&units)[kUnits] = shared.row_units[row];
  return max(max(units[0], units[1]), max(units[2], units[3]));
}
__device__ __forceinline__ u32 largest_of_column(const Shared& shared, u32 column) {
  u32 largest = 0;
#pragma unroll
  for (u32 i = 0; i < kTile / 16; ++i) largest = max(largest, shared.column_units[i][column]);
  return largest;
}
// By all threads; the answer is there behind the barrier.
__device__ __forceinline__ u32 largest_of_tile(Shared& shared) {
  u32 mine = threadIdx.x < kTile ? largest_of_row(shared, threadIdx.x) : 0;
  mine = __reduce_max_sync(~0u, mine);
  if (threadIdx.x % kWarpThreads == 0 && mine != 0) atomicMax(&shared.largest, mine);
  __syncthreads();
  return shared.largest;
}

struct Scale {
  float value, inverse;
  u8 code;  // E8M0
};

// ridge/scaling.h has the rules.
__device__ __forceinline__ Scale choose_scale(u32 amax, Rule rule) {
  if (amax == 0) return {1.0f, 1.0f, 127};
  if (rule == Rule::kExact) {
    const float value = fmaxf(__fdiv_rn(__uint_as_float(amax), Range::kMost), 0x1p-126f);
    return {value, __fdiv_rn(1.0f, value), 0};
  }
  // Subnormals have field 0 and end at the least exponent whatever their value.
  const u32 rounded = rule == Rule::kEven ? amax + (1u << (23 - Range::kMantissa - 1)) : amax;
  int exponent = static_cast<int>(rounded >> 23) - 127 - Range::kMostExponent;
  if (rule == Rule::kCeil && (amax & 0x7FFFFFu) > 0x600000u) ++exponent;  // above 1.75 times a power of two
  exponent = min(max(exponent, kMx ? -127 : -126), 127);
  return {power_of_two(static_cast<u8>(exponent + 127)), power_of_two(static_cast<u8>(127 - exponent)),
          static_cast<u8>(exponent + 127)};
}

__device__ __forceinline__ void store_scale(void* scales, i64 at, const Scale& scale) {
  if constexpr (kMx) {
    static_cast<u8*>(scales)[at] = scale.code;
  } else {
    static_cast<float*>(scales)[at] = scale.value;
  }
}

// Scales of the tile's groups: to memory, and their inverses for the block. Behind it the block must meet.
__device__ __forceinline__ void share_scales(const QuantizeParameters& p, const Place& place, Shared& shared) {
  if constexpr (kGiven) {
    const u32 i = threadIdx.x;
    constexpr bool kByRow = kGranularity == Granularity::kRow;
    if (kAsIs && i < kTile && place.row0 + i < p.rows) {
      shared.row_inverse[i][0] = __fdiv_rn(1.0f, static_cast<const float*>(p.scale)[kByRow ? place.row0 + i : 0]);
    }
    if (kTransposed && i < kTile && place.col0 + i < p.cols) {
      shared.column_inverse[0][i] = __fdiv_rn(1.0f, static_cast<const float*>(p.scale_t)[kByRow ? place.col0 + i : 0]);
    }
  } else if constexpr (kGranularity == Granularity::kTile) {
    const Scale scale = choose_scale(largest_of_tile(shared), p.rule);
    if (threadIdx.x < kTile) shared.row_inverse[threadIdx.x][0] = shared.column_inverse[0][threadIdx.x] = scale.inverse;
    const i64 row = place.row0 / kTile, col = place.col0 / kTile;
    if (threadIdx.x == 0 && kAsIs) store_scale(p.scale, row * p.scale_stride + col, scale);
    if (threadIdx.x == 0 && kTransposed) store_scale(p.scale_t, col * p.scale_t_stride + row, scale);
  } else {
    constexpr u32 kGroups = kMx ? kUnits : 1, kLength = kTile / kGroups;
    for (u32 i = threadIdx.x; i < kTile * kGroups; i += kThreads) {
      const u32 line = i % kTile, group = i / kTile;
      if constexpr (kAsIs) {
        const Scale scale = choose_scale(kMx ? shared.row_units[line][group] : largest_of_row(shared, line), p.rule);
        shared.row_inverse[line][group] = scale.inverse;
        if (place.row0 + line < p.rows && place.col0 + group * kLength < p.cols) {
          store_scale(p.scale, (place.col0 / kLength + group) * p.scale_stride + place.row0 + line, scale);
        }
      }
      if constexpr (kTransposed) {
        const u32 amax = kMx ? max(shared.column_units[2 * group][line], shared.column_units[2 * group + 1][line])
                             : largest_of_column(shared, line);
        const Scale scale = choose_scale(amax, p.rule);
        shared.column_inverse[group][line] = scale.inverse;
        if (place.col0 + line < p.cols && place.row0 + group * kLength < p.rows) {
          store_scale(p.scale_t, (place.row0 / kLength + group) * p.scale_t_stride + place.col0 + line, scale);
        }
      }
    }
  }
}

// Up with the probability of what is cut off. The result lies on the format's grid.
__device__ __forceinline__ float round_stochastically(float y, u32 random) {
  const float size = fminf(fabsf(y), Range::kMost);
  const int field = static_cast<int>(__float_as_uint(size) >> 23) - 127;
  const int step = max(field, Range::kLeastExponent) - Range::kMantissa;  // of the grid
  const float steps = size * __uint_as_float(static_cast<u32>(127 - step) << 23), below = floorf(steps);
  const bool up = static_cast<float>(random >> 8) * 0x1p-24f < steps - below;
  return copysignf((below + (up ? 1.0f : 0.0f)) * __uint_as_float(static_cast<u32>(127 + step) << 23), y);
}

// Codes of eight elements, the first in the lowest byte. `word` is the first one's of the random stream.
__device__ __forceinline__ u64 encode(float (&y)[kSide], bool special, u64 seed, u64 word) {
  if constexpr (kStochastic) {
    PhiloxBlock block = philox_block(seed, word / 4);
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) {
      if (i != 0 && (word + i) % 4 == 0) block = philox_block(seed, (word + i) / 4);
      const u32 at = static_cast<u32>((word + i) % 4);
      const u32 random = at == 0   ? block.words[0]
                         : at == 1 ? block.words[1]
                         : at == 2 ? block.words[2]
                                   : block.words[3];
      if ((__float_as_uint(y[i]) & 0x7FFFFFFFu) < kInfinityBits) y[i] = round_stochastically(y[i], random);
    }
  }
  u64 codes = 0;
#pragma unroll
  for (u32 i = 0; i < kSide; i += 2) {
    codes |= static_cast<u64>(encode_pair<kFormat>(y[i], y[i + 1])) << (8 * i);
  }
  if (special) {
    for (u32 i = 0; i < kSide; ++i) {
      const u32 bits = __float_as_uint(y[i]);
      if ((bits & 0x7FFFFFFFu) != kInfinityBits) continue;
      codes = (codes & ~(0xFFull << (8 * i))) | static_cast<u64>(Range::kInfinity | (bits >> 24 & 0x80u)) << (8 * i);
    }
  }
  return codes;
}

// `count` codes to memory.
__device__ __forceinline__ void store_codes(u8* to, u64 codes, i64 count, bool whole) {
  if (whole && count >= 8) {
    *reinterpret_cast<u64*>(to) = codes;
    return;
  }
  for (i64 i = 0; i < min(count, 8ll); ++i) to[i] = static_cast<u8>(codes >> (8 * i));
}

// The codes of a column's group of eight rows lie elsewhere for every eight columns, so that neither writing columns
// nor reading rows collides in the banks.
__device__ __forceinline__ u32 slot_of(u32 column, u32 row_group) { return row_group ^ (column / kSide % 16); }

__device__ __forceinline__ void write_transposed(const QuantizeParameters& p, const Place& place,
                                                 const Shared& shared) {
  constexpr u32 kPerColumn = kTile / 16;  // threads, each with 16 codes
  for (u32 i = threadIdx.x; i < kTile * kPerColumn; i += kThreads) {
    const u32 column = i / kPerColumn, pair = i % kPerColumn * 2;
    const i64 row = place.row0 + pair * kSide;
    if (place.col0 + column >= p.cols || row >= p.rows) continue;
    const u64 low = shared.codes[column][slot_of(column, pair)], high = shared.codes[column][slot_of(column, pair + 1)];
    u8* const to = p.q_t + (place.col0 + column) * p.q_t_stride + row;
    if (p.aligned_q_t && row + 16 <= p.rows) {
      *reinterpret_cast<ulonglong2*>(to) = {low, high};
    } else {
      store_codes(to, low, p.rows - row, false);
      store_codes(to + 8, high, p.rows - row - 8, false);
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

// One block per tile. Row and tensor scales must be there. Two blocks share a multiprocessor, or one where random words
// need the registers.
extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kStochastic ? 1 : 2)
    ridge_quantize(const ridge::cuda::QuantizeParameters p) {
  using namespace ridge::cuda;
  __shared__ __align__(16) Shared shared;
  const Place place = place_of(p);
  float x[kSide][kSide];
  const bool special = load_tile(p, place, shared, x);
  share_scales(p, place, shared);
  u64 seed = 0, offset = 0;
  if constexpr (kStochastic) {
    seed = p.random[0];
    offset = p.random[1];
  }
  __syncthreads();
  const u32 group = kMx ? place.column_group / 4 : 0, group_t = kMx ? place.row_group / 4 : 0;
  float y[kSide];
  if constexpr (kAsIs) {
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) {
      const i64 row = place.row() + i;
      if (row >= p.rows || place.col() >= p.cols) break;
      const float inverse = shared.row_inverse[place.row_group * kSide + i][group];
#pragma unroll
      for (u32 j = 0; j < kSide; ++j) y[j] = x[i][j] * inverse;
      const u64 codes = encode(y, special, seed, offset + static_cast<u64>(row * p.cols + place.col()));
      store_codes(p.q + row * p.q_stride + place.col(), codes, p.cols - place.col(), p.aligned_q);
    }
  }
  if constexpr (kTransposed) {
    const u64 first = offset + static_cast<u64>(p.rows * p.cols);
#pragma unroll
    for (u32 j = 0; j < kSide; ++j) {
      const u32 column = place.column_group * kSide + j;
      const float inverse = shared.column_inverse[group_t][column];
#pragma unroll
      for (u32 i = 0; i < kSide; ++i) y[i] = x[i][j] * inverse;
      shared.codes[column][slot_of(column, place.row_group)] =
          encode(y, special, seed, first + static_cast<u64>((place.col() + j) * p.rows + place.row()));
    }
    __syncthreads();
    write_transposed(p, place, shared);
  }
}

// Bits of the largest magnitudes to where the scales will be, which must hold zeros.
extern "C" __global__ void __launch_bounds__(256, 2) ridge_quantize_amax(const ridge::cuda::QuantizeParameters p) {
  using namespace ridge::cuda;
  __shared__ __align__(16) Shared shared;
  const Place place = place_of(p);
  float x[kSide][kSide];
  load_tile(p, place, shared, x);
  u32* const rows = static_cast<u32*>(p.scale);
  u32* const columns = static_cast<u32*>(p.scale_t);
  const u32 i = threadIdx.x;
  if constexpr (kGranularity == Granularity::kTensor) {
    const u32 largest = largest_of_tile(shared);
    if (i == 0 && kAsIs) atomicMax(rows, largest);
    if (i == 0 && kTransposed) atomicMax(columns, largest);
  } else {
    if (kAsIs && i < kTile && place.row0 + i < p.rows) atomicMax(rows + place.row0 + i, largest_of_row(shared, i));
    if (kTransposed && i < kTile && place.col0 + i < p.cols) {
      atomicMax(columns + place.col0 + i, largest_of_column(shared, i));
    }
  }
}

// Largest magnitudes to scales, in place.
extern "C" __global__ void __launch_bounds__(256)
    ridge_quantize_scales(float* const scales, const ridge::cuda::i64 count, const ridge::cuda::Rule rule) {
  using namespace ridge::cuda;
  const i64 i = blockIdx.x * static_cast<i64>(kThreads) + threadIdx.x;
  if (i < count) scales[i] = choose_scale(__float_as_uint(scales[i]), rule).value;
}
