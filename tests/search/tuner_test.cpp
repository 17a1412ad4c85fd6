// What a campaign asks of the search beside one proposal after the other: only some configurations, several at once,
// and what is expected of them.
#include "search/tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace ridge::search {
namespace {

Space grid() {
  record::SearchParameter a{"a", {}}, b{"b", {}};
  for (int i = 1; i <= 16; ++i) {
    a.values.push_back({static_cast<double>(i), {}});
    b.values.push_back({static_cast<double>(i), {}});
  }
  return *Space::create({{a, b}, {}});
}

// The fastest at a = 12, b = 5.
double seconds_of(const Point& point) {
  return std::exp(0.01 * std::pow(point[0] - 11.0, 2) + 0.02 * std::pow(point[1] - 4.0, 2));
}

TEST(Tuner, ProposesOnlyWhatItMay) {
  const Space space = grid();
  std::vector<std::uint64_t> among;
  for (std::uint64_t i = 3; i < space.count(); i += 7) among.push_back(i);
  Tuner tuner(space, 1, {}, among);
  for (std::uint64_t i = 0; i < space.count(); i += 31) tuner.observe(i, seconds_of(space.point(i)));
  std::set<std::uint64_t> proposed;
  while (const auto next = tuner.propose()) {
    EXPECT_TRUE(std::ranges::binary_search(among, *next)) << *next;
    EXPECT_NE(*next % 31, 0u) << "was observed before";
    EXPECT_TRUE(proposed.insert(*next).second);
    tuner.observe(*next, seconds_of(space.point(*next)));
  }
  const auto left = std::ranges::count_if(among, [](std::uint64_t one) { return one % 31 != 0; });
  EXPECT_EQ(std::ssize(proposed), left);
}

TEST(Tuner, ExpectsWhatItsDataSay) {
  const Space space = grid();
  Tuner tuner(space, 1, {});
  EXPECT_FALSE(tuner.outlook(0));  // nothing was measured
  for (std::uint64_t i = 0; i < space.count(); i += 5) tuner.observe(i, seconds_of(space.point(i)));
  double worst = 0;
  for (std::uint64_t i = 1; i < space.count(); i += 5) {
    const auto outlook = tuner.outlook(i);
    ASSERT_TRUE(outlook);
    EXPECT_GT(outlook->deviation, 0);
    const double value = std::log(seconds_of(space.point(i)));
    if (value < 0.5) worst = std::max(worst, std::abs(outlook->mean - value));  // slow ones are shown as less slow
  }
  EXPECT_LT(worst, 0.1);
  EXPECT_FALSE(Tuner(space, 1, {}, {3, 4}).outlook(7));  // not one that may be proposed
}

// Several that are measured together are not all beside the best one.
TEST(Tuner, ProposesOthersAfterASupposition) {
  const Space space = grid();
  const auto batch = [&](bool suppose) {
    Tuner tuner(space, 3, {});
    for (std::uint64_t i = 0; i < space.count(); i += 23) tuner.observe(i, seconds_of(space.point(i)));
    std::vector<Point> points;
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t next = *tuner.propose();
      points.push_back(space.point(next));
      if (suppose) tuner.suppose(next);
    }
    return points;
  };
  const auto spread = [](const std::vector<Point>& points) {
    double sum = 0;
    for (const Point& one : points) {
      for (const Point& other : points) sum += std::abs(one[0] - other[0]) + std::abs(one[1] - other[1]);
    }
    return sum;
  };
  EXPECT_GT(spread(batch(true)), spread(batch(false)));
  double fastest = 1e9;
  for (const Point& one : batch(true)) fastest = std::min(fastest, seconds_of(one));
  EXPECT_LT(fastest, 1.1);
}

TEST(Tuner, BeginsWithWhatAPriorPromisesAndAvoidsWhatItSaysFails) {
  const Space space = grid();
  const auto value = [](const Point& point) { return shown_beyond(std::log(seconds_of(point))); };
  const auto fails = [](const Point& point) { return point[0] == 11; };
  Tuner believes(space, 1, {Prior{value, {}, 1}});
  EXPECT_EQ(space.point(*believes.propose()), (Point{11, 4}));
  Tuner warned(space, 1, {Prior{value, fails, 1}});
  EXPECT_NE(space.point(*warned.propose())[0], 11);
}

}  // namespace
}  // namespace ridge::search
