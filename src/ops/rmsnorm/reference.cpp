// The definition, from which the full compare and the check after every launch are made.
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/rmsnorm/row_model.cuh"
// clang-format on

namespace ridge::ops::rmsnorm {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  std::vector<rows::Reads> reads(problem.operands.size(), rows::kRow);
  const auto place = [&](const char* name) -> rows::i64 {
    const auto at = problem.position(name);
    return at ? static_cast<rows::i64>(*at) : -1;
  };
  const rows::i64 weight = place("weight"), rstd = place("rstd"), first_output = place("y");
  if (weight >= 0) reads[static_cast<std::size_t>(weight)] = rows::kShared;
  if (rstd >= 0) reads[static_cast<std::size_t>(rstd)] = rows::kScalar;
  const auto output = [&](rows::i64 at) { return at < 0 ? -1 : at - first_output; };
  return rows::model(std::move(reads),
                     RowModel{rows::format_of(s.dtype), arguments.scalar(problem, kEps).real(), place("residual"),
                              weight, s.zero_centred ? 1 : 0, output(place("sum")), output(rstd)});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>("ops/rmsnorm/row_model.cuh", "rmsnorm::RowModel");
}

}  // namespace ridge::ops::rmsnorm
