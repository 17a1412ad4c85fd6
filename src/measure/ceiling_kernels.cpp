#include "measure/ceiling_kernels.h"

#include <cmath>

#include "base/environment.h"
#include "device/cpu/matrix_unit.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define RIDGE_X86 1
#endif

namespace ridge::measure {
namespace {

// Latency 4 times two units needs 8 independent chains; 12 leave slack and fit 16 registers.
constexpr int kChains = 12;

// Portable: chains of scalar fused multiply-adds.
template <class T>
double fma_scalar(std::int64_t steps) {
  T chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = static_cast<T>(i);
  const T x = static_cast<T>(0.999), y = static_cast<T>(1e-3);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < kChains; ++i) chain[i] = std::fma(chain[i], x, y);
  }
  double sum = 0;
  for (const T value : chain) sum += static_cast<double>(value);
  return sum;
}

#ifdef RIDGE_X86
__attribute__((target("avx512f"))) double fma_f32_zmm(std::int64_t steps) {
  __m512 chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm512_fmadd_ps(chain[i], x, y);
  }
  __m512 sum = chain[0];
  for (int i = 1; i < kChains; ++i) sum = _mm512_add_ps(sum, chain[i]);
  alignas(64) float out[16];
  _mm512_store_ps(out, sum);
  return static_cast<double>(out[0] + out[15]);
}

__attribute__((target("avx512f"))) double fma_f64_zmm(std::int64_t steps) {
  __m512d chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = _mm512_set1_pd(i);
  const __m512d x = _mm512_set1_pd(0.999), y = _mm512_set1_pd(1e-3);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm512_fmadd_pd(chain[i], x, y);
  }
  __m512d sum = chain[0];
  for (int i = 1; i < kChains; ++i) sum = _mm512_add_pd(sum, chain[i]);
  alignas(64) double out[8];
  _mm512_store_pd(out, sum);
  return out[0] + out[7];
}

__attribute__((target("avx2,fma"))) double fma_f32_ymm(std::int64_t steps) {
  __m256 chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm256_fmadd_ps(chain[i], x, y);
  }
  __m256 sum = chain[0];
  for (int i = 1; i < kChains; ++i) sum = _mm256_add_ps(sum, chain[i]);
  alignas(32) float out[8];
  _mm256_store_ps(out, sum);
  return static_cast<double>(out[0] + out[7]);
}

__attribute__((target("avx2,fma"))) double fma_f64_ymm(std::int64_t steps) {
  __m256d chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = _mm256_set1_pd(i);
  const __m256d x = _mm256_set1_pd(0.999), y = _mm256_set1_pd(1e-3);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm256_fmadd_pd(chain[i], x, y);
  }
  __m256d sum = chain[0];
  for (int i = 1; i < kChains; ++i) sum = _mm256_add_pd(sum, chain[i]);
  alignas(32) double out[4];
  _mm256_store_pd(out, sum);
  return out[0] + out[3];
}

__attribute__((target("avx512f,avx512bf16"))) double dot_bf16_zmm(std::int64_t steps) {
  __m512 chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1e-3f), _mm512_set1_ps(1e-3f));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm512_dpbf16_ps(chain[i], x, x);
  }
  __m512 sum = chain[0];
  for (int i = 1; i < kChains; ++i) sum = _mm512_add_ps(sum, chain[i]);
  alignas(64) float out[16];
  _mm512_store_ps(out, sum);
  return static_cast<double>(out[0] + out[15]);
}

// Two tiles of each operand in registers, four of sums.
__attribute__((target("avx512f,amx-tile,amx-bf16"))) double dot_bf16_tiles(std::int64_t steps) {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  alignas(64) float sums[256] = {};
  __asm__ volatile("ldtilecfg %0" : : "m"(config));  // the intrinsic of GCC 12 reads 8 bytes of the 64
  for (std::int64_t step = 0; step < steps; ++step) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, 64);
  _tile_release();
  return static_cast<double>(sums[0]);
}

__attribute__((target("avx512f"))) double read_zmm(const double* x, std::size_t count) {
  __m512d sum[4] = {_mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd()};
  for (std::size_t i = 0; i < count; i += 32) {
    for (std::size_t j = 0; j < 4; ++j) sum[j] = _mm512_add_pd(sum[j], _mm512_load_pd(x + i + 8 * j));
  }
  alignas(64) double out[8];
  _mm512_store_pd(out, _mm512_add_pd(_mm512_add_pd(sum[0], sum[1]), _mm512_add_pd(sum[2], sum[3])));
  return out[0] + out[7];
}

