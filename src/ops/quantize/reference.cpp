// The definition: codes and scales of x as it is stored.
#include "ops/coding/device_check.h"
#include "ops/quantize/quantize.h"
// clang-format off
#include "ops/quantize/row_model.cuh"
// clang-format on

namespace ridge::ops::quantize {
namespace {

auto row_model(const Problem& problem, const Arguments&) {
  rows::Places place(problem, rows::kApart);
  const rows::i64 x = place("x", rows::kRow);
  return rows::model(std::move(place.reads), RowModel{x});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return coding::reference<row_model, coding_of>(problem, arguments);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return coding::device_check<row_model, coding_of>({"ops/quantize/row_model.cuh"}, "quantize::RowModel");
}

}  // namespace ridge::ops::quantize
