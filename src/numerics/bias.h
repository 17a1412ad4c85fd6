// Do the errors of an output lean to one side? A test with a bounded rate of false alarms (docs/checking.md derives
// it).
//
// Errors are counted in units of what the ideal kernel's would be, positive when they point away from zero, and added
// up in buckets by the exact value, because elements of one value have one error. With L the sum over all n elements,
// S_b that of a bucket and d elements that have an error at all, an output leans when
//
//   |L| > n / 10 + sum of shifts + t sqrt(max(sum S_b^2, d)),    t = sqrt(2 ln(2 / kBiasFalseAlarm))
//
// holds, to the same side, for the errors against the exact values and for those against the exact values as the output
// type rounds them. Few different values are no evidence: |L| <= sqrt(buckets) sqrt(sum S_b^2), so that 57 of them are
// the fewest that can fail, and constants never do.
#pragma once

#include <memory>

#include "numerics/bias_terms.h"
#include "ridge/dtype.h"

namespace ridge::numerics {

inline constexpr double kBiasFalseAlarm = 1e-12;  // of one output that is compared
inline constexpr double kBiasSlack = 0.1;         // of the ideal kernel's RMS error, in either direction

struct BiasVerdict {
  double mean = 0;    // |L| / n, of the centre that is closer to its limit
  double limit = 0;   // for it
  double excess = 0;  // (|L| - n / 10 - shifts) / sqrt(max(sum S_b^2, d)) there: above t it leans
  [[nodiscard]] bool leans() const { return mean > limit; }
};
BiasVerdict bias_verdict(const BiasSums& sums);

class BiasTest {
 public:
  explicit BiasTest(DType output) : output_(output), sums_(std::make_unique<BiasSums>()) {}
  // One finite element: what was found, its exact value, the expected square of an ideal error there.
  void add(double found, double value, double ideal_square, double shift = 0);
  [[nodiscard]] BiasVerdict verdict() const { return bias_verdict(*sums_); }

 private:
  DType output_;
  std::unique_ptr<BiasSums> sums_;
};

}  // namespace ridge::numerics
