// Coded copies on a processor. Panels of 32 rows (128 where a scale spans them) are made in fp32 and stay in cache for
// both passes over them: the largest magnitude, then the codes. The transposed copy makes panels of columns the same
// way and transposes them in the cache, so both copies are one rounding from the elements. Scales of a whole tensor
// need a pass of their own, one for both copies, unless their largest magnitude is given.
#pragma once

#include <cstdint>
#include <span>

#include "ops/coding/coding.h"
#include "ridge/stream.h"

namespace ridge::ops::coding {

// The matrix that is coded, in fp32; asked by several threads at once.
class PanelSource {
 public:
  PanelSource() = default;
  PanelSource(const PanelSource&) = delete;
  PanelSource& operator=(const PanelSource&) = delete;
  virtual ~PanelSource() = default;
  // Elements first .. first + count of a row.
  virtual void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const = 0;
  // Where a row lies, if it does in fp32, the next one `stride` behind it; null: read() has to make it.
  [[nodiscard]] virtual const float* in_place(std::int64_t) const { return nullptr; }
  [[nodiscard]] virtual std::int64_t stride() const { return 0; }
};

// All outputs of a call. Results do not depend on the number of threads.
Status write_copies(const Problem& problem, std::span<const TensorView> operands, const Coding& coding,
                    const PanelSource& source, const Stream& stream);

}  // namespace ridge::ops::coding
