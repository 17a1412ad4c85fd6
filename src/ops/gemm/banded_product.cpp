#include "ops/gemm/banded_product.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

#include "base/error.h"
#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/gemm/gemm.h"
#include "ops/matmul/processor_product.h"

namespace ridge::ops::gemm {
namespace {

matmul::simd::Arguments arguments(const Shape& s, std::span<const TensorView> operands) {
  return matmul::arguments_of(operands[0], s.trans_a, operands[1], s.trans_b, operands[s.c_at()], s.accumulate);
}

Error no_memory(const Problem& problem) {
  return with_hint(make_error(ErrorCode::kIo, "{}: no memory for packing", problem.problem_case.text()),
                   "use a smaller problem or fewer threads");
}

float activate(float x, Activation activation) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kGelu: return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f));
    case Activation::kGeluTanh: {
      const float inner = 0.79788456080286536f * (x + 0.044715f * x * x * x);
      return 0.5f * x * (1.0f + std::tanh(inner));
    }
    case Activation::kSilu: return x / (1.0f + std::exp(-x));
  }
  return x;
}

// One row of fp32 sums, which may be that of an f32 C: bias, activation and residual in fp32, one rounding to C.
void finish_row(const Shape& s, std::span<const TensorView> operands, std::int64_t row, const float* sums) {
  constexpr std::int64_t kPart = 512;  // elements on the stack between two conversions
  const TensorView& c = operands[s.c_at()];
  float part[kPart], extra[kPart];
  for (std::int64_t first = 0; first < s.n; first += kPart) {
    const std::int64_t count = std::min(kPart, s.n - first);
    const auto at = [&](const TensorView& view, std::int64_t offset) {
      return static_cast<unsigned char*>(view.data) + size_bytes(view.dtype, offset + first);
    };
    const auto widened = [&](const TensorView& view, std::int64_t offset) -> const float* {
      if (s.out == DType::kF32) return reinterpret_cast<const float*>(at(view, offset));
      numerics::to_float(s.out, at(view, offset), extra, count);
      return extra;
    };
    void* const to = at(c, row * c.stride[0]);
    float* const result = s.out == DType::kF32 ? static_cast<float*>(to) : part;
    const float* const bias = s.bias ? widened(operands[s.bias_at()], 0) : nullptr;
    for (std::int64_t j = 0; j < count; ++j) result[j] = bias != nullptr ? sums[first + j] + bias[j] : sums[first + j];
    if (s.activation != Activation::kNone) {
      for (std::int64_t j = 0; j < count; ++j) result[j] = activate(result[j], s.activation);
    }
    if (s.residual) {
      const TensorView& residual = operands[s.residual_at()];
      const float* const added = widened(residual, row * residual.stride[0]);
      for (std::int64_t j = 0; j < count; ++j) result[j] += added[j];
    }
    if (s.out != DType::kF32) numerics::from_float(s.out, part, to, count);
  }
}

// Bands of sums in fp32, finished while they are in cache: in an f32 C itself, else beside it.
Status run_with_epilogue(Multiply multiply, const Problem& problem, std::span<const TensorView> operands,
                         const Stream& stream) {
  constexpr std::int64_t kBandFloats = std::int64_t{4} << 20;
  const Shape s = shape_of(problem);
  if (s.m == 0 || s.n == 0) return ok_status();
  const std::int64_t band = std::clamp<std::int64_t>(kBandFloats / s.n, 64, std::max<std::int64_t>(s.m, 64));
  const bool in_place = s.out == DType::kF32;
  std::unique_ptr<float[]> sums;
  if (!in_place) {
    sums.reset(new (std::nothrow) float[static_cast<std::size_t>(std::min(band, s.m) * s.n)]);
    if (sums == nullptr) return no_memory(problem);
  }
  for (std::int64_t first = 0; first < s.m; first += band) {
    matmul::simd::Arguments g = arguments(s, operands);
    g.m = std::min(band, s.m - first);
    const std::int64_t skipped = s.trans_a ? first : first * g.a_stride;
    g.a = static_cast<const char*>(g.a) + size_bytes(s.dtype, skipped);
    float* const rows = in_place ? static_cast<float*>(g.c) + first * g.c_stride : sums.get();
    if (!in_place) g.c_stride = s.n;
    g.c = rows;
    g.out = DType::kF32;
    if (!multiply(g, stream.threads)) return no_memory(problem);
    const int threads = static_cast<int>(std::clamp<std::int64_t>(g.m, 1, std::max(stream.threads, 1)));
    device::cpu::thread_pool().run(threads, [&](int thread) {
      for (std::int64_t row = thread; row < g.m; row += threads) {
        finish_row(s, operands, first + row, rows + row * g.c_stride);
      }
    });
  }
  return ok_status();
}

}  // namespace

Status run_product(Multiply multiply, const Problem& problem, std::span<const TensorView> operands,
                   const Stream& stream) {
  const Shape s = shape_of(problem);
  if (s.epilogue()) return run_with_epilogue(multiply, problem, operands, stream);
  if (!multiply(arguments(s, operands), stream.threads)) return no_memory(problem);
  return ok_status();
}

}  // namespace ridge::ops::gemm
