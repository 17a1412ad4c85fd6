// What a proposer is told, asked for from outside of the engine, and what its answers are said to have taken.
#include "campaign/context.h"

#include <gmock/gmock.h>

#include "base/files.h"
#include "campaign/verify.h"
#include "places.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

using testing::HasSubstr;

std::vector<record::Proposal> two() {
  return {make_proposal({make_candidate(90)}, "SLOWER"), make_proposal({make_candidate(150)}, "FASTER")};
}

TEST(Context, IsWhatTheEngineTellsItsProposer) {
  World world(one_per_round(two()));
  world.engine_options.rounds = 1;
  ASSERT_TRUE(world.run());
  const auto seen = context_of(world.path(), source_dir() / "data", {});
  ASSERT_TRUE(seen) << seen.error().text();
  EXPECT_EQ(seen->round, 3);
  ASSERT_EQ(seen->history.size(), 1u);
  ASSERT_FALSE(seen->memory.empty());
  EXPECT_FALSE(seen->knowledge.empty());
  ASSERT_TRUE(world.run());
  ASSERT_EQ(world.proposer.requests.size(), 2u);
  EXPECT_EQ(record::to_line(*seen), record::to_line(world.proposer.requests[1]));
}

TEST(Context, ThereIsNoneBeforeTheBaselineAndAfterTheEnd) {
  World world(one_per_round({}));
  ASSERT_TRUE(world.create());
  auto seen = context_of(world.path(), source_dir() / "data", {});
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().code, ErrorCode::kConflict);
  EXPECT_THAT(seen.error().message, HasSubstr("the baseline"));
  ASSERT_TRUE(world.run());
  seen = context_of(world.path(), source_dir() / "data", {});
  ASSERT_FALSE(seen);
  EXPECT_THAT(seen.error().message, HasSubstr("has ended"));
  EXPECT_EQ(context_of(world.base() / "nothing", source_dir() / "data", {}).error().code, ErrorCode::kNotFound);
}

TEST(Usage, StandsInTheCostLogWithItsSum) {
  std::vector<record::Proposal> proposals = two();
  proposals[0].usage = record::Usage{"m-1", 3, 12000, 900, 0.25};
  proposals[1].usage = record::Usage{"m-1", 1, 4000, 300, 0.125};
  World world(one_per_round(proposals));
  ASSERT_TRUE(world.run());
  const std::string log = *read_file(world.path() / "logs/cost.md");
  EXPECT_THAT(log, HasSubstr("| 3 | 0.2500 | 0.2500 |\n"));
  EXPECT_THAT(log, HasSubstr("| 1 | 0.1250 | 0.3750 |\n"));
  EXPECT_THAT(log, HasSubstr("| evaluated | 2 | ok |"));
  EXPECT_TRUE(verify_campaign(world.path())->ok());
}

// The agent's account of itself changes no decision.
TEST(Usage, DecidesNothing) {
  const auto outcome = [](std::optional<record::Usage> usage) {
    std::vector<record::Proposal> proposals = two();
    for (record::Proposal& proposal : proposals) proposal.usage = usage;
    World world(one_per_round(proposals));
    EXPECT_TRUE(world.run());
    return outcome_of(world.state());
  };
  EXPECT_EQ(outcome({}), outcome(record::Usage{"m-1", 1000, 1'000'000'000, 1, 1e6}));
}

}  // namespace
}  // namespace ridge::campaign::test
