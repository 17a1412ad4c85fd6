// Bands of rows of C, each from the diagonal to the right, through the register tiles of gemm: the sums of a band are
// fp32 beside C, and are scaled, rounded and stored while they are in cache; then the band is copied to the columns
// below the diagonal. A band of h rows computes h^2 / 2 products more than its half, so large matrices come to half of
// gemm's time, and matrices of one band to all of it.
#include <algorithm>

#include "base/error.h"
#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/matmul/processor_product.h"
#include "ops/symmetric_product/symmetric_product.h"

namespace ridge::ops::symmetric_product {
namespace {

constexpr std::int64_t kUnit = 64;  // rows of a band are a multiple of this

std::int64_t band_rows(std::int64_t n) {
  return std::min(n, std::clamp<std::int64_t>(n / 8 / kUnit * kUnit, kUnit, 8 * kUnit));
}

std::size_t workspace_bytes(const Problem& problem, const Stream&) {
  const Shape s = shape_of(problem);
  return static_cast<std::size_t>(band_rows(s.n) * s.n) * sizeof(float);
}

void* element(const TensorView& matrix, std::int64_t row, std::int64_t column) {
  return static_cast<char*>(matrix.data) + size_bytes(matrix.dtype, row * matrix.stride[0] + column);
}

// One matrix of the batch.
struct Matrices {
  Shape shape;
  Factors factors;
  TensorView a, residual, c;
  int threads = 1;

  // fp32 sums of rows first .. first + count and the columns from `first` on, n - first of them in a row.
  [[nodiscard]] bool multiply(std::int64_t first, std::int64_t count, float* sums) const {
    matmul::simd::Arguments g;
    g.m = count;
    g.n = shape.n - first;
    g.k = shape.k;
    g.dtype = shape.dtype;
    g.out = DType::kF32;
    g.a = g.b = shape.k == 0 ? a.data : shape.trans_a ? element(a, 0, first) : element(a, first, 0);
    g.a_stride = g.b_stride = a.stride[0];
    g.trans_a = shape.trans_a;
    g.trans_b = !shape.trans_a;
    g.c = sums;
    g.c_stride = g.n;
    return matmul::multiply(g, threads);
  }

  // The part of a row from the diagonal on.
  void finish_row(std::int64_t row, const float* sums) const {
    constexpr std::int64_t kPart = 512;  // elements on the stack between two conversions
    float part[kPart], added[kPart];
    for (std::int64_t column = row; column < shape.n; column += kPart) {
      const std::int64_t count = std::min(kPart, shape.n - column);
      for (std::int64_t j = 0; j < count; ++j) part[j] = factors.alpha * sums[column - row + j];
      if (shape.residual) {
        numerics::to_float(shape.out, element(residual, row, column), added, count);
        for (std::int64_t j = 0; j < count; ++j) part[j] += factors.beta * added[j];
      }
      if (column == row) part[0] += factors.shift;
      numerics::from_float(shape.out, part, element(c, row, column), count);
    }
  }

  // What lies right of the diagonal in rows first .. first + count, to columns first .. below it; of the rows that it
  // is copied to, those from `begin` to `end`.
  template <class Bits>
  void mirror(std::int64_t first, std::int64_t count, std::int64_t begin, std::int64_t end) const {
    Bits* const data = static_cast<Bits*>(c.data);
    const std::int64_t pitch = c.stride[0];
    for (std::int64_t i = first; i < first + count; ++i) {
      for (std::int64_t j = std::max(begin, i + 1); j < end; ++j) data[j * pitch + i] = data[i * pitch + j];
    }
  }

  void finish_band(std::int64_t first, std::int64_t count, const float* sums) const {
    const std::int64_t width = shape.n - first;
    const int parts = static_cast<int>(std::clamp<std::int64_t>(count, 1, std::max(threads, 1)));
    device::cpu::thread_pool().run(parts, [&](int thread) {
      for (std::int64_t i = thread; i < count; i += parts) finish_row(first + i, sums + i * width + i);
    });
    constexpr std::int64_t kBlock = 32;  // rows that are written at a time, one cache line of each
    device::cpu::thread_pool().run(parts, [&](int thread) {
      for (std::int64_t begin = first + thread * kBlock; begin < shape.n; begin += parts * kBlock) {
        const std::int64_t end = std::min(begin + kBlock, shape.n);
        if (shape.out == DType::kF32) {
          mirror<std::uint32_t>(first, count, begin, end);
        } else {
          mirror<std::uint16_t>(first, count, begin, end);
        }
      }
    });
  }
};

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  if (s.n == 0) return ok_status();
  auto* const sums = reinterpret_cast<float*>(arguments.workspace.data());
  for (std::int64_t index = 0; index < s.batch; ++index) {
    Matrices one{s,  factors_of(problem, arguments),        matrix_of(arguments[0], index),
                 {}, matrix_of(arguments[s.c_at()], index), stream.threads};
    if (s.residual) one.residual = matrix_of(arguments[s.residual_at()], index);
    for (std::int64_t first = 0; first < s.n; first += band_rows(s.n)) {
      const std::int64_t count = std::min(band_rows(s.n), s.n - first);
      if (!one.multiply(first, count, sums)) {
        return with_hint(make_error(ErrorCode::kIo, "{}: no memory for packing", problem.problem_case.text()),
                         "use a smaller problem or fewer threads");
      }
      one.finish_band(first, count, sums);
    }
  }
  return ok_status();
}

}  // namespace

Implementation cpu_bands() {
  Implementation own;
  own.name = "cpu_bands";
  own.summary = "bands of rows from the diagonal on, through gemm's own kernels for this processor";
  own.rank = 0;
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  own.workspace_bytes = workspace_bytes;
  return own;
}

}  // namespace ridge::ops::symmetric_product
