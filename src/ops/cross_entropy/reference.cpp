// The definition, from which the full compare and the check after every launch are made.
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/cross_entropy/row_model.cuh"
// clang-format on

namespace ridge::ops::cross_entropy {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  rows::Places place(problem, rows::kScalar);
  place("logits", rows::kRow);
  const rows::i64 grad = place("grad"), lse = place.output("lse"), dlogits = place.output("dlogits", rows::kRow);
  const CrossEntropySettings s = settings_of(problem, arguments);
  const Definition f{s.label_smoothing,
                     s.z_loss,
                     s.soft_cap,
                     static_cast<double>(s.ignore_index),
                     static_cast<double>(s.first),
                     static_cast<double>(s.whole)};
  return rows::model(std::move(place.reads),
                     RowModel{f, s.grad_scale, grad, shape_of(problem).shard ? 1 : 0, lse, dlogits});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_CHECK_OK(check_targets(problem, arguments));
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  RIDGE_CHECK_OK(check_targets(problem, arguments));
  return with_right_infinities(rows::spot_check<row_model>(problem, arguments, seed));  // a loss may be infinite
}

std::shared_ptr<const DeviceCheck> device_check() {
  return rows::device_check<row_model>({"ops/cross_entropy/row_model.cuh"}, "cross_entropy::RowModel");
}

}  // namespace ridge::ops::cross_entropy
