#include "numerics/bias.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "numerics/convert.h"

namespace ridge::numerics {
namespace {

const double kDeviations = std::sqrt(2 * std::log(2 / kBiasFalseAlarm));

struct Centre {
  double sum = 0, spread = 0, free = 0;  // L, sqrt(max(sum S_b^2, d)), and what |L| may be without any evidence

  [[nodiscard]] double excess() const { return spread > 0 ? (std::abs(sum) - free) / spread : 0.0; }
};

Centre centre_of(const BiasSums& sums, int which) {
  Centre centre;
  double squares = 0;
  for (const double one : sums.bucket[which]) {
    centre.sum += one;
    squares += one * one;
  }
  centre.spread = std::sqrt(std::max(squares, sums.differing[which]));
  centre.free = kBiasSlack * sums.finite + sums.shift[which];
  return centre;
}

}  // namespace

void BiasTest::add(double found, double value, double ideal_square, double shift) {
  BiasSums& sums = *sums_;
  const double rounded = round_to(output_, value), sigma = std::sqrt(ideal_square);
  const double errors[kBiasCentres] = {found - value, found - (std::isfinite(rounded) ? rounded : value)};
  const int bucket = bias_bucket(std::bit_cast<std::uint64_t>(value));
  sums.finite += 1;
  for (int centre = 0; centre < kBiasCentres; ++centre) {
    const BiasTerm term = bias_term(errors[centre], value, sigma, shift);
    if (term.lean == 0) continue;
    sums.bucket[centre][bucket] += term.lean;
    sums.shift[centre] += term.shift;
    sums.differing[centre] += 1;
  }
}

BiasVerdict bias_verdict(const BiasSums& sums) {
  if (sums.finite == 0) return {};
  const Centre exact = centre_of(sums, 0), rounded = centre_of(sums, 1);
  const bool same_side = (exact.sum < 0) == (rounded.sum < 0);
  const Centre& closer = exact.excess() < rounded.excess() ? exact : rounded;
  BiasVerdict verdict;
  verdict.excess = same_side ? closer.excess() : std::min(closer.excess(), 0.0);
  verdict.limit = (closer.free + kDeviations * closer.spread) / sums.finite;
  verdict.mean = std::abs(closer.sum) / sums.finite;
  if (!same_side) verdict.mean = std::min(verdict.mean, verdict.limit);
  return verdict;
}

}  // namespace ridge::numerics
