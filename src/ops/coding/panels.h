// Coded copies on a processor. Where groups end within 128 x 128 elements, such a tile is made in fp32 once, stays in
// cache for both passes over a group (the largest magnitude, then the codes), and is transposed there for the other
// copy. Scales of rows and of a tensor take panels of 32 rows, made for each copy; those of a tensor need a pass of
// their own, one for both copies, unless their largest magnitude is given. Both copies are one rounding from the
// elements.
#pragma once

#include <cstdint>
#include <span>

#include "ops/coding/coding.h"
#include "ridge/stream.h"

namespace ridge::ops::coding {

// The matrix that is coded, in fp32; asked by several threads at once. Where groups end within 128 x 128 elements, each
// element once.
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
  // Where the segments of the rows end, as many as Coding::segments, the last one behind all rows; empty: there are
  // none.
  [[nodiscard]] virtual std::span<const std::int64_t> segment_ends() const { return {}; }
};

// All outputs of a call. Results do not depend on the number of threads.
Status write_copies(const Problem& problem, std::span<const TensorView> operands, const Coding& coding,
                    const PanelSource& source, const Stream& stream);

}  // namespace ridge::ops::coding
