// Rows in pieces of 1024 numbers that stay in the first-level cache between the conversions to and from fp32. Every
// thread takes a run of rows. Bound by memory.
#include <algorithm>

#include "device/cpu/thread_pool.h"
#include "ops/arguments.h"
#include "ops/rescale/rescale.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::rescale {
namespace {

constexpr std::int64_t kPiece = 1024;

void rescale_row(const RowOfMatrix& row, std::int64_t cols, float factor) {
  alignas(64) float memory[kPiece];
  for (std::int64_t first = 0; first < cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, cols - first);
    const float* const from = row.read(first, count, memory);
    float* const to = row.target(first, memory);
    for (std::int64_t j = 0; j < count; ++j) to[j] = from[j] * factor;
    row.write(first, count, to);
  }
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const auto* const factors = static_cast<const float*>(arguments[0].data);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(s.rows, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = s.rows * (thread + 1) / threads;
    for (std::int64_t row = s.rows * thread / threads; row < last; ++row) {
      const float factor = factors[s.per_row ? row : 0];
      if (factor != 1) rescale_row(RowOfMatrix(arguments[1], row), s.cols, factor);
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "rows in pieces that stay in cache";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::rescale
