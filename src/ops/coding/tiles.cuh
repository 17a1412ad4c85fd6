// A matrix in 8-bit floats with scales, and the same of its transpose, from one read of what it is made of. A block of
// 256 threads takes 128 x 128 elements, each thread 8 x 8 of them in registers: whole 1 x 128, 128 x 1, 128 x 128 and
// 1 x 32 groups lie within a block, so their largest magnitudes are known before a code is written. Scales of a row or
// of the whole tensor are known only after all of it was seen: collect_largest() gathers the largest magnitudes in the
// memory of the scales, make_scales() turns them into scales, and write_codes() makes the elements a second time, from
// the end, because what was read last is still in the second-level cache. A scale made of a given largest magnitude
// needs no first pass, unless that is 0; the matrix's own is found by the second.
//
// Elements of 16 bits stay packed in pairs, of which one instruction compares the magnitudes. Where both copies of an
// element have the same scale (one of the tensor, one of a tile) they have the same code, so each is made once and 8 x
// 8 codes are transposed in registers. The transposed codes go through shared memory, so that both copies are written
// in runs of 128 bytes. Threads whose rows are all there, finite and on whole vectors store them without a branch;
// others test each element.
//
// Stands behind the macros RIDGE_FORMAT, RIDGE_GRANULARITY, RIDGE_COPIES, RIDGE_STOCHASTIC and RIDGE_AMAX, and behind
// where the elements come from:
//
//   struct Source {
//     static constexpr Element kType = ...;        // as a thread keeps them
//     static constexpr bool kReadBefore = ...;     // by another kernel just before, from its beginning
//     static constexpr bool kHalves = ...;         // columns of both halves are made of the same memory
//     __device__ void load(i64 rows, i64 cols, i64 row, i64 col, Packed<kType>::Square& x) const;
//   };
//
// load() gives rows row .. row + 8 of columns col .. col + 8, and zeros outside of rows x cols. A source whose elements
// are made of rows of matrices alone has instead
//
//     static constexpr Element kInput = ...;       // of the matrices
//     static constexpr u32 kInputs = ...;          // how many
//     static constexpr bool kAhead = ...;          // the next tile is copied while this one is worked at
//     struct EightRows { ... };                    // what is known of eight rows before they are there
//     __device__ EightRows find_rows(i64 rows, i64 row) const;         // by whole warps
//     __device__ StoredMatrix input(u32 which) const;
//     __device__ bool is_aligned(u32 which) const;                     // its rows start on 16 bytes
//     __device__ i64 row_of(const EightRows& at, u32 i) const;         // of the matrices
//     __device__ i64 end_of(const EightRows& at, u32 i) const;         // there is no row i from here on
//     __device__ bool has_all(const EightRows& at) const;
//     // make() asks for rows of the matrices by read(which, i, row).
//     template <class Read>
//     __device__ void make(const EightRows& at, i64 col, const Read& read, Packed<kType>::Square& x) const;
//
// With kHalves it has `i64 half`, the columns of each half, and read() gives the elements of the inputs that its
// columns are made of. With kAhead the launch has Ahead::kSlots bytes of dynamic shared memory, and any number of
// blocks walks over the tiles. With kTwins, too, two tiles that lie `tile_cols` apart are made of the same inputs:
//
//     template <class Read, class Keep>
//     __device__ void make_twins(const EightRows& at, i64 col, const Read& read, const Keep& keep,
//                                Packed<kType>::Square& x) const;
//
// gives the first, and rows of the second to keep(i, row). A source may have
//
//     u32* largest;                                 // [segments, cols], zeros
//     __device__ u32 segments() const;              // of the rows, each of whole tiles
//     __device__ u32 segment_of(i64 row) const;     // by whole warps
//
// A row of the transpose has then a scale for each segment, scale_t is [segments, cols], and collect_largest() gathers
// the largest magnitudes of columns in memory of their own. Another may have
//
//     __device__ Lines lines(const EightRows& at, u32 before) const;
//
// which says where the rows of a tile lie in q and its scales, if not as in the matrix, from what is known of eight
// behind `before` others; with scales of parts of rows.
#pragma once
#include "elements.cuh"

