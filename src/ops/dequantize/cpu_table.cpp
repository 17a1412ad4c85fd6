// Every code is looked up in a table of 256 values, multiplied by its scale and stored. Bound by the look-ups (about
// one element a cycle); wins everywhere over converting bits, because no processor before AVX10 has the conversion.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/coded_rows.h"
#include "ops/dequantize/dequantize.h"

namespace ridge::ops::dequantize {
namespace {

constexpr std::int64_t kPart = 512;  // elements on the stack between the two conversions

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  const Shape s = shape_of(problem);
  const TensorView &q = operands[0], &scale = operands[1], &y = operands[2];
  const int threads = static_cast<int>(std::clamp<std::int64_t>(stream.threads, 1, std::max<std::int64_t>(s.rows, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    float part[kPart];
    for (std::int64_t row = thread; row < s.rows; row += threads) {
      for (std::int64_t col = 0; col < s.cols; col += kPart) {
        const std::int64_t count = std::min(kPart, s.cols - col);
        scaled_row(q, false, scale, s.granularity, row, col, count, part);
        auto* const out = static_cast<unsigned char*>(y.data) + size_bytes(y.dtype, row * y.stride[0] + col);
        numerics::from_float(y.dtype, part, out, count);
      }
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_table() {
  Implementation own;
  own.name = "cpu_table";
  own.summary = "a table of 256 values, times the scale";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::dequantize
