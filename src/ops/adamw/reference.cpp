// The definition, from which the full compare and the check after every launch are made.
#include "ops/adamw/adamw.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/adamw/row_model.cuh"
// clang-format on

namespace ridge::ops::adamw {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  rows::Places place(problem);
  const rows::i64 factor = place("factor", rows::kShared), skip = place("skip", rows::kShared), param = place("param"),
                  master = place("master");
  const Constants c = constants_of(problem, arguments);
  return rows::model(std::move(place.reads),
                     RowModel{c.decay, c.first, c.kept, c.second, c.step, c.root, c.eps, factor, skip, param,
                              master < 0 ? param : master, shape_of(problem).maximize ? 1 : 0});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>("ops/adamw/row_model.cuh", "adamw::RowModel");
}

}  // namespace ridge::ops::adamw
