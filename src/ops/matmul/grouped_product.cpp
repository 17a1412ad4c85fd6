#include "ops/matmul/grouped_product.h"

#include <cstring>

#include "base/error.h"

namespace ridge::ops {

Result<record::Case> with_group_depth(record::Case requested, bool along_sums, std::string_view how) {
  const char* const has = along_sums ? "m" : "k";
  const char* const has_not = along_sums ? "k" : "m";
  const std::string other(requested.get(has_not, "0"));
  if (other != "0") {
    return with_hint(
        invalid("{}: {}={} with {}", requested.op, has_not, other, how),
        along_sums ? "sums are over the rows of a group: give m and n" : "the rows of C are those of A: give k and n");
  }
  requested.set(has_not, "0");
  if (requested.get(has).empty()) requested.set(has, "256");
  return requested;
}

namespace matmul {

void clear_rows(const TensorView& rows) {
  for (std::int64_t i = 0; i < rows.shape[0]; ++i) {
    std::memset(rows_of(rows, i, i + 1).data, 0, static_cast<std::size_t>(size_bytes(rows.dtype, rows.shape[1])));
  }
}

Status multiply_groups(const GroupedOutput& out, const std::string& label,
                       const std::function<bool(std::int64_t group)>& product) {
  for (std::int64_t g = 0; g < out.groups(); ++g) {
    if (out.skips(g) || product(g)) continue;
    return with_hint(make_error(ErrorCode::kIo, "{}: no memory for packing", label),
                     "use a smaller problem or fewer threads");
  }
  if (out.along_sums || out.c.element_count() == 0) return ok_status();
  clear_rows(rows_of(out.c, 0, out.offsets.front()));
  clear_rows(rows_of(out.c, out.offsets.back(), out.c.shape[0]));
  return ok_status();
}

}  // namespace matmul
}  // namespace ridge::ops
