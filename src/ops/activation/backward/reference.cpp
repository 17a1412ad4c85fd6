// The definition, from which the full compare and the check after every launch are made.
#include "ops/activation/backward/backward.h"
#include "ops/row_check.h"
// clang-format off
#include "ops/activation/row_model.cuh"
#include "ops/activation/backward/row_model.cuh"
// clang-format on

namespace ridge::ops::activation_backward {
namespace {

auto row_model(const Problem& problem, const Arguments& arguments) {
  std::vector<rows::Reads> reads(problem.operands.size(), rows::kRow);
  const auto place = [&](const char* name, rows::Reads how) -> rows::i64 {
    const auto at = problem.position(name);
    if (!at) return -1;
    reads[*at] = how;
    return static_cast<rows::i64>(*at);
  };
  const rows::i64 up = place("up", rows::kRow), probs = place("probs", rows::kScalar),
                  mask = place("mask", rows::kScalar);
  place("dprobs", rows::kScalar);
  const Wanted wanted = wanted_of(problem);
  const rows::i64 dx = wanted.dx ? 1 : 0, dup = wanted.dup ? dx : -1;
  const activation::Definition f{static_cast<rows::i64>(shape_of(problem).function),
                                 arguments.scalar(problem, activation::kAlpha).real(),
                                 arguments.scalar(problem, activation::kLimit).real()};
  const rows::i64 dprobs = wanted.dprobs ? dx + (wanted.dup ? 1 : 0) : -1;
  return rows::model(std::move(reads), RowModel{f, up, probs, mask, dup, dprobs});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return rows::reference<row_model>(problem, arguments);
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return rows::spot_check<row_model>(problem, arguments, seed);
}

}  // namespace ridge::ops::activation_backward
