// Every weight's gradient by itself, in pieces of 1024 columns in fp32. Every thread takes a run of rows. Bound by
// memory from rows of a few hundred bytes up.
#include <algorithm>

#include "device/cpu/thread_pool.h"
#include "ops/combine_rows/backward/backward.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::combine_rows_backward {
namespace {

constexpr std::int64_t kPiece = 1024, kLanes = 64;

// Added up side by side, so that a compiler makes vectors of it, and in pairs in the end.
float product(const Shape& s, const RowOfMatrix& a, const RowOfMatrix& b) {
  alignas(64) float of_a[kPiece], of_b[kPiece];
  Lanes sums{};
  for (std::int64_t first = 0; first < s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, s.cols - first);
    const float *const x = a.read(first, count, of_a), *const y = b.read(first, count, of_b);
    std::int64_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) sums.value[lane] += x[j + lane] * y[j + lane];
    }
    for (std::int64_t lane = 0; j + lane < count; ++lane) sums.value[lane] += x[j + lane] * y[j + lane];
  }
  return total_of(sums);
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const TensorView &x = arguments[kX], &from = arguments[kFrom], &dy = arguments[kDy];
  const TensorView& dweights = arguments[kDweights];
  RIDGE_CHECK_OK(combine_rows::check_sources("combine_rows_backward", s, from));
  const int threads = static_cast<int>(std::clamp<std::int64_t>(s.rows, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = s.rows * (thread + 1) / threads;
    for (std::int64_t row = s.rows * thread / threads; row < last; ++row) {
      float* const to = static_cast<float*>(dweights.data) + row * dweights.stride[0];
      for (std::int64_t k = 0; k < s.top; ++k) {
        const std::int64_t source = combine_rows::source_at(from, row, k);
        to[k] = source < 0 ? 0 : product(s, RowOfMatrix(dy, row), RowOfMatrix(x, source));
      }
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "a product of two rows for each weight, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::combine_rows_backward
