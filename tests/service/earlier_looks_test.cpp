// What one campaign looked at guides the next one on the same kernel.
#include "service/earlier_looks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "front.h"
#include "record/tuning_store_folder.h"
#include "service/campaign_context.h"
#include "service/campaign_run.h"
#include "service/campaigns.h"
#include "service/tune_store.h"

namespace ridge::service::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const char* const kSpeeds =
    "/* ridge-tunables\n[[tunable]]\nname = \"SPEED\"\nvalues = [40, 50, 60, 70, 80, 90, 100, 110, 120, 150]\n"
    "default = 100\ncategory = \"layout\"\ntitle = \"speed\"\n*/\n#define SPEED 100\nint kernel;\n";
constexpr const char* kKernel = "gemm kernel.cpp";

class EarlierLooks : public testing::Test {
 protected:
  // A campaign that ends after so many rounds at most.
  Ran run(const std::string& name, std::int64_t rounds, bool no_past = false) {
    record::CampaignSpec spec = campaign::test::make_spec();
    spec.proposer = "search";
    spec.git_commit = false;
    spec.max_iterations = rounds;
    spec.protocol.max_foreign_load = spec.protocol.max_steal = 1;  // nothing is measured: never wait for others
    SystemClock clock;
    EXPECT_TRUE(campaign::create_campaign(at(name), spec, campaign::test::make_candidate(100, kSpeeds), clock));
    EXPECT_TRUE(confirm_draft(at(name), "test"));
    RunRequest request;
    request.wait_for_quiet = "1s";
    request.no_past = no_past;
    const Result<Ran> ran = run_campaign(front_.context, at(name), request);
    EXPECT_TRUE(ran) << ran.error().text();
    return *ran;
  }
  [[nodiscard]] fs::path at(const std::string& name) const { return front_.path() / name; }
  [[nodiscard]] std::string reasoning(const Ran& ran) const {
    return ran.state.rounds.at(0).last().proposal.hypothesis.reasoning;
  }

  Front front_;
};

TEST_F(EarlierLooks, AreKeptAndGuideTheNextCampaign) {
  const Ran first = run("a", 3);
  EXPECT_THAT(reasoning(first), testing::Not(HasSubstr("earlier campaign")));
  const auto stored = record::stored_measurements(front_.context.cache_directory, kKernel);
  ASSERT_TRUE(stored) << stored.error().text();
  ASSERT_GE(stored->size(), 7u);
  EXPECT_EQ(stored->front().device, "testcpu");
  EXPECT_THAT(stored->front().problem, HasSubstr("m="));
  EXPECT_THAT(stored->front().origin, HasSubstr("gemm_cpu_test_20260101"));

  const auto earlier = earlier_looks(front_.context, run("b", 2).state, 100);
  ASSERT_EQ(earlier.size(), 1u) << "its own do not count";
  ASSERT_EQ(earlier[0].looks.size(), stored->size());
  EXPECT_EQ(earlier[0].looks[0].defines.at("SPEED"), 150) << "the fastest first";
  EXPECT_EQ(earlier_looks(front_.context, first.state, 3)[0].looks.size(), 3u);

  const Ran third = run("c", 2);
  EXPECT_THAT(reasoning(third), HasSubstr("looks of 2 earlier campaigns on this kernel"));
  EXPECT_EQ(third.state.rounds.at(0).last().proposal.candidates.at(0).defines.at("SPEED"), 150);
  EXPECT_THAT(reasoning(run("d", 2, true)), testing::Not(HasSubstr("earlier campaign")));
}

TEST_F(EarlierLooks, AStoreThatCannotBeReadCostsNothing) {
  run("a", 2);
  const fs::path store = front_.context.cache_directory / "measurements";
  for (const auto& one : fs::directory_iterator(store)) {
    if (one.path().extension() != ".jsonl") continue;
    ASSERT_TRUE(write_file_durably(one.path(), "no measurement\n"));
  }
  const Ran second = run("b", 2);
  EXPECT_TRUE(second.state.rounds.at(0).closed());
  EXPECT_THAT(front_.notes, testing::Contains(HasSubstr("earlier measurements are not used")));
  EXPECT_THAT(front_.notes, testing::Contains(HasSubstr("is not kept for later campaigns")));
}

TEST_F(EarlierLooks, AreExportedByTheirCampaign) {
  run("a", 2);
  run("b", 2);
  TuneStoreRequest request;
  request.kernel = kKernel;
  request.file = (front_.path() / "out.json").string();
  const auto both = export_tuning(front_.context, request);
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().text(), HasSubstr("--origin"));
  const auto stored = record::stored_measurements(front_.context.cache_directory, kKernel);
  ASSERT_TRUE(stored);
  request.origin = stored->front().origin;
  const auto one = export_tuning(front_.context, request);
  ASSERT_TRUE(one) << one.error().text();
  EXPECT_GE(one->measurements, 2);
}

}  // namespace
}  // namespace ridge::service::test
