// Many candidates looked at by several devices: dealt, and joined as if one device had looked.
#include "execute/spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/error.h"

namespace ridge::execute {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

record::Candidate candidate(std::int64_t speed) {
  record::Candidate one;
  one.op = "gemm";
  one.sources = {{"kernel.cu", "kernel"}};
  one.defines = {{"SPEED", speed}};
  return one;
}

record::WorkerRequest sweep(const std::vector<std::int64_t>& speeds, std::int64_t incumbent = 100) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kScreen;
  for (const std::int64_t speed : speeds) request.candidates.push_back(candidate(speed));
  request.incumbent = candidate(incumbent);
  return request;
}

// Of two shapes, on a device that is `slow` times slower than another, on the second shape twice that.
record::ScreenRow row(const record::Candidate& one, double slow) {
  const auto speed = static_cast<double>(one.defines.at("SPEED"));
  record::ScreenRow looked;
  looked.candidate = one.id();
  looked.defines = one.defines;
  looked.latencies = {slow / speed, 3 * 2 * slow / speed};
  looked.score = std::sqrt(1e-3 / looked.latencies[0] * (1e-3 / looked.latencies[1]));
  return looked;
}

record::WorkerResponse looks(const record::WorkerRequest& part, double slow, bool with_incumbent = true) {
  record::WorkerResponse answer;
  bool among = false;
  for (const record::Candidate& one : part.candidates) {
    answer.screen.push_back(row(one, slow));
    among = among || one.id() == part.incumbent->id();
  }
  if (with_incumbent && !among) answer.screen.push_back(row(*part.incumbent, slow));
  answer.cpu_seconds = 2;
  return answer;
}

std::vector<std::int64_t> speeds_of(const std::vector<record::Candidate>& candidates) {
  std::vector<std::int64_t> speeds;
  for (const record::Candidate& one : candidates) speeds.push_back(one.defines.at("SPEED"));
  return speeds;
}

TEST(Spread, DealsByTurnsAndNotToMoreDevicesThanIsWorthIt) {
  const record::WorkerRequest request = sweep({1, 2, 3, 4, 5, 6, 7});
  const auto two = deal_screen(request, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_THAT(speeds_of(two[0].candidates), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(speeds_of(two[1].candidates), ElementsAre(2, 4, 6));
  EXPECT_EQ(two[1].incumbent->id(), request.incumbent->id());
  EXPECT_EQ(deal_screen(request, 100).size(), 2u);
  EXPECT_EQ(deal_screen(request, 1).size(), 1u);
  EXPECT_EQ(deal_screen(request, 0).size(), 1u);
  EXPECT_EQ(deal_screen(sweep({1, 2}), 4).size(), 1u);
  record::WorkerRequest alone = request;
  alone.incumbent.reset();
  EXPECT_EQ(deal_screen(alone, 4).size(), 1u);
}

// The second device is 1.5 times slower than the first, and the third half as slow: the rows are those of the first.
TEST(Spread, RowsAreAsIfOneDeviceHadLooked) {
  for (const bool among : {false, true}) {
    const record::WorkerRequest request = sweep({90, 110, 120, 80, 130, 95, 105, 85, 100}, among ? 105 : 99);
    const auto parts = deal_screen(request, 3);
    ASSERT_EQ(parts.size(), 3u);
    std::vector<Result<record::WorkerResponse>> answers;
    const double slow[] = {1, 1.5, 0.5};
    for (std::size_t i = 0; i < 3; ++i) answers.emplace_back(looks(parts[i], slow[i]));
    const auto joined = join_screens(request, parts, std::move(answers));
    ASSERT_TRUE(joined.ok()) << joined.error().text();
    const record::WorkerResponse alone = looks(request, 1);
    ASSERT_EQ(joined->screen.size(), alone.screen.size());
    for (std::size_t i = 0; i < alone.screen.size(); ++i) {
      EXPECT_EQ(joined->screen[i].candidate, alone.screen[i].candidate);
      EXPECT_EQ(joined->screen[i].defines, alone.screen[i].defines);
      EXPECT_NEAR(joined->screen[i].score, alone.screen[i].score, 1e-12);
      for (std::size_t s = 0; s < 2; ++s)
        EXPECT_NEAR(joined->screen[i].latencies[s], alone.screen[i].latencies[s], 1e-12);
    }
    EXPECT_EQ(joined->cpu_seconds, 6);
  }
}

TEST(Spread, ADeviceThatDoesNotAnswerCostsItsCandidatesAlone) {
  const record::WorkerRequest request = sweep({90, 110, 120, 80, 130, 95});
  const auto parts = deal_screen(request, 2);
  std::vector<Result<record::WorkerResponse>> answers;
  answers.emplace_back(make_error(ErrorCode::kToolFailed, "gpu1: the connection was lost"));
  answers.emplace_back(looks(parts[1], 2));
  const auto joined = join_screens(request, parts, answers);
  ASSERT_TRUE(joined.ok());
  ASSERT_EQ(joined->screen.size(), 7u);
  EXPECT_EQ(joined->screen[0].outcome, record::Outcome::kHarnessFault);
  EXPECT_THAT(joined->screen[0].detail, HasSubstr("gpu1: the connection was lost"));
  EXPECT_EQ(joined->screen[0].candidate, request.candidates[0].id());
  EXPECT_EQ(joined->screen[1].outcome, record::Outcome::kPass);
  EXPECT_EQ(joined->screen[1].score, row(candidate(110), 2).score);
  EXPECT_EQ(joined->screen[6].candidate, request.incumbent->id());
  answers[1] = record::WorkerResponse{.error = "no GPU"};
  const auto none = join_screens(request, parts, answers);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("connection was lost"));
}

// Where the incumbent crashed, times of another device say nothing; failures of a candidate hold wherever they came.
TEST(Spread, ADeviceThatDidNotRunTheIncumbentIsNotCompared) {
  const record::WorkerRequest request = sweep({90, 110, 120, 80, 130, 95});
  const auto parts = deal_screen(request, 2);
  std::vector<Result<record::WorkerResponse>> answers;
  record::WorkerResponse without = looks(parts[0], 0.1, false);
  without.screen[2].outcome = record::Outcome::kWrong;
  without.screen[2].detail = "element 3";
  answers.emplace_back(without);
  answers.emplace_back(looks(parts[1], 1));
  const auto joined = join_screens(request, parts, std::move(answers));
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined->screen[0].outcome, record::Outcome::kHarnessFault);
  EXPECT_THAT(joined->screen[0].detail, HasSubstr("has no time of the incumbent"));
  EXPECT_EQ(joined->screen[4].outcome, record::Outcome::kWrong);
  EXPECT_EQ(joined->screen[4].detail, "element 3");
  EXPECT_EQ(joined->screen[1].outcome, record::Outcome::kPass);
}

TEST(Spread, ARowThatWasNotSentIsNamed) {
  const record::WorkerRequest request = sweep({90, 110, 120, 80, 130, 95});
  const auto parts = deal_screen(request, 2);
  std::vector<Result<record::WorkerResponse>> answers;
  record::WorkerResponse less = looks(parts[0], 1);
  less.screen.erase(less.screen.begin());
  answers.emplace_back(less);
  answers.emplace_back(looks(parts[1], 1));
  const auto joined = join_screens(request, parts, std::move(answers));
  ASSERT_TRUE(joined.ok());
  EXPECT_THAT(joined->screen[0].detail, HasSubstr("sent no row"));
}

}  // namespace
}  // namespace ridge::execute
