// The definition: codes and scales of what activation's row model gives, with its errors.
#include "ops/activation/model.h"
#include "ops/activation/quantize/quantize.h"
#include "ops/coding/device_check.h"

namespace ridge::ops::activation_quantize {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  return activation::model_of(problem, arguments, rows::kApart);
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return coding::reference<row_model, coding_of>(problem, arguments);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return coding::device_check<row_model, coding_of>({"ops/gating/definition.cuh", "ops/activation/row_model.cuh"},
                                                    "activation::RowModel");
}

}  // namespace ridge::ops::activation_quantize
