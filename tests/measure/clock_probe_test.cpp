#include "measure/clock_probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "measure/machine.h"
#include "stats/summary.h"

namespace ridge::measure {
namespace {

TEST(ClockProbe, ReadsAPlausibleAndRepeatableClock) {
  ClockProbe probe(usable_cpus().front());
  std::vector<double> first, second;
  for (int i = 0; i < 60; ++i) (i % 2 == 0 ? first : second).push_back(probe.read());
  const double a = stats::quantile(first, 0.9), b = stats::quantile(second, 0.9);
  EXPECT_GT(a, 2e7);  // six dependent operations a step: 120 MHz
  EXPECT_LT(a, 2e9);
  EXPECT_LT(std::fabs(a / b - 1), 0.2);  // a guard allows 0.5 %; a busy build machine must not fail the suite
}

TEST(ClockProbe, AChainTakesTimeInProportionToItsLength) {
  std::vector<double> long_chains, short_chains;  // the fastest of many: others may take the processor at any time
  for (int i = 0; i < 60; ++i) {
    long_chains.push_back(dependent_chain(40'000));
    short_chains.push_back(dependent_chain(10'000));
  }
  EXPECT_NEAR(stats::min(long_chains) / stats::min(short_chains), 4.0, 1.0);
}

}  // namespace
}  // namespace ridge::measure
