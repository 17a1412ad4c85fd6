// The definition, from which the full compare and the check after every launch are made.
#include "ops/activation/model.h"

namespace ridge::ops::activation {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) { return model_of(problem, arguments, rows::kRow); }

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/gating/definition.cuh", "ops/activation/row_model.cuh"},
                                       "activation::RowModel");
}

}  // namespace ridge::ops::activation
