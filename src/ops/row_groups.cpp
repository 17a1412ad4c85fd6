#include "ops/row_groups.h"

#include <fmt/format.h>

#include "base/error.h"

namespace ridge::ops {

std::vector<std::int64_t> read_offsets(const TensorView& offsets) {
  std::vector<std::int64_t> all;
  for (std::int64_t g = 0; g < offsets.shape[0]; ++g) {
    all.push_back(offsets.dtype == DType::kI64 ? static_cast<const std::int64_t*>(offsets.data)[g]
                                               : std::int64_t{static_cast<const std::int32_t*>(offsets.data)[g]});
  }
  return all;
}

Status check_offsets(std::string_view op, std::span<const std::int64_t> offsets, std::int64_t rows) {
  std::int64_t before = 0;
  for (std::size_t g = 0; g < offsets.size(); ++g) {
    if (offsets[g] < before || offsets[g] > rows) {
      return with_hint(invalid("{}: offset {} is {}, after {} and of {} rows", op, g, offsets[g], before, rows),
                       "give offsets that never fall, from 0 to the number of rows");
    }
    before = offsets[g];
  }
  return ok_status();
}

Status check_group_count(std::string_view op, std::int64_t groups, std::int64_t offsets) {
  if (groups < 1) return with_hint(invalid("{}: {} groups", op, groups), "give at least one");
  if (offsets == groups + 1) return ok_status();
  return with_hint(invalid("{}: {} offsets for {} groups", op, offsets, groups),
                   fmt::format("give {}: where each begins, and where the last ends", groups + 1));
}

}  // namespace ridge::ops
