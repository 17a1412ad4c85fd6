// What operators share that make a product for each group of rows: on a processor, and in their references.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "ops/op.h"
#include "ops/row_groups.h"

namespace ridge::ops {

// C of such a call: along rows [rows, n], of which groups have rows of their own and the others are 0; along sums
// [groups, m, n].
struct GroupedOutput {
  TensorView c;
  std::span<const std::int64_t> offsets;
  bool along_sums = false, accumulate = false;

  [[nodiscard]] std::int64_t groups() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  // Rows of all operands that belong to a group.
  [[nodiscard]] std::int64_t rows_of(std::int64_t group) const {
    return offsets[static_cast<std::size_t>(group) + 1] - offsets[static_cast<std::size_t>(group)];
  }
  // Whether there is nothing of a group to compute: its part of C has no element, or nothing is added to it.
  [[nodiscard]] bool skips(std::int64_t group) const {
    return c.element_count() == 0 || (rows_of(group) == 0 && (!along_sums || accumulate));
  }
};

// A case names the sizes that it has: m along sums, k along rows, 256 where it says nothing. The other is 0. `how` says
// in its words which it is.
Result<record::Case> with_group_depth(record::Case requested, bool along_sums, std::string_view how);

namespace matmul {
// Zeros in every row of a matrix, and in nothing between them.
void clear_rows(const TensorView& rows);
// On a processor: `product` writes the part of a group, or says that there was no memory; `label` goes into the error.
Status multiply_groups(const GroupedOutput& out, const std::string& label,
                       const std::function<bool(std::int64_t group)>& product);
}  // namespace matmul

// Appends elements that are no sums: they are what they are, to the last bit.
void append_exact(const std::vector<double>& values, DType out, ReferenceOutput& all);
// The whole of C, from the parts of groups.
ReferenceOutput grouped_reference(const GroupedOutput& out,
                                  const std::function<ReferenceOutput(std::int64_t group)>& product);
// The worst of the checks of groups, and of the rows of none.
SpotCheck grouped_spot_check(const GroupedOutput& out, const std::string& label, std::uint64_t seed,
                             const std::function<SpotCheck(std::int64_t group, std::uint64_t seed)>& product);

}  // namespace ridge::ops
