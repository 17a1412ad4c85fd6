#include "measure/rounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace ridge::measure {
namespace {

TEST(Rounds, LaunchEverySubjectTwiceInAPalindrome) {
  Coin coin(3);
  std::string ran;
  const auto rounds = run_rounds(
      [&](std::size_t i) -> std::optional<double> {
        ran += static_cast<char>('a' + i);
        return 1.0;
      },
      3, 40, coin);
  ASSERT_EQ(rounds.size(), 40u);
  ASSERT_EQ(ran.size(), 240u);
  std::set<std::string> orders;
  for (std::size_t r = 0; r < 40; ++r) {
    const std::string round = ran.substr(6 * r, 6), half = round.substr(0, 3);
    EXPECT_EQ(round, half + std::string(half.rbegin(), half.rend()));
    EXPECT_EQ(std::set<char>(half.begin(), half.end()).size(), 3u);
    orders.insert(half);
  }
  EXPECT_EQ(orders.size(), 6u);  // all of them, by chance
}

TEST(Rounds, ALinearDriftCancelsInEveryPair) {
  Coin coin(4);
  double time = 0;
  const auto rounds =
      run_rounds([&](std::size_t) -> std::optional<double> { return std::exp(0.01 * time++); }, 4, 5, coin);
  for (const Round& round : rounds) {
    for (const auto& pair : round) {
      EXPECT_NEAR(std::log((*pair)[0] * (*pair)[1]), std::log((*round[0])[0] * (*round[0])[1]), 1e-12);
    }
  }
}

TEST(Rounds, AFailedSubjectIsNotLaunchedAgainAndTheOthersGoOn) {
  Coin coin(5);
  int launches = 0;
  const auto rounds = run_rounds(
      [&](std::size_t i) -> std::optional<double> {
        if (i != 1) return 1.0;
        ++launches;
        return launches < 4 ? std::optional(1.0) : std::nullopt;
      },
      2, 6, coin);
  EXPECT_EQ(launches, 4);
  EXPECT_TRUE(rounds[0][1].has_value());
  for (std::size_t r = 1; r < 6; ++r) EXPECT_FALSE(rounds[r][1].has_value());
  for (const Round& round : rounds) EXPECT_TRUE(round[0].has_value());
}

}  // namespace
}  // namespace ridge::measure
