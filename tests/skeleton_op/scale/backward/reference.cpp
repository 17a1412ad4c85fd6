// The definition, from which the full compare and the check after every launch are made.
#include "ops/row_device_check.h"
#include "scale/backward/backward.h"
#include "scale/backward/row_model.cuh"

namespace ridge::ops::scale_backward {
namespace {

auto row_model(const Problem& problem, const Arguments&) {
  const auto place = [&](const char* name) -> rows::i64 {
    const auto at = problem.position(name);
    return at ? static_cast<rows::i64>(*at) : -1;
  };
  const double alpha = static_cast<float>(problem.real(kAlpha));
  const bool dx = problem.position("dx").has_value();
  return rows::model(std::vector(problem.operands.size(), rows::kRow),
                     RowModel{alpha, dx ? place("gain") : place("x"), place("x")});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"scale/backward/row_model.cuh"}, "scale_backward::RowModel");
}

}  // namespace ridge::ops::scale_backward
