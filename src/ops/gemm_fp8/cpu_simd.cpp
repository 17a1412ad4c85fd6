// Operands become fp32 and go through the register tiles of gemm's cpu_simd: scales along k are multiplied into the
// operands, others into the product. Where the scales are left for the product and the processor is faster at bf16
// (AMX, or dot products at full rate), they become bf16, which holds every code exactly, and go through gemm's cpu_amx
// or cpu_bf16dot. No processor before AMX-FP8 multiplies 8-bit floats; what it costs over gemm is the look-up of every
// code, once.
#include <algorithm>
#include <memory>
#include <new>

#include "base/error.h"
#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/coded_rows.h"
#include "ops/gemm_fp8/gemm_fp8.h"
#include "ops/matmul/amx/driver.h"
#include "ops/matmul/processor_product.h"

namespace ridge::ops::gemm_fp8 {
namespace {

constexpr std::int64_t kBandFloats = std::int64_t{8} << 20;  // of a band of A and C together
constexpr std::int64_t kPart = 512;                          // elements on the stack between two conversions

bool scaled_along_k(Fp8Scaling scaling) { return scaling != Fp8Scaling::kTensor && scaling != Fp8Scaling::kRow; }

// Runs body(row) for every row, dealt to the threads in turn.
template <class Body>
void each_row(std::int64_t rows, int threads, Body&& body) {
  const int count = static_cast<int>(std::clamp<std::int64_t>(rows, 1, threads));
  device::cpu::thread_pool().run(count, [&](int thread) {
    for (std::int64_t row = thread; row < rows; row += count) body(row);
  });
}

float scale_of_row(const TensorView& scale, Fp8Scaling scaling, std::int64_t row) {
  return static_cast<const float*>(scale.data)[scaling == Fp8Scaling::kRow ? row : 0];
}

// One row of sums, scaled where that is left to do, with the bias or C's where asked for, and rounded once.
void finish_row(const Shape& s, std::span<const TensorView> operands, std::int64_t row, const float* sums) {
  const TensorView& c = operands[s.c_at()];
  const bool scaled = !scaled_along_k(s.scaling);
  const float of_row = scaled ? scale_of_row(operands[kScaleA], s.scaling, row) : 1.0f;
  const bool adds = s.accumulate || s.bias;
  float part[kPart], old[kPart];
  for (std::int64_t first = 0; first < s.n; first += kPart) {
    const std::int64_t count = std::min(kPart, s.n - first);
    auto* const out = static_cast<unsigned char*>(c.data) + size_bytes(c.dtype, row * c.stride[0] + first);
    for (std::int64_t j = 0; j < count; ++j) {
      part[j] =
          scaled ? sums[first + j] * (of_row * scale_of_row(operands[kScaleB], s.scaling, first + j)) : sums[first + j];
    }
    if (adds) {
      const auto* const bias = s.bias ? static_cast<const unsigned char*>(operands[s.bias_at()].data) : nullptr;
      numerics::to_float(c.dtype, s.bias ? bias + size_bytes(c.dtype, first) : out, old, count);
      for (std::int64_t j = 0; j < count; ++j) part[j] += old[j];
    }
    numerics::from_float(c.dtype, part, out, count);
  }
}

struct Buffers {
  DType dtype = DType::kF32;  // of A and B
  std::unique_ptr<unsigned char[]> a, b;
  std::unique_ptr<float[]> c;
  std::int64_t band = 0;  // rows of A at a time

  static Buffers allocate(const Shape& s, DType dtype) {
    Buffers buffers;
    buffers.dtype = dtype;
    buffers.band = std::clamp<std::int64_t>(kBandFloats / std::max<std::int64_t>(s.k + s.n, 1), 64, 4096);
    buffers.band = std::min(buffers.band, std::max<std::int64_t>(s.m, 1));
    const auto operand = [&](std::int64_t count) {
      return std::unique_ptr<unsigned char[]>(new (std::nothrow) unsigned char[size_bytes(dtype, count) + 1]);
    };
    buffers.a = operand(buffers.band * s.k);
    buffers.b = operand(s.n * s.k);
    buffers.c.reset(new (std::nothrow) float[static_cast<std::size_t>(buffers.band * s.n) + 1]);
    return buffers;
  }
  [[nodiscard]] bool complete() const { return a != nullptr && b != nullptr && c != nullptr; }
};

// Row `row` of op(X) along k to row `to` of a buffer: as bf16, or as f32 with its scales where `scale` has a rank.
void unpack_row(const Shape& s, const TensorView& codes, bool transposed, const TensorView& scale,
                Granularity granularity, std::int64_t row, unsigned char* buffer, DType dtype, std::int64_t to) {
  unsigned char* const out = buffer + size_bytes(dtype, to * s.k);
  if (dtype == DType::kBf16) {
    row_as_bf16(codes, transposed, row, s.k, reinterpret_cast<std::uint16_t*>(out));
  } else {
    scaled_row(codes, transposed, scale, granularity, row, 0, s.k, reinterpret_cast<float*>(out));
  }
}

// Product of a band of A with all of B.
bool multiply(const Shape& s, std::int64_t rows, const Buffers& buffers, int threads) {
  matmul::simd::Arguments g;
  g.m = rows;
  g.n = s.n;
  g.k = s.k;
  g.dtype = buffers.dtype;
  g.a = buffers.a.get();
  g.a_stride = s.k;
  g.b = buffers.b.get();
  g.b_stride = s.k;
  g.trans_b = true;
  g.c = buffers.c.get();
  g.c_stride = s.n;
  return matmul::multiply(g, threads);
}

Error no_memory(const Problem& problem) {
  return with_hint(make_error(ErrorCode::kIo, "{}: no memory for the unpacked operands", problem.problem_case.text()),
                   "use a smaller problem");
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_scales(problem, operands));
  if (s.m == 0 || s.n == 0) return ok_status();
  const Granularities g = granularities(s.scaling);
  const int threads = std::max(stream.threads, 1);
  const bool now = scaled_along_k(s.scaling);
  const DType dtype = !now && matmul::multiplies_bf16() ? DType::kBf16 : DType::kF32;
  const Buffers buffers = Buffers::allocate(s, dtype);
  if (!buffers.complete()) return no_memory(problem);
  const TensorView none;
  each_row(s.n, threads, [&](std::int64_t j) {
    unpack_row(s, operands[kB], !s.trans_b, now ? operands[kScaleB] : none, g.b, j, buffers.b.get(), dtype, j);
  });
  for (std::int64_t first = 0; first < s.m; first += buffers.band) {
    const std::int64_t rows = std::min(buffers.band, s.m - first);
    each_row(rows, threads, [&](std::int64_t i) {
      unpack_row(s, operands[kA], s.trans_a, now ? operands[kScaleA] : none, g.a, first + i, buffers.a.get(), dtype, i);
    });
    if (!multiply(s, rows, buffers, threads)) return no_memory(problem);
    each_row(rows, threads, [&](std::int64_t i) { finish_row(s, operands, first + i, buffers.c.get() + i * s.n); });
  }
  return ok_status();
}

}  // namespace

Implementation cpu_simd() {
  Implementation own;
  own.name = "cpu_simd";
  own.summary = fmt::format("unpacked operands through gemm's own kernels, {}{} on this machine",
                            matmul::simd::best_kernels().name,
                            matmul::amx::unusable().empty()        ? " and AMX"
                            : matmul::simd::bf16dot_at_full_rate() ? " and bf16 dot products"
                                                                   : "");
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::gemm_fp8
