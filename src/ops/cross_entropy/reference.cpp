// The definition, from which the full compare and the check after every launch are made.
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/row_check.h"
// clang-format off
#include "ops/cross_entropy/row_model.cuh"
// clang-format on

namespace ridge::ops::cross_entropy {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  std::vector<rows::Reads> reads(problem.operands.size(), rows::kScalar);
  reads[0] = rows::kRow;
  rows::i64 next = 0, lse = -1, dlogits = -1;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const OperandSpec& spec = problem.operands[i];
    if (!spec.output) continue;
    if (spec.name == "lse") lse = next;
    if (spec.name == "dlogits") dlogits = next, reads[i] = rows::kRow;
    ++next;
  }
  const auto grad = problem.position("grad");
  const CrossEntropySettings s = settings_of(problem, arguments);
  const Definition f{s.label_smoothing,
                     s.z_loss,
                     s.soft_cap,
                     static_cast<double>(s.ignore_index),
                     static_cast<double>(s.first),
                     static_cast<double>(s.whole)};
  return rows::model(std::move(reads), RowModel{f, s.grad_scale, grad ? static_cast<rows::i64>(*grad) : -1,
                                                shape_of(problem).shard ? 1 : 0, lse, dlogits});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_CHECK_OK(check_targets(problem, arguments));
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  RIDGE_CHECK_OK(check_targets(problem, arguments));
  RIDGE_TRY(spot, rows::spot_check<row_model>(problem, arguments, seed));
  spot.finite = spot.finite || spot.residual <= spot.allowed;  // a loss may be infinite
  return spot;
}

}  // namespace ridge::ops::cross_entropy
