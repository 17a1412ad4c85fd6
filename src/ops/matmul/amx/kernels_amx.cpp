#include "ops/matmul/amx/kernels.h"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__)
#include <immintrin.h>

#include "ops/matmul/simd/transpose_avx512.h"

namespace ridge::ops::matmul::amx {
namespace {

using Index = std::int64_t;

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

void begin() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = 16;
  }
  __asm__ volatile("ldtilecfg %0" : : "m"(config));  // the intrinsic of GCC 12 reads 8 bytes of the 64
}

void end() { _tile_release(); }

// Tile registers: sums in 0 to 3, A in 4 and 5, B in 6 and 7.
template <int kRows, int kCols>
void job(const Job& j) {
  constexpr Index bytes = kPair * 4;
  float *const s00 = j.sums, *const s01 = s00 + kSide;
  float *const s10 = s00 + kSide * kPair, *const s11 = s10 + kSide;
  if (j.add) {
    _tile_loadd(0, s00, bytes);
    if constexpr (kCols > 1) _tile_loadd(1, s01, bytes);
    if constexpr (kRows > 1) _tile_loadd(2, s10, bytes);
    if constexpr (kRows > 1 && kCols > 1) _tile_loadd(3, s11, bytes);
  } else {
    _tile_zero(0);
    if constexpr (kCols > 1) _tile_zero(1);
    if constexpr (kRows > 1) _tile_zero(2);
    if constexpr (kRows > 1 && kCols > 1) _tile_zero(3);
  }
  const char *a0 = static_cast<const char*>(j.a[0]), *a1 = static_cast<const char*>(j.a[1]);
  const char *b0 = static_cast<const char*>(j.b[0]), *b1 = static_cast<const char*>(j.b[1]);
  for (Index t = 0; t < j.tiles; ++t) {
    _tile_loadd(6, b0, 64);
    b0 += kTileBytes;
    if constexpr (kCols > 1) {
      _tile_loadd(7, b1, 64);
      b1 += kTileBytes;
    }
    _tile_loadd(4, a0, 64);
    a0 += kTileBytes;
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kCols > 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kRows > 1) {
      _tile_loadd(5, a1, 64);
      a1 += kTileBytes;
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kCols > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, s00, bytes);
  if constexpr (kCols > 1) _tile_stored(1, s01, bytes);
  if constexpr (kRows > 1) _tile_stored(2, s10, bytes);
  if constexpr (kRows > 1 && kCols > 1) _tile_stored(3, s11, bytes);
}

__mmask32 first(Index count) { return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1u; }

// 16 lines of a tile, of the two panels: lines of pairs along k, from rows that are stored so ...
void load_along(const std::uint16_t* src, Index stride, int width, Index k, __m512i (&line)[2][16]) {
  for (int j = 0; j < width; ++j) line[j / 16][j % 16] = _mm512_maskz_loadu_epi16(first(k), src + j * stride);
  for (int j = width; j < 32; ++j) line[j / 16][j % 16] = _mm512_setzero_si512();
}

// ... or lines of 16 columns at a pair of k each, from rows of 32 columns.
void load_across(const std::uint16_t* src, Index stride, int width, Index k, __m512i (&line)[2][16]) {
  const __m512i low = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), high = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
  const __mmask32 mask = first(width);
  const auto at = [&](Index p) {
    return p < k ? _mm512_maskz_loadu_epi16(mask, src + p * stride) : _mm512_setzero_si512();
  };
  for (Index r = 0; r < 16; ++r) {
    const __m512i even = at(2 * r), odd = at(2 * r + 1);
    const __m512i x = _mm512_unpacklo_epi16(even, odd), y = _mm512_unpackhi_epi16(even, odd);
    line[0][r] = _mm512_permutex2var_epi64(x, low, y);
    line[1][r] = _mm512_permutex2var_epi64(x, high, y);
  }
}

void turn(__m512i (&line)[16]) {
  __m512 turned[16];
  for (int i = 0; i < 16; ++i) turned[i] = _mm512_castsi512_ps(line[i]);
  simd::transpose_16(turned);
  for (int i = 0; i < 16; ++i) line[i] = _mm512_castps_si512(turned[i]);
}

// A's tiles have a row of A in a line, B's a pair of k.
template <bool kAcross, bool kOfB>
void pack(const std::uint16_t* src, Index stride, int width, Index k, char* dest, Index panel_bytes) {
  for (Index p = 0; p < k; p += kDepth, dest += kTileBytes) {
    __m512i line[2][16];
    (kAcross ? load_across : load_along)(src + (kAcross ? p * stride : p), stride, width, k - p, line);
    for (int panel = 0; panel < (width > kSide ? 2 : 1); ++panel) {
      if constexpr (kAcross != kOfB) turn(line[panel]);
      for (int i = 0; i < 16; ++i) _mm512_storeu_si512(dest + panel * panel_bytes + 64 * i, line[panel][i]);
    }
  }
}

__m512 widened(__m256i codes) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16)); }

void to_bf16(const float* sums, Index rows, Index cols, bool add, void* c, Index c_stride) {
  auto* to = static_cast<std::uint16_t*>(c);
  const __mmask32 mask = first(cols);
  for (Index i = 0; i < rows; ++i, sums += kPair, to += c_stride) {
    __m512 low = _mm512_loadu_ps(sums), high = _mm512_loadu_ps(sums + kSide);
    if (add) {
      const __m512i old = _mm512_maskz_loadu_epi16(mask, to);
      low = _mm512_add_ps(low, widened(_mm512_castsi512_si256(old)));
      high = _mm512_add_ps(high, widened(_mm512_extracti64x4_epi64(old, 1)));
    }
    // To nearest, ties to even; subnormal numbers become zero, as they do in the tiles.
    _mm512_mask_storeu_epi16(to, mask, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
}

void to_f32(const float* sums, Index rows, Index cols, bool add, void* c, Index c_stride) {
  auto* to = static_cast<float*>(c);
  const __mmask32 mask = first(cols);
  const auto part = [&](Index at, __mmask16 some) {
    const __m512 x = _mm512_loadu_ps(sums + at);
    _mm512_mask_storeu_ps(to + at, some, add ? _mm512_add_ps(x, _mm512_maskz_loadu_ps(some, to + at)) : x);
  };
  for (Index i = 0; i < rows; ++i, sums += kPair, to += c_stride) {
    part(0, static_cast<__mmask16>(mask));
    part(kSide, static_cast<__mmask16>(mask >> 16));
  }
}

}  // namespace

const Kernels* amx_kernels() {
  static constexpr Kernels kKernels = {begin,
                                       end,
                                       {{job<1, 1>, job<1, 2>}, {job<2, 1>, job<2, 2>}},
                                       pack<false, false>,
                                       pack<true, false>,
                                       pack<false, true>,
                                       pack<true, true>,
                                       to_bf16,
                                       to_f32};
  return &kKernels;
}

}  // namespace ridge::ops::matmul::amx
#else
namespace ridge::ops::matmul::amx {
const Kernels* amx_kernels() { return nullptr; }
}  // namespace ridge::ops::matmul::amx
#endif