template <Stores kStores>
__attribute__((target("avx512f"))) void store_zmm(double* to, __m512d value) {
  if constexpr (kStores == Stores::kPastCaches)
    _mm512_stream_pd(to, value);
  else
    _mm512_store_pd(to, value);
}
template <Stores kStores>
__attribute__((target("avx512f"))) void write_zmm(double* y, std::size_t count) {
  const __m512d value = _mm512_set1_pd(3.0);
  for (std::size_t i = 0; i < count; i += 8) store_zmm<kStores>(y + i, value);
  _mm_sfence();
}
template <Stores kStores>
__attribute__((target("avx512f"))) void copy_zmm(const double* x, double* y, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 8) store_zmm<kStores>(y + i, _mm512_load_pd(x + i));
  _mm_sfence();
}
template <Stores kStores>
__attribute__((target("avx512f"))) void triad_zmm(const double* x, const double* z, double* y, std::size_t count) {
  const __m512d scale = _mm512_set1_pd(3.0);
  for (std::size_t i = 0; i < count; i += 8)
    store_zmm<kStores>(y + i, _mm512_fmadd_pd(scale, _mm512_load_pd(z + i), _mm512_load_pd(x + i)));
  _mm_sfence();
}

bool has_avx512() {
  return instruction_set_limit() >= InstructionSet::kAvx512 && __builtin_cpu_supports("avx512f") != 0;
}
bool has_avx2() {
  return instruction_set_limit() >= InstructionSet::kAvx2 && __builtin_cpu_supports("avx2") != 0 &&
         __builtin_cpu_supports("fma") != 0;
}
#endif

}  // namespace

ArithmeticKernel best_fma_f32() {
#ifdef RIDGE_X86
  if (has_avx512()) return {fma_f32_zmm, 2.0 * 16 * kChains, "avx512f fma, 12 chains"};
  if (has_avx2()) return {fma_f32_ymm, 2.0 * 8 * kChains, "avx2 fma, 12 chains"};
#endif
  return {fma_scalar<float>, 2.0 * kChains, "scalar fma, 12 chains"};
}

ArithmeticKernel best_fma_f64() {
#ifdef RIDGE_X86
  if (has_avx512()) return {fma_f64_zmm, 2.0 * 8 * kChains, "avx512f fma, 12 chains"};
  if (has_avx2()) return {fma_f64_ymm, 2.0 * 4 * kChains, "avx2 fma, 12 chains"};
#endif
  return {fma_scalar<double>, 2.0 * kChains, "scalar fma, 12 chains"};
}

ArithmeticKernel best_dot_bf16() {
#ifdef RIDGE_X86
  if (has_avx512() && __builtin_cpu_supports("avx512bf16") != 0) {
    return {dot_bf16_zmm, 2.0 * 32 * kChains, "avx512_bf16 dot product, 12 chains"};
  }
#endif
  return {};
}

ArithmeticKernel best_tiles_bf16() {
#ifdef RIDGE_X86
  if (device::cpu::matrix_unit_missing().empty())
    return {dot_bf16_tiles, 4 * 2.0 * 16 * 16 * 32, "AMX, 4 tiles of sums"};
#endif
  return {};
}

double stream_read(const double* x, std::size_t count) {
#ifdef RIDGE_X86
  if (has_avx512()) return read_zmm(x, count);
#endif
  double sum[8] = {};
  for (std::size_t i = 0; i < count; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) sum[j] += x[i + j];
  }
  double total = 0;
  for (const double part : sum) total += part;
  return total;
}

void stream_write(double* y, std::size_t count, Stores stores) {
#ifdef RIDGE_X86
  if (has_avx512()) {
    return stores == Stores::kPastCaches ? write_zmm<Stores::kPastCaches>(y, count)
                                         : write_zmm<Stores::kIntoCaches>(y, count);
  }
#endif
  (void)stores;
  for (std::size_t i = 0; i < count; ++i) y[i] = 3.0;
}

void stream_copy(const double* x, double* y, std::size_t count, Stores stores) {
#ifdef RIDGE_X86
  if (has_avx512()) {
    return stores == Stores::kPastCaches ? copy_zmm<Stores::kPastCaches>(x, y, count)
                                         : copy_zmm<Stores::kIntoCaches>(x, y, count);
  }
#endif
  (void)stores;
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i];
}

void stream_triad(const double* x, const double* z, double* y, std::size_t count, Stores stores) {
#ifdef RIDGE_X86
  if (has_avx512()) {
    return stores == Stores::kPastCaches ? triad_zmm<Stores::kPastCaches>(x, z, y, count)
                                         : triad_zmm<Stores::kIntoCaches>(x, z, y, count);
  }
#endif
  (void)stores;
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] + 3.0 * z[i];
}

}  // namespace ridge::measure
