#include "search/surrogate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ridge::search {
namespace {

constexpr std::uint16_t kValues = 24;

// Two parameters of which the first matters, all combinations of their values.
Space made() {
  record::SearchParameter a{"a", {}}, b{"b", {}};
  for (std::uint16_t i = 0; i < kValues; ++i) {
    a.values.push_back({1.0 + i, {}});
    b.values.push_back({1.0 + i, {}});
  }
  return *Space::create({{a, b}, {}});
}

double value_of(const Point& point) { return 0.01 * std::pow(point[0] - 10.0, 2) + 0.001 * point[1]; }

std::vector<std::vector<std::uint8_t>> all_levels(const Space& space, const Encoding& encoding) {
  std::vector<std::vector<std::uint8_t>> levels;
  for (std::uint64_t i = 0; i < space.count(); ++i) levels.push_back(encoding.encode(space.point(i)));
  return levels;
}

// Without a past.
void set_pool(Surrogate& surrogate, const std::vector<std::vector<std::uint8_t>>& pool) {
  surrogate.set_pool(pool, std::vector<Expectation>(pool.size()));
}

TEST(ScaleFit, InPiecesIsTheSameFit) {
  const Space space = made();
  const Encoding encoding(space);
  std::vector<std::vector<std::uint8_t>> levels;
  std::vector<double> values;
  for (std::uint64_t i = 0; i < space.count(); i += 19) {
    levels.push_back(encoding.encode(space.point(i)));
    values.push_back(value_of(space.point(i)));
  }
  const Scales first = first_scales(encoding);
  ScaleFit whole(encoding, first, levels, values), pieces(encoding, first, levels, values);
  double enough = 1e12;
  EXPECT_TRUE(whole.advance(enough));
  std::size_t calls = 1;
  for (double little = 1; !pieces.advance(little); little = 1) ++calls;
  EXPECT_GT(calls, encoding.features().size());
  EXPECT_EQ(pieces.scales(), whole.scales());
  EXPECT_NE(whole.scales(), first);
}

TEST(Surrogate, IsSureWhereItWasToldAndRightAfterFitting) {
  const Space space = made();
  const Encoding encoding(space);
  Surrogate surrogate(encoding, {});
  set_pool(surrogate, all_levels(space, encoding));
  std::vector<double> values;
  std::vector<std::uint64_t> told;
  const auto tell = [&](std::uint64_t upto) {
    while (told.size() < upto) {
      told.push_back(told.size() * 131 % space.count());
      surrogate.add(encoding.encode(space.point(told.back())), {}, false);
      values.push_back(value_of(space.point(told.back())));
      surrogate.update(values);
    }
  };
  tell(6);  // too few for a fit
  double sure = 0, unsure = 0;
  for (const float one : surrogate.deviation()) unsure = std::max(unsure, static_cast<double>(one));
  for (const std::uint64_t one : told) sure = std::max(sure, static_cast<double>(surrogate.deviation()[one]));
  EXPECT_LT(sure, 0.3 * unsure);
  tell(40);
  double wrong = 0;
  for (std::uint64_t i = 0; i < space.count(); ++i) {
    wrong = std::max(wrong, std::abs(static_cast<double>(surrogate.mean()[i]) - value_of(space.point(i))));
  }
  EXPECT_LT(wrong, 0.1);  // of values from 0 to 2
}

// A new pool in the middle: the answers are about the old one until the new model says otherwise, and all observations
// are in it then.
TEST(Surrogate, AnswersAboutANewPoolWhenItSaysSo) {
  const Space space = made();
  const Encoding encoding(space);
  const auto all = all_levels(space, encoding);
  const std::vector<std::vector<std::uint8_t>> half(all.begin(), all.begin() + 100);
  Surrogate surrogate(encoding, {}), from_the_start(encoding, {});
  set_pool(surrogate, half);
  set_pool(from_the_start, all);
  std::vector<double> values;
  for (std::uint64_t i = 0; i < 30; ++i) {
    const std::uint64_t one = i * 131 % space.count();
    const bool failed = i % 5 == 4;
    for (Surrogate* each : {&surrogate, &from_the_start}) each->add(all[one], {}, failed);
    if (!failed) values.push_back(value_of(space.point(one)));
    if (i == 20) set_pool(surrogate, all);
    surrogate.update(values);
    from_the_start.update(values);
    EXPECT_EQ(surrogate.mean().size(), i < 20 ? half.size() : all.size()) << i;
  }
  for (std::size_t c = 0; c < all.size(); ++c) {
    EXPECT_NEAR(surrogate.mean()[c], from_the_start.mean()[c], 1e-3);
    EXPECT_FLOAT_EQ(surrogate.failure()[c], from_the_start.failure()[c]);
  }
}

}  // namespace
}  // namespace ridge::search
