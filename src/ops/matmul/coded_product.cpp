// Operands become fp32 and go through the register tiles of gemm's cpu_simd: scales along k are multiplied into the
// operands, others into the product. Where the scales are left for the product and the processor is faster at bf16
// (AMX, or dot products at full rate), they become bf16, which holds every code exactly, and go through gemm's cpu_amx
// or cpu_bf16dot. No processor before AMX-FP8 multiplies 8-bit floats; what it costs over gemm is the look-up of every
// code, once.
#include "ops/matmul/coded_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>

#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/coded_rows.h"
#include "ops/matmul/amx/driver.h"
#include "ops/matmul/processor_product.h"

namespace ridge::ops::matmul {
namespace {

constexpr std::int64_t kBandFloats = std::int64_t{8} << 20;  // of a band of A and C together
constexpr std::int64_t kPart = 512;                          // elements on the stack between two conversions

bool scaled_along_k(const CodedProduct& p) {
  return p.granularities.a != Granularity::kTensor && p.granularities.a != Granularity::kRow;
}

// Runs body(row) for every row, dealt to the threads in turn.
template <class Body>
void each_row(std::int64_t rows, int threads, Body&& body) {
  const int count = static_cast<int>(std::clamp<std::int64_t>(rows, 1, threads));
  device::cpu::thread_pool().run(count, [&](int thread) {
    for (std::int64_t row = thread; row < rows; row += count) body(row);
  });
}

float scale_of_row(const TensorView& scale, Granularity granularity, std::int64_t row) {
  return static_cast<const float*>(scale.data)[granularity == Granularity::kRow ? row : 0];
}

// One row of sums, scaled where that is left to do, with the bias or C's where asked for, and rounded once.
void finish_row(const CodedProduct& p, std::int64_t row, const float* sums) {
  const bool scaled = !scaled_along_k(p), adds_bias = p.bias.rank != 0;
  const float of_row = scaled ? scale_of_row(p.scale_a, p.granularities.a, row) : 1.0f;
  const bool adds = p.accumulate || adds_bias;
  float part[kPart], old[kPart];
  for (std::int64_t first = 0; first < p.n; first += kPart) {
    const std::int64_t count = std::min(kPart, p.n - first);
    auto* const out = static_cast<unsigned char*>(p.c.data) + size_bytes(p.c.dtype, row * p.c.stride[0] + first);
    for (std::int64_t j = 0; j < count; ++j) {
      part[j] =
          scaled ? sums[first + j] * (of_row * scale_of_row(p.scale_b, p.granularities.b, first + j)) : sums[first + j];
    }
    if (adds) {
      const auto* const bias = static_cast<const unsigned char*>(p.bias.data);
      numerics::to_float(p.c.dtype, adds_bias ? bias + size_bytes(p.c.dtype, first) : out, old, count);
      for (std::int64_t j = 0; j < count; ++j) part[j] += old[j];
    }
    numerics::from_float(p.c.dtype, part, out, count);
  }
}

struct Buffers {
  DType dtype = DType::kF32;  // of A and B
  std::unique_ptr<unsigned char[]> a, b;
  std::unique_ptr<float[]> c;
  std::int64_t band = 0;  // rows of A at a time

  static Buffers allocate(const CodedProduct& p, DType dtype) {
    Buffers buffers;
    buffers.dtype = dtype;
    buffers.band = std::clamp<std::int64_t>(kBandFloats / std::max<std::int64_t>(p.k + p.n, 1), 64, 4096);
    buffers.band = std::min(buffers.band, std::max<std::int64_t>(p.m, 1));
    const auto operand = [&](std::int64_t count) {
      return std::unique_ptr<unsigned char[]>(new (std::nothrow) unsigned char[size_bytes(dtype, count) + 1]);
    };
    buffers.a = operand(buffers.band * p.k);
    buffers.b = operand(p.n * p.k);
    buffers.c.reset(new (std::nothrow) float[static_cast<std::size_t>(buffers.band * p.n) + 1]);
    return buffers;
  }
  [[nodiscard]] bool complete() const { return a != nullptr && b != nullptr && c != nullptr; }
};

// Row `row` of op(X) along k to row `to` of a buffer: as bf16, or as f32 with its scales where `scale` has a rank.
void unpack_row(const CodedProduct& p, const TensorView& codes, bool transposed, const TensorView& scale,
                Granularity granularity, std::int64_t row, unsigned char* buffer, DType dtype, std::int64_t to) {
  unsigned char* const out = buffer + size_bytes(dtype, to * p.k);
  if (dtype == DType::kBf16) {
    row_as_bf16(codes, transposed, row, p.k, reinterpret_cast<std::uint16_t*>(out));
  } else {
    scaled_row(codes, transposed, scale, granularity, row, 0, p.k, reinterpret_cast<float*>(out));
  }
}

// Product of a band of A with all of B.
bool multiply_band(const CodedProduct& p, std::int64_t rows, const Buffers& buffers, int threads) {
  simd::Arguments g;
  g.m = rows;
  g.n = p.n;
  g.k = p.k;
  g.dtype = buffers.dtype;
  g.a = buffers.a.get();
  g.a_stride = p.k;
  g.b = buffers.b.get();
  g.b_stride = p.k;
  g.trans_b = true;
  g.c = buffers.c.get();
  g.c_stride = p.n;
  return multiply(g, threads);
}

}  // namespace

bool multiply(const CodedProduct& p, int threads) {
  if (p.m == 0 || p.n == 0) return true;
  threads = std::max(threads, 1);
  const bool now = scaled_along_k(p);
  const DType dtype = !now && multiplies_bf16() ? DType::kBf16 : DType::kF32;
  const Buffers buffers = Buffers::allocate(p, dtype);
  if (!buffers.complete()) return false;
  const TensorView none;
  each_row(p.n, threads, [&](std::int64_t j) {
    unpack_row(p, p.b, !p.trans_b, now ? p.scale_b : none, p.granularities.b, j, buffers.b.get(), dtype, j);
  });
  for (std::int64_t first = 0; first < p.m; first += buffers.band) {
    const std::int64_t rows = std::min(buffers.band, p.m - first);
    each_row(rows, threads, [&](std::int64_t i) {
      unpack_row(p, p.a, p.trans_a, now ? p.scale_a : none, p.granularities.a, first + i, buffers.a.get(), dtype, i);
    });
    if (!multiply_band(p, rows, buffers, threads)) return false;
    each_row(rows, threads, [&](std::int64_t i) { finish_row(p, first + i, buffers.c.get() + i * p.n); });
  }
  return true;
}

std::string unit_of_coded_products() {
  return fmt::format("{}{}", simd::best_kernels().name,
                     amx::unusable().empty()        ? " and AMX"
                     : simd::bf16dot_at_full_rate() ? " and bf16 dot products"
                                                    : "");
}

}  // namespace ridge::ops::matmul
