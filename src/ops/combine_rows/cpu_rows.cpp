// Every row of y in pieces of 1024 numbers that stay in the first-level cache: sources are converted to fp32 and added
// up there, one after the other. Every thread takes a run of rows. One source without a weight is copied. Bound by
// memory from rows of a few hundred bytes up.
#include <algorithm>
#include <cstring>

#include "device/cpu/thread_pool.h"
#include "ops/combine_rows/combine_rows.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::combine_rows {
namespace {

constexpr std::int64_t kPiece = 1024;

struct Operands {
  TensorView x, from, weights, y;
};

void copy_row(const Shape& s, const Operands& o, std::int64_t row) {
  const std::int64_t source = source_at(o.from, row, 0);
  const std::size_t bytes = size_bytes(s.dtype, s.cols);
  auto* const to = static_cast<unsigned char*>(o.y.data) + size_bytes(s.dtype, row * o.y.stride[0]);
  if (source < 0) return void(std::memset(to, 0, bytes));
  std::memcpy(to, static_cast<const unsigned char*>(o.x.data) + size_bytes(s.dtype, source * o.x.stride[0]), bytes);
}

// Columns first .. first + count of a row of y, in fp32.
void add_up(const Shape& s, const Operands& o, std::int64_t row, std::int64_t first, std::int64_t count, float* sum) {
  alignas(64) float memory[kPiece];
  const float* const weights =
      s.weights ? static_cast<const float*>(o.weights.data) + row * o.weights.stride[0] : nullptr;
  bool any = false;
  for (std::int64_t k = 0; k < s.top; ++k) {
    const std::int64_t source = source_at(o.from, row, k);
    if (source < 0) continue;
    const float* const x = RowOfMatrix(o.x, source).read(first, count, memory);
    const float weight = s.weights ? weights[k] : 1;
    if (any) {
      for (std::int64_t j = 0; j < count; ++j) sum[j] += weight * x[j];
    } else {
      for (std::int64_t j = 0; j < count; ++j) sum[j] = weight * x[j];
    }
    any = true;
  }
  if (!any) std::fill_n(sum, count, 0.0F);
}

void write_row(const Shape& s, const Operands& o, std::int64_t row) {
  if (s.top == 1 && !s.weights) return copy_row(s, o, row);
  const RowOfMatrix y(o.y, row);
  alignas(64) float memory[kPiece];
  for (std::int64_t first = 0; first < s.cols; first += kPiece) {
    const std::int64_t count = std::min(kPiece, s.cols - first);
    float* const target = y.target(first, memory);
    add_up(s, o, row, first, count, target);
    y.write(first, count, target);
  }
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const Operands o{named("x"), named("from"), named("weights"), named("y")};
  RIDGE_CHECK_OK(check_sources("combine_rows", s, o.from));
  const int threads = static_cast<int>(std::clamp<std::int64_t>(s.rows, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = s.rows * (thread + 1) / threads;
    for (std::int64_t row = s.rows * thread / threads; row < last; ++row) write_row(s, o, row);
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "sources added up in cache, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::combine_rows