namespace ridge::cuda {

enum class Granularity { kTensor, kRow, kVector, kBlock, kMx };  // ridge/scaling.h
enum class Copies { kAsIs, kTransposed, kBoth };
enum class Rule : u32 { kExact, kFloor, kEven, kCeil };  // ScaleRule

// As the launch plan fills it. `scale` and `scale_t` are fp32, for MX bytes; strides in elements.
struct TileParameters {
  u8* q;
  void* scale;
  u8* q_t;
  void* scale_t;
  const u64* random;  // {seed, offset}
  i64 q_stride, scale_stride, q_t_stride, scale_t_stride;
  i64 rows, cols;
  u32 tile_cols;
  Rule rule;
  u32 aligned_q, aligned_q_t;  // rows start on 8 and 16 bytes
  const float* amax;           // what the scale is made of where it is not 0
  u32* found;                  // bits of the matrix's own largest magnitude, an infinity where it holds what is not
                               // finite; 0 before
};

namespace {

constexpr Fp8 kFormat = Fp8::RIDGE_FORMAT;
constexpr Granularity kGranularity = Granularity::RIDGE_GRANULARITY;
constexpr Copies kCopies = Copies::RIDGE_COPIES;
constexpr bool kStochastic = RIDGE_STOCHASTIC != 0;
constexpr bool kAmaxGiven = RIDGE_AMAX != 0;
constexpr bool kAsIs = kCopies != Copies::kTransposed, kTransposed = kCopies != Copies::kAsIs;
constexpr bool kGiven = kGranularity == Granularity::kTensor || kGranularity == Granularity::kRow;  // by the first pass
constexpr bool kOneScale = kGranularity == Granularity::kTensor || kGranularity == Granularity::kBlock;  // in a block
constexpr bool kSameCodes = kOneScale && kTransposed && !kStochastic;  // in both copies
constexpr bool kMx = kGranularity == Granularity::kMx;
struct OneSegment {};
template <class Any>
constexpr bool kSegments = kGranularity == Granularity::kRow&& requires(const Any& any) {
  any.segments();
};
constexpr bool kWide = Packed<Source::kType>::kWide;
constexpr u32 kTile = 128, kUnit = 32;  // elements: of a block, of the smallest group
constexpr u32 kUnits = kTile / kUnit, kThreads = 256, kWarps = kThreads / kWarpThreads;
constexpr u32 kPerWord = Packed<Source::kType>::kPerWord, kWords = Packed<Source::kType>::kWords;
// Whether a block walks over tiles, and copies the inputs of the next one ahead.
template <class Any>
constexpr bool kWalks = requires {
  requires Any::kAhead;
};
// Whether two tiles are made of the same inputs, the second `tile_cols` to the right.
template <class Any>
constexpr bool kTwins = requires {
  requires Any::kTwins;
};
// Blocks of a multiprocessor, by their registers: elements that are not packed take twice as many, elements that are
// made of others while they are read take some, and random words more still.
constexpr u32 kBlocks = kStochastic ? 1 : kWide || kWalks<Source> ? 2 : 4;
using Range = Fp8Range<kFormat>;
using Elements = Packed<Source::kType>::Square;  // of a thread

// Holds the largest magnitudes of 1 x 32, and of 16 x 1 elements.
struct Units {
  u32 rows[kOneScale ? 1 : kTile][kUnits], columns[kOneScale ? 1 : kTile / 16][kTile];
};
// Holds the inverses of the scales.
struct Inverses {
  alignas(16) float rows[kMx ? kUnits : 1][kOneScale ? 1 : kTile];
  alignas(16) float columns[kMx ? kUnits : 1][kOneScale ? 1 : kTile];
};
struct Shared {
  union {
    Units units;                                                // until scales are made of them
    alignas(16) u64 codes[kTransposed ? kTile : 1][kTile / 8];  // transposed
  };
  union {
    u32 warps[kWarps];  // largest magnitudes of a warp's elements, of one scale
    Inverses inverses;
  };
};

// This thread's 8 x 8 elements: columns 8 * column_group ..., rows 8 * row_group ... of the tile.
struct Place {
  u32 down, across;  // of the tile, among the tiles
  u32 row_group, column_group;
  __device__ __forceinline__ i64 row0() const { return static_cast<i64>(down) * kTile; }
  __device__ __forceinline__ i64 col0() const { return static_cast<i64>(across) * kTile; }
  __device__ __forceinline__ i64 row() const { return row0() + row_group * kSide; }
  __device__ __forceinline__ i64 col() const { return col0() + column_group * kSide; }
  __device__ __forceinline__ Place to_the_right(u32 tiles) const {
    return {down, across + tiles, row_group, column_group};
  }
};
__device__ __forceinline__ Place place_of(const TileParameters& p, u32 tile) {
  u32 across = tile % p.tile_cols;
  // Tiles of both halves take turns: what one reads the next finds in the second-level cache.
  if constexpr (Source::kHalves) across = across / 2 + (across % 2 == 0 ? 0 : (p.tile_cols + 1) / 2);
  return {tile / p.tile_cols, across, threadIdx.x / 16, threadIdx.x % 16};
}

template <class Any>
constexpr bool kOfInputs = requires {
  Any::kInputs;
};
template <class Any>
using RowOf = typename Packed<Any::kInput>::Row;
template <class Any>
__device__ __forceinline__ Lines lines_of(const Any& source, const TileParameters& p, const Place& place,
                                          const auto& at) {
  const u32 before = place.row_group * kSide;
  if constexpr (requires { source.lines(at, before); }) return source.lines(at, before);
  return {place.row0(), p.rows};
}

// Whether all of a thread's rows and columns are there, and aligned.
template <class Any>
__device__ __forceinline__ bool is_whole(const Any& source, const typename Any::EightRows& at, i64 cols, i64 col) {
  bool aligned = true;
#pragma unroll
  for (u32 which = 0; which < Any::kInputs; ++which) aligned = aligned && source.is_aligned(which);
  return aligned && source.has_all(at) && col + kSide <= cols;
}
// Loads the elements of a tile, and gives the place of its rows in q.
template <class Any>
__device__ __forceinline__ Lines load(const Any& source, const TileParameters& p, const Place& place, Elements& x) {
  if constexpr (kOfInputs<Any>) {
    const auto at = source.find_rows(p.rows, place.row());
    const i64 cols = p.cols, col = place.col();
    const auto read_whole = [&](u32 which, u32 i, RowOf<Any>& row) {
      load_whole<Any::kInput>(place_in<Any::kInput>(source.input(which), source.row_of(at, i), col), row);
    };
    Under under{};
    if constexpr (Any::kHalves) under = under_halves(col, source.half);
    const auto read = [&](u32 which, u32 i, RowOf<Any>& row) {
      if constexpr (Any::kHalves) {
        load_under<Any::kInput>(source.input(which), source.is_aligned(which), source.end_of(at, i), source.half,
                                source.row_of(at, i), under, row);
      } else {
        load_eight<Any::kInput>(source.input(which), source.is_aligned(which), source.end_of(at, i), cols,
                                source.row_of(at, i), col, row);
      }
    };
    // Elements that are not packed take so many registers that two ways of making them would not fit.
    if (!kWide && !Any::kHalves && __all_sync(~0u, is_whole(source, at, cols, col))) {
      source.make(at, col, read_whole, x);
    } else {
      source.make(at, col, read, x);
    }
    return lines_of(source, p, place, at);
  } else {
    source.load(p.rows, p.cols, place.row(), place.col(), x);
    return {place.row0(), p.rows};
  }
}

// Copies the inputs of a tile into slots of its threads ahead of their use. A thread reads what it copied itself, so
// that it waits for no other one.
template <class Any>
struct Ahead {
  static constexpr u32 kSlots = Any::kInputs * kSide * kSlotBytes<Any::kInput>;  // bytes of a block
  // Inputs of 16 bits whose slots the elements of a twin take.
  static constexpr u32 kKept = Packed<Any::kType>::kWords / 4;
  typename Any::EightRows at;

