// Which configuration of a sweep is measured, and which sweep is over with its looks.
#include "campaign/sweep.h"

#include <gmock/gmock.h>

namespace ridge::campaign {
namespace {

using record::Outcome;
using record::ScreenRow;
using testing::HasSubstr;

struct Sweep {
  record::Proposal proposal;
  record::Screened screened;
  std::string incumbent = "incumbent";

  record::Candidate& offer(std::int64_t value) {
    record::Candidate candidate;
    candidate.op = "gemm";
    candidate.defines["TILE"] = value;
    proposal.candidates.push_back(candidate);
    return proposal.candidates.back();
  }
  void look(const std::string& id, double score, Outcome outcome = Outcome::kPass) {
    ScreenRow row;
    row.candidate = id;
    row.score = score;
    row.outcome = outcome;
    screened.rows.push_back(row);
  }
  std::string choose() {
    screened.incumbent = take_incumbent(screened.rows, incumbent, proposal);
    screened.chosen = worth_measuring(screened, proposal, incumbent);
    return screened.chosen;
  }
};

TEST(Sweep, TheFastestOfThoseOfferedIsMeasured) {
  Sweep sweep;
  const std::string slow = sweep.offer(1).id(), fast = sweep.offer(2).id(), wrong = sweep.offer(3).id();
  sweep.look(slow, 0.5);
  sweep.look(fast, 0.6);
  sweep.look(wrong, 0.9, Outcome::kWrong);
  sweep.look("of no proposal", 0.8);
  sweep.look(sweep.incumbent, 0.55);
  EXPECT_EQ(sweep.choose(), fast);
  EXPECT_EQ(sweep.screened.rows.size(), 4u) << "the incumbent's row is none of the sweep's";
  EXPECT_FALSE(why_not_measured(sweep.screened));
}

TEST(Sweep, IsOverWhereTheFastestIsFarBehindTheIncumbent) {
  for (const auto& [score, measured] : {std::pair(0.97, false), std::pair(0.99, true), std::pair(1.2, true)}) {
    Sweep sweep;
    const std::string best = sweep.offer(1).id(), other = sweep.offer(2).id();
    sweep.look(best, 0.5 * score);
    sweep.look(other, 0.1);
    sweep.look(sweep.incumbent, 0.5);
    EXPECT_EQ(sweep.choose(), measured ? best : "") << score;
    const auto why = why_not_measured(sweep.screened);
    ASSERT_EQ(why.has_value(), !measured) << score;
    EXPECT_THAT(why.value_or(""), HasSubstr(measured ? "" : "fastest of 2 configurations reached 97.0 %"));
  }
}

TEST(Sweep, WithoutALookAtTheIncumbentTheFastestIsMeasured) {
  Sweep sweep;
  const std::string best = sweep.offer(1).id();
  sweep.look(best, 0.1);
  sweep.look(sweep.incumbent, 0.5, Outcome::kAmbiguous);
  EXPECT_EQ(sweep.choose(), best);
  EXPECT_FALSE(sweep.screened.incumbent);
}

TEST(Sweep, TheIncumbentCannotWinItsOwnSweep) {
  Sweep sweep;
  const record::Candidate& itself = sweep.offer(1);
  sweep.incumbent = itself.id();
  const std::string other = sweep.offer(2).id();
  sweep.look(sweep.incumbent, 0.5);
  sweep.look(other, 0.49);
  EXPECT_EQ(sweep.choose(), other);
  EXPECT_EQ(sweep.screened.rows.size(), 2u) << "a configuration that was offered stays in the list";
}

TEST(Sweep, OfWhichNothingRanSaysSoOtherwise) {
  Sweep sweep;
  sweep.look(sweep.offer(1).id(), 0, Outcome::kCompile);
  sweep.look(sweep.incumbent, 0.5);
  EXPECT_EQ(sweep.choose(), "");
  EXPECT_FALSE(why_not_measured(sweep.screened)) << "it did not build";
}

}  // namespace
}  // namespace ridge::campaign
