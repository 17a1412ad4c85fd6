// Shares no code with any kernel.
#include <fmt/format.h>

#include "numerics/convert.h"
#include "numerics/format.h"
#include "numerics/philox.h"
#include "ops/matmul/grouped_product.h"
#include "ops/matmul/product.h"

namespace ridge::ops {
namespace {

// Rows of no group.
void append_zeros(std::int64_t count, DType out, ReferenceOutput& all) {
  append_exact(std::vector<double>(static_cast<std::size_t>(count), 0.0), out, all);
}

// An element of the rows of no group that is not 0, as a failed check.
void check_zero(const std::string& label, const TensorView& rows, std::int64_t first, SpotCheck& worst) {
  for (std::int64_t i = 0; i < rows.shape[0]; ++i) {
    for (const double value : numerics::to_doubles(rows_of(rows, i, i + 1))) {
      if (value == 0) continue;
      worst.residual = 1;
      worst.allowed = 0;
      worst.detail = fmt::format("{}: row {} belongs to no group and holds {}", label, first + i, value);
      return;
    }
  }
}

}  // namespace

void append_exact(const std::vector<double>& values, DType out, ReferenceOutput& all) {
  for (const double value : values) {
    const double spacing = numerics::ulp(out, value);
    all.value.push_back(value);
    all.allowed.push_back(spacing / 2);
    all.ideal_square.push_back(spacing * spacing / 12);
    all.shift.push_back(0);
  }
}

ReferenceOutput grouped_reference(const GroupedOutput& out,
                                  const std::function<ReferenceOutput(std::int64_t group)>& product) {
  const std::int64_t columns = out.along_sums ? 0 : out.c.shape[1];
  ReferenceOutput c;
  append_zeros(out.offsets.front() * columns, out.c.dtype, c);
  for (std::int64_t g = 0; g < out.groups(); ++g) {
    if (!out.skips(g)) {
      append(product(g), c);
    } else if (out.along_sums) {  // nothing is added: it stays as it is
      append_exact(numerics::to_doubles(matrix_of(out.c, g)), out.c.dtype, c);
    }
  }
  append_zeros((out.along_sums ? 0 : out.c.shape[0] - out.offsets.back()) * columns, out.c.dtype, c);
  return c;
}

SpotCheck grouped_spot_check(const GroupedOutput& out, const std::string& label, std::uint64_t seed,
                             const std::function<SpotCheck(std::int64_t group, std::uint64_t seed)>& product) {
  SpotCheck worst;
  bool first = true;
  for (std::int64_t g = 0; g < out.groups(); ++g) {
    if (out.c.element_count() == 0 || (!out.along_sums && out.rows_of(g) == 0)) continue;
    SpotCheck one = product(g, numerics::derive_seed(seed, static_cast<std::uint64_t>(g)));
    const bool finite = worst.finite && one.finite;
    if (first || !(one.residual * worst.allowed <= worst.residual * one.allowed)) worst = std::move(one);
    worst.finite = finite;
    first = false;
  }
  if (out.along_sums) return worst;
  check_zero(label, rows_of(out.c, 0, out.offsets.front()), 0, worst);
  check_zero(label, rows_of(out.c, out.offsets.back(), out.c.shape[0]), out.offsets.back(), worst);
  return worst;
}

}  // namespace ridge::ops
