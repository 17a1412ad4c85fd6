#include "search/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <set>

namespace ridge::search {
namespace {

using record::ParameterValue;
using record::SearchParameter;
using record::SpaceDefinition;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

SearchParameter numbers(std::string name, const std::vector<double>& values, std::string needs = {}) {
  SearchParameter made{std::move(name), {}, std::move(needs)};
  for (const double value : values) made.values.push_back({value, {}});
  return made;
}
SearchParameter words(std::string name, const std::vector<std::string>& values) {
  SearchParameter made{std::move(name), {}};
  for (const std::string& value : values) made.values.push_back({0, value});
  return made;
}
std::vector<double> range(int first, int last, int step = 1) {
  std::vector<double> values;
  for (int i = first; i <= last; i += step) values.push_back(i);
  return values;
}
Space made(SpaceDefinition definition) {
  auto space = Space::create(std::move(definition));
  EXPECT_TRUE(space) << space.error().text();
  return std::move(space).value();
}
std::string refusal(SpaceDefinition definition) {
  const auto space = Space::create(std::move(definition));
  EXPECT_FALSE(space);
  return space ? std::string() : space.error().text();
}

// The stencil and the product that tuners publish their spaces of.
SpaceDefinition hotspot() {
  std::vector<double> wide = {1, 2, 4, 8, 16};
  for (const double value : range(32, 1024, 32)) wide.push_back(value);
  return {{numbers("block_x", wide), numbers("block_y", {1, 2, 4, 8, 16, 32}), numbers("tile_x", range(1, 10)),
           numbers("tile_y", range(1, 10)), numbers("steps", range(1, 10)), numbers("unroll", range(1, 10)),
           numbers("shared_power", {0, 1})},
          {"block_x * block_y >= 32", "block_x * block_y <= 1024", "steps % unroll == 0",
           "(block_x * tile_x + 2 * steps) * (block_y * tile_y + 2 * steps) * (2 + shared_power) * 4 <= 49152"}};
}
SpaceDefinition product() {
  return {
      {numbers("MWG", {16, 32, 64, 128}), numbers("NWG", {16, 32, 64, 128}), numbers("KWG", {16, 32}),
       numbers("MDIMC", {8, 16, 32}), numbers("NDIMC", {8, 16, 32}), numbers("MDIMA", {8, 16, 32}),
       numbers("NDIMB", {8, 16, 32}), numbers("KWI", {2}), numbers("VWM", {1, 2, 4, 8}), numbers("VWN", {1, 2, 4, 8}),
       numbers("STRM", {0, 1}), numbers("STRN", {0, 1}), numbers("SA", {0, 1}), numbers("SB", {0, 1})},
      {"KWG % KWI == 0", "MWG % (MDIMC * VWM) == 0", "NWG % (NDIMC * VWN) == 0", "MWG % (MDIMA * VWM) == 0",
       "NWG % (NDIMB * VWN) == 0", "KWG % (MDIMC * NDIMC / MDIMA) == 0", "KWG % (MDIMC * NDIMC / NDIMB) == 0",
       "(MWG == 128 && NWG == 128 && MDIMC == 8 && NDIMC == 8) == 0"}};
}

TEST(Space, CountsWhatTunersPublishWithinASecond) {
  [[maybe_unused]] const std::clock_t begin = std::clock();  // of this process: others may use the machine
  const Space stencil = made(hotspot());
  EXPECT_EQ(stencil.count(), 82'984u);
  EXPECT_EQ(stencil.unconstrained(), 4'440'000);
  SpaceDefinition wider = hotspot();
  wider.parameters.push_back(numbers("blocks_per_sm", range(0, 4)));
  EXPECT_EQ(made(wider).count(), 414'920u);
  EXPECT_EQ(made(wider).unconstrained(), 22'200'000);
  EXPECT_EQ(made(product()).count(), 116'928u);
  EXPECT_EQ(made(product()).unconstrained(), 663'552);
#ifdef NDEBUG
  const double seconds = static_cast<double>(std::clock() - begin) / static_cast<double>(CLOCKS_PER_SEC);
  EXPECT_LT(seconds, 5) << "five diagrams";
#endif
}

TEST(Space, NumbersEveryConfigurationOnce) {
  const Space space = made(product());
  std::set<Point> seen;
  for (std::uint64_t i = 0; i < space.count(); i += 37) {
    const Point point = space.point(i);
    EXPECT_TRUE(space.check(point));
    EXPECT_EQ(space.rank(point), i);
    EXPECT_TRUE(seen.insert(point).second);
  }
  Point wrong = space.point(0);
  wrong[0] = 3;
  wrong[3] = 2;
  wrong[5] = 0;
  EXPECT_EQ(space.rank(wrong).has_value(), bool(space.check(wrong)));
}

TEST(Space, FindsExactlyTheNeighbours) {
  const SpaceDefinition definition = {{numbers("a", range(1, 6)), numbers("b", range(1, 6)),
                                       words("layout", {"nn", "nt", "tt"}), numbers("c", range(0, 3))},
                                      {"a * b <= 12", "layout == 'nt' || a % 2 == 0", "c <= b"}};
  const Space space = made(definition);
  std::vector<Point> all;
  for (std::uint64_t i = 0; i < space.count(); ++i) all.push_back(space.point(i));
  std::size_t brute = 0;
  for (int a = 1; a <= 6; ++a) {
    for (int b = 1; b <= 6; ++b) {
      for (int layout = 0; layout < 3; ++layout) {
        for (int c = 0; c <= 3; ++c) brute += a * b <= 12 && (layout == 1 || a % 2 == 0) && c <= b;
      }
    }
  }
  EXPECT_EQ(all.size(), brute);
  for (const Point& point : all) {
    std::vector<std::uint64_t> near;
    for (std::uint64_t i = 0; i < all.size(); ++i) {
      int differences = 0;
      for (std::size_t p = 0; p < point.size(); ++p) differences += point[p] != all[i][p];
      if (differences == 1) near.push_back(i);
    }
    EXPECT_EQ(space.neighbours(point), near);
  }
}

TEST(Space, CountsAParameterWithoutEffectOnce) {
  // Without shared memory its stages and padding do nothing; padding needs two stages besides.
  const Space space = made({{numbers("shared", {0, 1}), numbers("stages", {1, 2, 3}, "shared"),
                             numbers("padding", {0, 4, 8}, "shared && stages >= 2")},
                            {}});
  EXPECT_EQ(space.count(), 1u + 1u + 2u * 3u);
  const std::optional<std::uint64_t> without = space.rank({0, 0, 0});
  ASSERT_TRUE(without);
  EXPECT_FALSE(space.rank({0, 1, 0}));
  // Switching shared memory off takes its stages along: one step, not two.
  EXPECT_THAT(space.neighbours({1, 0, 0}), testing::Contains(*without));
}

// What switches a parameter off may itself be switched off.
TEST(Space, ANeighbourIsCanonicalThroughAChain) {
  record::SearchParameter v{"v", {{1, {}}, {8, {}}}}, q{"q", {{0, {}}, {1, {}}}, "p == 1"},
      p{"p", {{0, {}}, {1, {}}}, "v > 1"};
  const Space space = *Space::create({{q, p, v}, {}});
  ASSERT_EQ(space.count(), 4u);
  const Point all = {1, 1, 1};  // q, p and v at their second values
  std::vector<Point> neighbours;
  for (const std::uint64_t one : space.neighbours(all)) neighbours.push_back(space.point(one));
  EXPECT_TRUE(std::ranges::count(neighbours, Point{0, 0, 0})) << "without v neither p nor q";
  EXPECT_TRUE(std::ranges::count(neighbours, Point{0, 1, 1}));
  EXPECT_TRUE(std::ranges::count(neighbours, Point{0, 0, 1}));
  EXPECT_EQ(neighbours.size(), 3u);
}

TEST(Space, DrawsUniformly) {
  const Space space = made({{numbers("a", range(1, 4)), numbers("b", range(1, 4))}, {"a <= b"}});
  ASSERT_EQ(space.count(), 10u);
  std::map<std::uint64_t, int> drawn;
  Coin coin(7);
  for (int i = 0; i < 10'000; ++i) ++drawn[space.sample(coin)];
  for (const auto& [rank, times] : drawn) EXPECT_NEAR(times, 1000, 150) << rank;  // 5 standard deviations
  EXPECT_EQ(drawn.size(), 10u);
}

TEST(Space, WorksWhereNothingCouldBeListed) {
  SpaceDefinition huge;
  for (int i = 0; i < 15; ++i) huge.parameters.push_back(numbers("p" + std::to_string(i), range(1, 10)));
  for (int i = 0; i + 1 < 15; ++i) {
    huge.constraints.push_back("p" + std::to_string(i) + " <= 2 * p" + std::to_string(i + 1));
  }
  const Space space = made(huge);
  EXPECT_GT(space.count(), 1'000'000'000'000u);
  EXPECT_LT(space.nodes(), 1000u);
  Coin coin(3);
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t rank = space.sample(coin);
    const Point point = space.point(rank);
    EXPECT_EQ(space.rank(point), rank);
    for (const std::uint64_t near : space.neighbours(point)) EXPECT_TRUE(space.check(space.point(near)));
  }
}

TEST(Space, NamesTheConstraintsThatExcludeEachOther) {
  EXPECT_THAT(refusal({{numbers("block", {64, 128}), numbers("tile", {8, 16}), numbers("other", {1, 2})},
                       {"other >= 1", "block * tile <= 1024", "block >= 128", "tile > 8"}}),
              AllOf(HasSubstr("\"block * tile <= 1024\""), HasSubstr("\"block >= 128\""), HasSubstr("\"tile > 8\""),
                    HasSubstr("block in 64, 128"), HasSubstr("tile in 8, 16"), Not(HasSubstr("other"))));
}

TEST(Space, RefusesWhatIsNoSpace) {
  EXPECT_THAT(refusal({{}, {}}), HasSubstr("no parameter"));
  EXPECT_THAT(refusal({{numbers("a", {1, 1})}, {}}), HasSubstr("parameter a has the value 1 twice"));
  EXPECT_THAT(refusal({{numbers("a", {1}), numbers("a", {2})}, {}}), HasSubstr("parameter a is declared twice"));
  EXPECT_THAT(refusal({{numbers("a", {1})}, {"a <= c"}}), AllOf(HasSubstr("c is no parameter"), HasSubstr("a <= c")));
  EXPECT_THAT(refusal({{words("a", {"x"})}, {"a == 'y'"}}), HasSubstr("no parameter has the value \"y\""));
  EXPECT_THAT(refusal({{numbers("a", {1})}, {"a <="}}), HasSubstr("a <="));
  // Fourteen parameters that one product ties: 40^13 states to remember.
  SpaceDefinition tied;
  std::string all = "1";
  for (int i = 0; i < 14; ++i) {
    tied.parameters.push_back(numbers("p" + std::to_string(i), range(1, 40)));
    all += " * p" + std::to_string(i);
  }
  tied.constraints = {all + " <= 100000000"};
  EXPECT_THAT(refusal(tied), AllOf(HasSubstr("too large"), HasSubstr("ties 14 parameters")));
}

TEST(Space, IsMadeOfRecordedConfigurations) {
  const std::vector<SearchParameter> parameters = {numbers("a", range(1, 3)), numbers("b", range(1, 3))};
  const auto space = Space::of_points(parameters, {{2, 0}, {0, 0}, {0, 2}});
  ASSERT_TRUE(space);
  EXPECT_EQ(space->count(), 3u);
  EXPECT_EQ(space->rank({2, 0}), 2u);
  EXPECT_EQ(space->neighbours({0, 0}), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_THAT(space->check({1, 1}).error().text(), HasSubstr("a=2 b=2 is none of the 3"));
  EXPECT_THAT(Space::of_points(parameters, {{0, 1}, {0, 1}}).error().text(), HasSubstr("a=1 b=2 is there twice"));
}

}  // namespace
}  // namespace ridge::search