  __device__ __forceinline__ static u32 slot(u32 which, u32 i) {
    extern __shared__ __align__(16) u8 memory[];
    return shared_address(memory) + threadIdx.x * 16 + (which * kSide + i) * kSlotBytes<Any::kInput>;
  }
  // Finds the rows of a tile; by whole warps.
  __device__ __forceinline__ void find_rows(const Any& source, const TileParameters& p, const Place& place) {
    at = source.find_rows(p.rows, place.row());
  }
  // Starts to copy inputs `first` .. `end` of the tile whose rows were found last.
  __device__ __forceinline__ void start_copies(const Any& source, const TileParameters& p, const Place& place,
                                               u32 first, u32 end) const {
    const i64 col = place.col();
    if (is_whole(source, at, p.cols, col)) {
#pragma unroll
      for (u32 which = first; which < end; ++which) {
#pragma unroll
        for (u32 i = 0; i < kSide; ++i) {
          fetch_whole<Any::kInput>(slot(which, i), source.input(which), source.row_of(at, i), col);
        }
      }
    } else {
#pragma unroll 1
      for (u32 i = 0; i < kSide; ++i) {
#pragma unroll 1
        for (u32 which = first; which < end; ++which) {
          fetch_eight<Any::kInput>(slot(which, i), source.input(which), source.is_aligned(which), source.end_of(at, i),
                                   p.cols, source.row_of(at, i), col);
        }
      }
    }
    commit_copies();
  }
  // Makes the elements of the tile that was copied last, and gives the place of its rows in q.
  __device__ __forceinline__ Lines make_elements(const Any& source, const TileParameters& p, const Place& place,
                                                 Elements& x) const {
    wait_copies<0>();
    const auto read = [&](u32 which, u32 i, RowOf<Any>& row) { fetched_eight<Any::kInput>(slot(which, i), row); };
    if constexpr (kTwins<Any>) {
      const auto keep = [&](u32 i, const typename Packed<Any::kType>::Row& row) {
#pragma unroll
        for (u32 part = 0; part < kKept; ++part) {
          const u32* const words = row + 4 * part;
          store_shared_16(slot(part, i), {words[0], words[1], words[2], words[3]});
        }
      };
      source.make_twins(at, place.col(), read, keep, x);
    } else {
      source.make(at, place.col(), read, x);
    }
    return lines_of(source, p, place, at);
  }
  // Gives those of its twin, which were kept.
  __device__ __forceinline__ void kept_elements(Elements& x) const {
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) {
#pragma unroll
      for (u32 part = 0; part < kKept; ++part) {
        const uint4 raw = load_shared_16(slot(part, i));
        u32* const words = x[i] + 4 * part;
        words[0] = raw.x, words[1] = raw.y, words[2] = raw.z, words[3] = raw.w;
      }
    }
  }
};

// Magnitudes order as integers; two share a word where elements have 16 bits.
constexpr u32 kMagnitude = kWide ? 0x7FFFFFFFu : 0x7FFF7FFFu;
constexpr u32 kInfinite = kWide ? kInfinityBits : Source::kType == Element::kBf16 ? 0x7F80u : 0x7C00u;  // from here on
__device__ __forceinline__ u32 larger(u32 a, u32 b) {
  if constexpr (kWide) return max(a, b);
  return __vmaxu2(a, b);
}
__device__ __forceinline__ u32 larger_of_word(u32 word) {
  if constexpr (kWide) return word;
  return max(word & 0xFFFFu, word >> 16);
}
__device__ __forceinline__ u32 without_infinite(u32 word) {
  if constexpr (kWide) return word >= kInfinite ? 0 : word;
  return ((word & 0xFFFFu) >= kInfinite ? 0 : word & 0xFFFFu) | ((word >> 16) >= kInfinite ? 0 : word & 0xFFFF0000u);
}
// Of one element, as the bits of a float.
__device__ __forceinline__ u32 float_bits(u32 magnitude) {
  if constexpr (kWide) return magnitude;
  if constexpr (Source::kType == Element::kF16) return __float_as_uint(half_to_float(static_cast<u16>(magnitude)));
  return magnitude << 16;
}

// Zero times an element that is not finite is no zero.
__device__ __forceinline__ bool any_infinite(const Elements& x) {
  u32 sum = 0;
#pragma unroll
  for (u32 i = 0; i < kSide; ++i) {
#pragma unroll
    for (u32 w = 0; w < kWords; ++w) {
      if constexpr (kWide) {
        asm("fma.rn.f32 %0, %1, %2, %0;" : "+r"(sum) : "r"(x[i][w]), "r"(0u));
      } else if constexpr (Source::kType == Element::kBf16) {
        asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(x[i][w]), "r"(0u));
      } else {
        asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(x[i][w]), "r"(0u));
      }
    }
  }
  return (sum & kMagnitude) != 0;
}

// The larger magnitude of both, with any sign; NaN where one is.
__device__ __forceinline__ u32 larger_size(u32 a, u32 b) {
  u32 larger;
  if constexpr (kWide) {
    asm("max.NaN.xorsign.abs.f32 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  } else if constexpr (Source::kType == Element::kBf16) {
    asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  }
  return larger;
}

// Largest magnitudes of a thread's elements: of each row one, of the columns packed as they are.
struct Largest {
  u32 rows[kSide], columns[kWords];
};
__device__ __forceinline__ Largest largest_of(const Elements& x) {
  Largest largest;
#pragma unroll
  for (u32 i = 0; i < kSide; ++i) {
    u32 of_row = x[i][0];
#pragma unroll
    for (u32 w = 0; w < kWords; ++w) {
      if (w != 0) of_row = larger_size(of_row, x[i][w]);
      largest.columns[w] = i == 0 ? x[i][w] : larger_size(largest.columns[w], x[i][w]);
    }
    largest.rows[i] = larger_of_word(of_row & kMagnitude);
  }
#pragma unroll
  for (u32 w = 0; w < kWords; ++w) largest.columns[w] &= kMagnitude;
  return largest;
}
// Elements that are not finite do not count.
__device__ __forceinline__ Largest largest_finite_of(const Elements& x) {
  Largest largest{};
#pragma unroll
  for (u32 i = 0; i < kSide; ++i) {
#pragma unroll
    for (u32 w = 0; w < kWords; ++w) {
      const u32 sizes = without_infinite(x[i][w] & kMagnitude);
      largest.rows[i] = larger(largest.rows[i], sizes);
      largest.columns[w] = larger(largest.columns[w], sizes);
    }
    largest.rows[i] = larger_of_word(largest.rows[i]);
  }
  return largest;
}
// The same; `special` where there is an element that is not finite. They are compared as if there was none, and again
// where there was.
__device__ __forceinline__ Largest finite_largest_of(const Elements& x, bool& special) {
  const Largest largest = largest_of(x);
  u32 most = 0;
#pragma unroll
  for (u32 i = 0; i < kSide; ++i) most = max(most, largest.rows[i]);
  special = most >= kInfinite;
  return special ? largest_finite_of(x) : largest;
}

// Largest magnitudes of the tile's units to shared memory, for the whole block. True where any of the thread's elements
// is not finite.
__device__ __forceinline__ bool share_units(const Elements& x, const Place& place, Shared& shared) {
  const u32 lane = threadIdx.x % kWarpThreads, warp = threadIdx.x / kWarpThreads;
  bool special;
  const Largest largest = finite_largest_of(x, special);
#pragma unroll
  for (u32 i = 0; i < kSide; i += kPerWord) {  // two rows share a word, and so the exchanges
    u32 rows = kWide ? largest.rows[i] : largest.rows[i] | largest.rows[i + kPerWord - 1] << 16;
    rows = larger(rows, __shfl_xor_sync(~0u, rows, 1));
    rows = larger(rows, __shfl_xor_sync(~0u, rows, 2));
#pragma unroll
    for (u32 h = 0; h < kPerWord; ++h) {
      const u32 row = kWide ? rows : rows >> (16 * h) & 0xFFFFu;
      if (lane % 4 == 0) shared.units.rows[place.row_group * kSide + i + h][place.column_group / 4] = float_bits(row);
    }
  }
#pragma unroll
  for (u32 w = 0; w < kWords; ++w) {
    const u32 columns = larger(largest.columns[w], __shfl_xor_sync(~0u, largest.columns[w], 16));
#pragma unroll
    for (u32 h = 0; h < kPerWord; ++h) {
      const u32 column = kWide ? columns : columns >> (16 * h) & 0xFFFFu;
      if (lane < 16) shared.units.columns[warp][place.column_group * kSide + w * kPerWord + h] = float_bits(column);
    }
  }
  __syncthreads();
  return special;
}

__device__ __forceinline__ u32 largest_of_row(const Shared& shared, u32 row) {
  const u32(&units)[kUnits] = shared.units.rows[row];
  return max(max(units[0], units[1]), max(units[2], units[3]));
}
__device__ __forceinline__ u32 largest_of_column(const Shared& shared, u32 column) {
  u32 largest = 0;
#pragma unroll
  for (u32 i = 0; i < kTile / 16; ++i) largest = max(largest, shared.units.columns[i][column]);
  return largest;
}
// By all threads and for all of them.
__device__ __forceinline__ u32 largest_of_tile(const Elements& x, Shared& shared, bool& special) {
  const Largest largest = finite_largest_of(x, special);
  u32 mine = 0;
#pragma unroll
  for (u32 w = 0; w < kWords; ++w) mine = larger(mine, largest.columns[w]);
  mine = __reduce_max_sync(~0u, float_bits(larger_of_word(mine)));
  if (threadIdx.x % kWarpThreads == 0) shared.warps[threadIdx.x / kWarpThreads] = mine;
  __syncthreads();
#pragma unroll
  for (u32 i = 0; i < kWarps; ++i) mine = max(mine, shared.warps[i]);
  return mine;
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

// Bits of the largest magnitude that a call brings along; 0 leaves the scale to x, and so does what is not finite.
__device__ __forceinline__ u32 given_amax(const TileParameters& p) {
  const u32 bits = __float_as_uint(*p.amax) & 0x7FFFFFFFu;
  return bits < kInfinityBits ? bits : 0;
}

// x's own largest magnitude. Most tiles meet a larger one.
__device__ __forceinline__ void note_found(const TileParameters& p, const Elements& x, Shared& shared, bool& special) {
  const u32 largest = largest_of_tile(x, shared, special);
  const u32 bits = __syncthreads_or(special) ? kInfinityBits : largest;
  if (threadIdx.x == 0 && *static_cast<volatile u32*>(p.found) < bits) atomicMax(p.found, bits);
}

// The inverse of the one scale of the tile; a scale of tiles goes to memory.
__device__ __forceinline__ float inverse_of_tile(const TileParameters& p, const Place& place, const Elements& x,
                                                 Shared& shared, bool& special) {
  if constexpr (kGranularity == Granularity::kTensor) {
    if constexpr (kAmaxGiven) {
      note_found(p, x, shared, special);
    } else {
      special = any_infinite(x);
    }
    return __fdiv_rn(1.0f, *static_cast<const float*>(kAsIs ? p.scale : p.scale_t));
  }
  const Scale scale = choose_scale(largest_of_tile(x, shared, special), p.rule);
  const i64 row = place.down, col = place.across;
  if (threadIdx.x == 0 && kAsIs) store_scale(p.scale, row * p.scale_stride + col, scale);
  if (threadIdx.x == 0 && kTransposed) store_scale(p.scale_t, col * p.scale_t_stride + row, scale);
  return scale.inverse;
}

// Where the tile's first column lies in a matrix with a row of that stride for each segment; by whole warps.
template <class Any>
__device__ __forceinline__ i64 column_of_segment(const Any& source, const Place& place, i64 stride) {
  if constexpr (kSegments<Any>) return source.segment_of(place.row0()) * stride + place.col0();
  return place.col0();
}

// Scales of the tile's rows and columns, or of parts of them: to memory, and their inverses for the block. Behind it
// the block must meet.
__device__ __forceinline__ void share_scales(const Source& source, const TileParameters& p, const Place& place,
                                             const Lines& lines, Shared& shared) {
  if constexpr (kGiven) {
    const u32 i = threadIdx.x;
    const i64 columns = kTransposed ? column_of_segment(source, place, p.scale_t_stride) : 0;
    if (kAsIs && i < kTile && place.row0() + i < p.rows) {
      shared.inverses.rows[0][i] = __fdiv_rn(1.0f, static_cast<const float*>(p.scale)[place.row0() + i]);
    }
    if (kTransposed && i < kTile && place.col0() + i < p.cols) {
      shared.inverses.columns[0][i] = __fdiv_rn(1.0f, static_cast<const float*>(p.scale_t)[columns + i]);
    }
  } else {
    constexpr u32 kGroups = kMx ? kUnits : 1, kLength = kTile / kGroups, kScales = kTile * kGroups;
    // Rows first, then columns, so that without MX each half of the block has one of them.
    for (u32 i = threadIdx.x + (kAsIs ? 0 : kScales); i < (kTransposed ? 2 * kScales : kScales); i += kThreads) {
      const u32 line = i % kTile, group = i / kTile % kGroups;
      if (i < kScales) {
        const Scale scale = choose_scale(kMx ? shared.units.rows[line][group] : largest_of_row(shared, line), p.rule);
        shared.inverses.rows[group][line] = scale.inverse;
        if (lines.first + line < lines.end && place.col0() + group * kLength < p.cols) {
          store_scale(p.scale, (place.col0() / kLength + group) * p.scale_stride + lines.first + line, scale);
        }
      } else {
        const u32 amax = kMx ? max(shared.units.columns[2 * group][line], shared.units.columns[2 * group + 1][line])
                             : largest_of_column(shared, line);
        const Scale scale = choose_scale(amax, p.rule);
        shared.inverses.columns[group][line] = scale.inverse;
        if (place.col0() + line < p.cols && place.row0() + group * kLength < p.rows) {
          store_scale(p.scale_t, (place.row0() / kLength + group) * p.scale_t_stride + place.col0() + line, scale);
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

// An element over its scale. With a given largest magnitude a finite one may leave fp32, and is no infinity for that.
__device__ __forceinline__ float scaled(float x, float inverse) {
  const float y = x * inverse;
  if constexpr (!kAmaxGiven) return y;
  return fabsf(x) < __uint_as_float(kInfinityBits) ? fmaxf(fminf(y, Range::kMost), -Range::kMost) : y;
}

// Of eight finite elements, of which the first takes word `word` of the random stream; others stay.
__device__ __forceinline__ void round_stochastically(float (&y)[kSide], u64 seed, u64 word) {
  PhiloxBlock block = philox_block(seed, word / 4);
#pragma unroll
  for (u32 i = 0; i < kSide; ++i) {
    if (i != 0 && (word + i) % 4 == 0) block = philox_block(seed, (word + i) / 4);
    const u32 at = static_cast<u32>((word + i) % 4);
    const u32 random = at == 0 ? block.words[0] : at == 1 ? block.words[1] : at == 2 ? block.words[2] : block.words[3];
    if ((__float_as_uint(y[i]) & 0x7FFFFFFFu) < kInfinityBits) y[i] = round_stochastically(y[i], random);
  }
}
// Codes of eight elements, the first in the lowest byte.
__device__ __forceinline__ u64 encode(const float (&y)[kSide]) {
  const u32 low = encode_four<kFormat>(y[0], y[1], y[2], y[3]), high = encode_four<kFormat>(y[4], y[5], y[6], y[7]);
  return low | static_cast<u64>(high) << 32;
}
// The code of an infinite element, number `at` of eight, in place of the largest number's, which the conversion takes
// it for. Others are never infinite over their scales.
__device__ __forceinline__ void mend_infinite(u64& codes, u32 at, float element) {
  const u32 bits = __float_as_uint(element);
  if ((bits & 0x7FFFFFFFu) != kInfinityBits) return;
  codes = (codes & ~(0xFFull << (8 * at))) | static_cast<u64>(Range::kInfinity | (bits >> 24 & 0x80u)) << (8 * at);
}

// `count` codes to memory.
__device__ __forceinline__ void store_codes(u8* to, u64 codes, i64 count, bool whole) {
  if (whole && count >= 8) {
    *reinterpret_cast<u64*>(to) = codes;
    return;
  }
  for (i64 i = 0; i < min(count, 8ll); ++i) to[i] = static_cast<u8>(codes >> (8 * i));
}

// Eight rows of eight codes to eight columns of them: pairs of rows are interleaved, then pairs of pairs.
__device__ __forceinline__ void transpose(const u64 (&rows)[kSide], u64 (&columns)[kSide]) {
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {  // of the columns
    u32 quads[2][4];
#pragma unroll
    for (u32 quad = 0; quad < 2; ++quad) {  // of the rows
      u32 words[4];
#pragma unroll
      for (u32 i = 0; i < 4; ++i) words[i] = static_cast<u32>(rows[4 * quad + i] >> (32 * half));
      const u32 low01 = __byte_perm(words[0], words[1], 0x5140), high01 = __byte_perm(words[0], words[1], 0x7362);
      const u32 low23 = __byte_perm(words[2], words[3], 0x5140), high23 = __byte_perm(words[2], words[3], 0x7362);
      quads[quad][0] = __byte_perm(low01, low23, 0x5410), quads[quad][1] = __byte_perm(low01, low23, 0x7632);
      quads[quad][2] = __byte_perm(high01, high23, 0x5410), quads[quad][3] = __byte_perm(high01, high23, 0x7632);
    }
#pragma unroll
    for (u32 j = 0; j < 4; ++j) columns[4 * half + j] = quads[0][j] | static_cast<u64>(quads[1][j]) << 32;
  }
}

// The codes of a column's group of eight rows lie elsewhere for every eight columns, so that neither writing columns
// nor reading rows collides in the banks.
__device__ __forceinline__ u32 slot_of(u32 column, u32 row_group) { return row_group ^ (column / kSide % 16); }

// The transposed codes of a block, 16 of a thread at a time.
__device__ __forceinline__ void write_transposed(const TileParameters& p, const Place& place, const Shared& shared) {
  constexpr u32 kPerColumn = kTile / 16, kAtOnce = kThreads / kPerColumn;  // threads of a column, columns at a time
  const u32 first = threadIdx.x / kPerColumn, pair = threadIdx.x % kPerColumn * 2;
  const i64 left = p.rows - (place.row0() + pair * kSide), columns = p.cols - place.col0();
  u8* const to = p.q_t + (place.col0() + first) * p.q_t_stride + place.row0() + pair * kSide;
  // Both groups of a pair lie side by side, in one order or the other; the same one for all columns of a thread.
  static_assert(kAtOnce / kSide % 2 == 0);
  const bool turned = first / kSide % 2 != 0;
  const auto codes_at = [&](u32 column) -> ulonglong2 {
    const ulonglong2 both = *reinterpret_cast<const ulonglong2*>(&shared.codes[column][slot_of(column, pair) & ~1u]);
    return turned ? ulonglong2{both.y, both.x} : both;
  };
  if (p.aligned_q_t && left >= 16 && columns >= kTile) {
#pragma unroll
    for (u32 i = 0; i < kTile / kAtOnce; ++i) {
      *reinterpret_cast<ulonglong2*>(to + i * (kAtOnce * p.q_t_stride)) = codes_at(first + i * kAtOnce);
    }
    return;
  }
#pragma unroll 1
  for (u32 column = first; column < kTile && column < columns && left > 0; column += kAtOnce) {
    const ulonglong2 codes = codes_at(column);
    u8* const here = to + (column - first) * p.q_t_stride;
    if (p.aligned_q_t && left >= 16) {
      *reinterpret_cast<ulonglong2*>(here) = codes;
    } else {
      store_codes(here, codes.x, left, false);
      store_codes(here + 8, codes.y, left - 8, false);
    }
  }
}

// The inverses of a thread's rows or columns, from shared memory four at a time, or all of one scale.
struct EightInverses {
  const float* from;  // on 16 bytes
  float four[4];

  __device__ __forceinline__ float at(u32 i) {
    if (!kOneScale && i % 4 == 0) {
      const float4 read = *reinterpret_cast<const float4*>(from + i);
      four[0] = read.x, four[1] = read.y, four[2] = read.z, four[3] = read.w;
    }
    return four[kOneScale ? 0 : i % 4];
  }
};

// Element (i, j), unpacked here and not where it was unpacked before: 64 numbers that are kept from one copy for the
// other would leave room for half as many blocks.
__device__ __forceinline__ float unpacked_again(const Elements& x, u32 i, u32 j) {
  float element = 0.0f;
  if constexpr (Source::kType == Element::kF32) return __uint_as_float(x[i][j]);
  if constexpr (Source::kType == Element::kF16) {
    asm volatile("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, low;\n}"
                 : "=f"(element)
                 : "r"(x[i][j / 2] >> (j % 2 * 16)));
  }
  if constexpr (Source::kType == Element::kBf16) {
    asm volatile("prmt.b32 %0, %1, 0, %2;" : "=f"(element) : "r"(x[i][j / 2]), "r"(j % 2 == 0 ? 0x1044 : 0x3244));
  }
  return element;
}

// Codes of the thread's rows to memory. kWhole: all of them are there and start on 8 bytes, and all elements are
// finite. kSameCodes: into `same`.
template <bool kWhole>
__device__ __forceinline__ void write_rows(const TileParameters& p, const Place& place, const Lines& lines,
                                           const Elements& x, EightInverses inverses, u64 seed, u64 offset,
                                           u64 (&same)[kSide]) {
  const i64 first = lines.first + place.row_group * kSide, left = lines.end - first, col = place.col();
  u8* to = p.q + first * p.q_stride + col;
#pragma unroll
  for (u32 i = 0; i < kSide; ++i, to += p.q_stride) {
    const float inverse = inverses.at(i);
    float y[kSide];
#pragma unroll
    for (u32 j = 0; j < kSide; ++j) y[j] = scaled(element_of<Source::kType>(x[i], j), inverse);
    if constexpr (kStochastic) round_stochastically(y, seed, offset + static_cast<u64>((first + i) * p.cols + col));
    u64 codes = encode(y);
    if constexpr (kWhole) {
      if constexpr (kAsIs) *reinterpret_cast<u64*>(to) = codes;
    } else {
#pragma unroll
      for (u32 j = 0; j < kSide; ++j) mend_infinite(codes, j, element_of<Source::kType>(x[i], j));
      if (kAsIs && i < left) store_codes(to, codes, p.cols - col, p.aligned_q);
    }
    if constexpr (kSameCodes) same[i] = codes;
  }
}

// Codes of the thread's columns to shared memory.
template <bool kFinite>
__device__ __forceinline__ void share_columns(const TileParameters& p, const Place& place, const Elements& x,
                                              EightInverses inverses, u64 seed, u64 offset, Shared& shared) {
#pragma unroll
  for (u32 j = 0; j < kSide; ++j) {
    const float inverse = inverses.at(j);
    float y[kSide];
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) y[i] = scaled(unpacked_again(x, i, j), inverse);
    if constexpr (kStochastic) {
      round_stochastically(y, seed, offset + static_cast<u64>((p.cols + place.col() + j) * p.rows + place.row()));
    }
    u64 codes = encode(y);
#pragma unroll
    for (u32 i = 0; !kFinite && i < kSide; ++i) mend_infinite(codes, i, element_of<Source::kType>(x[i], j));
    const u32 column = place.column_group * kSide + j;
    shared.codes[column][slot_of(column, place.row_group)] = codes;
  }
}

__device__ __forceinline__ void write_tile(const Source& source, const TileParameters& p, const Place& place,
                                           const Lines& lines, const Elements& x, Shared& shared) {
  bool special = false;
  EightInverses inverses{};
  if constexpr (kOneScale) {
    inverses.four[0] = inverse_of_tile(p, place, x, shared, special);
  } else {
    special = kGiven ? any_infinite(x) : share_units(x, place, shared);
    share_scales(source, p, place, lines, shared);
    __syncthreads();
  }
  u64 seed = 0, offset = 0;
  if constexpr (kStochastic) {
    seed = p.random[0];
    offset = p.random[1];
  }
  u64 same[kSide];
  if constexpr (kAsIs || kSameCodes) {
    if constexpr (!kOneScale) {
      inverses.from = &shared.inverses.rows[kMx ? place.column_group / 4 : 0][place.row_group * kSide];
    }
    const bool whole = lines.first + (place.row_group + 1) * kSide <= lines.end && place.col() + kSide <= p.cols;
    if ((!kAsIs || (whole && p.aligned_q)) && !special) {
      write_rows<true>(p, place, lines, x, inverses, seed, offset, same);
    } else {
      write_rows<false>(p, place, lines, x, inverses, seed, offset, same);
    }
  }
  if constexpr (kTransposed) {
    if constexpr (kSameCodes) {
      u64 columns[kSide];
      transpose(same, columns);
#pragma unroll
      for (u32 j = 0; j < kSide; ++j) {
        const u32 column = place.column_group * kSide + j;
        shared.codes[column][slot_of(column, place.row_group)] = columns[j];
      }
    } else {
      if constexpr (!kOneScale) {
        inverses.from = &shared.inverses.columns[kMx ? place.row_group / 4 : 0][place.column_group * kSide];
      }
      if (!special) {
        share_columns<true>(p, place, x, inverses, seed, offset, shared);
      } else {
        share_columns<false>(p, place, x, inverses, seed, offset, shared);
      }
    }
    __syncthreads();
    write_transposed(p, place, shared);
  }
}

// By all blocks. Row and tensor scales must be there.
template <class Any = Source>
__device__ __forceinline__ void write_codes(const Any& source, const TileParameters& p) {
  __shared__ __align__(16) Shared shared;
  const u32 tiles = static_cast<u32>((p.rows + kTile - 1) / kTile) * p.tile_cols;
  const auto place_at = [&](u32 turn) { return place_of(p, kGiven || Any::kReadBefore ? tiles - 1 - turn : turn); };
  Elements x;
  if constexpr (kWalks<Any>) {
    Ahead<Any> ahead;
    static_assert(ahead.kSlots <= 65536 || sizeof(Shared) + ahead.kSlots <= 115712, "two blocks of a multiprocessor");
    static_assert(!kTwins<Any> || !kGiven, "collect_largest() knows of no twins");
    if (blockIdx.x < tiles) {
      ahead.find_rows(source, p, place_at(blockIdx.x));
      ahead.start_copies(source, p, place_at(blockIdx.x), 0, Any::kInputs);
    }
    for (u32 turn = blockIdx.x; turn < tiles; turn += gridDim.x) {
      const Place place = place_at(turn), next = place_at(turn + gridDim.x);
      const bool more = turn + gridDim.x < tiles;
      const Lines lines = ahead.make_elements(source, p, place, x);
      if (more) {
        ahead.find_rows(source, p, next);
        ahead.start_copies(source, p, next, kTwins<Any> ? ahead.kKept : 0, Any::kInputs);
      }
      write_tile(source, p, place, lines, x, shared);
      __syncthreads();  // codes lie where the magnitudes of the next tile will
      if constexpr (kTwins<Any>) {
        ahead.kept_elements(x);
        if (more) ahead.start_copies(source, p, next, 0, ahead.kKept);
        write_tile(source, p, place.to_the_right(p.tile_cols), lines, x, shared);
        __syncthreads();
      }
    }
  } else if (blockIdx.x < tiles) {
    const Place place = place_at(blockIdx.x);
    const Lines lines = load(source, p, place, x);
    write_tile(source, p, place, lines, x, shared);
  }
}

// Where the largest magnitudes of columns are gathered.
template <class Any>
__device__ __forceinline__ u32* columns_of(const Any& source, const TileParameters& p) {
  if constexpr (kSegments<Any>) return source.largest;
  return static_cast<u32*>(p.scale_t);
}

// Codes and scales of zeros; by a warp.
__device__ __forceinline__ void write_zeros(const TileParameters& p, i64 row) {
  constexpr i64 kLength = kMx ? kUnit : kTile;
  const i64 lane = threadIdx.x % kWarpThreads;
  for (i64 col = lane * kSide; col < p.cols; col += kWarpThreads * kSide) {
    store_codes(p.q + row * p.q_stride + col, 0, p.cols - col, p.aligned_q);
  }
  for (i64 group = lane; group * kLength < p.cols; group += kWarpThreads) {
    store_scale(p.scale, group * p.scale_stride + row, choose_scale(0, p.rule));
  }
}

// Bits of the largest magnitudes to where the scales will be, which must hold zeros; of the tensor to one of both.
__device__ __forceinline__ void collect_largest(const Source& source, const TileParameters& p) {
  __shared__ __align__(16) Shared shared;
  if constexpr (kAmaxGiven) {
    if (given_amax(p) != 0) return;
  }
  const Place place = place_of(p, blockIdx.x);
  Elements x;
  load(source, p, place, x);
  u32* const rows = static_cast<u32*>(p.scale);
  u32* const columns = columns_of(source, p);
  const u32 i = threadIdx.x;
  if constexpr (kOneScale) {
    bool special;
    const u32 largest = largest_of_tile(x, shared, special);
    u32* const to = kAsIs ? rows : columns;
    // Most tiles meet a larger one; what another multiprocessor wrote meanwhile is at worst not seen.
    if (i == 0 && *static_cast<volatile u32*>(to) < largest) atomicMax(to, largest);
  } else {
    share_units(x, place, shared);
    if (kAsIs && i < kTile && place.row0() + i < p.rows) atomicMax(rows + place.row0() + i, largest_of_row(shared, i));
    const i64 first = kTransposed ? column_of_segment(source, place, p.cols) : 0;
    if (kTransposed && i < kTile && place.col0() + i < p.cols) {
      atomicMax(columns + first + i, largest_of_column(shared, i));
    }
  }
}

// Largest magnitudes to scales, in place but for those of segments; of both copies.
template <class Any = OneSegment>
__device__ __forceinline__ void make_scales(const TileParameters& p, const Any& source = {}) {
  float* const rows = static_cast<float*>(p.scale);
  float* const columns = static_cast<float*>(p.scale_t);
  const u32 given = kAmaxGiven ? given_amax(p) : 0;
  const auto scale_at = [&](const void* at) {
    return choose_scale(given != 0 ? given : *static_cast<const u32*>(at), p.rule).value;
  };
  const i64 i = blockIdx.x * static_cast<i64>(kThreads) + threadIdx.x;
  if constexpr (kOneScale) {
    if (i != 0) return;
    const float scale = scale_at(kAsIs ? rows : columns);
    if (kAsIs) *rows = scale;
    if (kTransposed) *columns = scale;
  } else {
    const i64 row_count = kAsIs ? p.rows : 0, column = i - row_count;
    if (i < row_count) rows[i] = scale_at(rows + i);
    if constexpr (kTransposed && kSegments<Any>) {
      if (column < 0 || column >= source.segments() * p.cols) return;
      const i64 segment = column / p.cols;
      columns[segment * p.scale_t_stride + (column - segment * p.cols)] = scale_at(source.largest + column);
    } else if (kTransposed && column >= 0 && column < p.cols) {
      columns[column] = scale_at(columns + column);
    }
  }
}

}  // namespace
}  // namespace ridge::cuda
