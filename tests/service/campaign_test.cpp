// Campaigns through the service, as any front drives them: draft to report, progress for other processes, cancellation.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "campaign/slim.h"
#include "front.h"
#include "record/json.h"
#include "service/audit.h"
#include "service/campaign_propose.h"
#include "service/campaigns.h"
#include "service/progress.h"

namespace ridge::service::test {
namespace {

namespace fs = std::filesystem;
using campaign::RunEnd;
using testing::HasSubstr;

// A source with a tunable, for values by hand.
const char* const kSource =
    "/* ridge-tunables\n[[tunable]]\nname = \"SPEED\"\nvalues = [50, 100, 120, 150, 180, 300]\ndefault = 100\n"
    "category = \"layout\"\ntitle = \"speed\"\n*/\n#define SPEED 100\nint kernel;\n";

class CampaignTest : public testing::Test {
 protected:
  void SetUp() override {
    record::CampaignSpec spec = campaign::test::make_spec();
    spec.proposer = "manual";
    spec.git_commit = false;
    spec.protocol.max_foreign_load = spec.protocol.max_steal = 1;  // nothing is measured: never wait for others
    SystemClock clock;
    ASSERT_TRUE(campaign::create_campaign(directory(), spec, campaign::test::make_candidate(100, kSource), clock));
    run_.wait_for_quiet = "1s";
  }
  [[nodiscard]] fs::path directory() const { return front_.path() / "c"; }
  [[nodiscard]] Result<Ran> run() { return run_campaign(front_.context, directory(), run_); }
  // Confirmed, with its baseline measured, waiting for a round by hand.
  void begin() {
    ASSERT_TRUE(confirm_draft(directory(), "test"));
    const Result<Ran> ran = run();
    ASSERT_TRUE(ran) << ran.error().text();
    ASSERT_EQ(ran->result.end, RunEnd::kPaused) << ran->result.reason;
    ASSERT_TRUE(ran->result.waits) << ran->result.reason;
  }
  [[nodiscard]] ProposeRequest by_hand(const std::string& speed) const {
    ProposeRequest request;
    request.directory = directory().string();
    request.defines = {"SPEED=" + speed};
    request.title = "speed " + speed;
    request.reason = "seen in a profile";
    request.expect = "50%";
    request.by = "ada";
    request.run = run_;
    return request;
  }
  [[nodiscard]] record::CampaignProgress left_behind() const {
    const auto found = read_progress(directory());
    EXPECT_TRUE(found) << (found ? "" : found.error().text());
    EXPECT_TRUE(found && *found);
    return found && *found ? **found : record::CampaignProgress{};
  }

  Front front_;
  RunRequest run_;
};

TEST_F(CampaignTest, NeedsItsDraftConfirmed) {
  const Result<Ran> refused = run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_FALSE(fs::exists(directory() / kProgressFile));
  const auto answer = confirm_draft(directory(), "test");
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->message, "Confirmed gemm_cpu_test_20260101");
  EXPECT_EQ(answer->next, "ridge campaign resume " + directory().string());
}

TEST_F(CampaignTest, TellsEveryStepWhileItRuns) {
  begin();
  ASSERT_FALSE(front_.steps.empty());
  const record::CampaignProgress& first = front_.steps.front();
  EXPECT_EQ(first.campaign, "gemm_cpu_test_20260101");
  EXPECT_EQ(first.state, "running");
  EXPECT_EQ(first.part, "set-up");
  EXPECT_EQ(first.step, "prepare the environment");
  EXPECT_EQ(first.number, 1);
  EXPECT_EQ(first.of, 4);
  EXPECT_EQ(first.next, "read the tips");
  EXPECT_EQ(first.pid, ::getpid());
  const auto step = [&](const std::string& action) {
    return std::ranges::find(front_.steps, action, &record::CampaignProgress::step);
  };
  ASSERT_NE(step("check and measure the baseline"), front_.steps.end());
  EXPECT_EQ(step("check and measure the baseline")->number, 3);
  ASSERT_NE(step("commit the baseline"), front_.steps.end());
  EXPECT_EQ(step("commit the baseline")->part, "set-up");
  // After the process has gone on to something else, the file says how it ended.
  EXPECT_EQ(left_behind().state, "ended");
  EXPECT_THAT(left_behind().because, HasSubstr("waits for a round by hand"));
  EXPECT_GT(front_.settled, 0);
}

TEST_F(CampaignTest, ARoundByHandIsDecidedAndTold) {
  begin();
  front_.steps.clear();
  const Result<Proposed> proposed = propose_round(front_.context, by_hand("150"));
  ASSERT_TRUE(proposed) << proposed.error().text();
  EXPECT_EQ(proposed->round, 2);
  ASSERT_TRUE(proposed->decided);
  EXPECT_TRUE(proposed->decided->accepted) << proposed->decided->reason;
  ASSERT_EQ(front_.rounds.size(), 1u);
  EXPECT_EQ(front_.rounds[0].round, 2);
  const auto measured =
      std::ranges::find(front_.steps, "build, check and measure the candidate", &record::CampaignProgress::step);
  ASSERT_NE(measured, front_.steps.end());
  EXPECT_EQ(measured->part, "round");
  EXPECT_EQ(measured->number, 2);
  EXPECT_EQ(measured->of, 4);
  EXPECT_EQ(measured->next, "decide");
  EXPECT_EQ(left_behind().accepted, 1);
  const auto rows = campaigns_in(front_.path());
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ(rows->front().state, "paused");
  EXPECT_EQ(rows->front().accepted, 1);
  const auto kernel = export_campaign_kernel(directory(), {});
  ASSERT_TRUE(kernel) << kernel.error().text();
  EXPECT_EQ(kernel->round, 2);
  EXPECT_TRUE(replay_record(directory())->ok);
}

TEST_F(CampaignTest, AProposalThatCannotBeUsedLeavesNoLine) {
  begin();
  const std::string before = *read_file(directory() / "journal.jsonl");
  ProposeRequest request = by_hand("150");
  request.title.clear();
  const Result<Proposed> untitled = propose_round(front_.context, request);
  ASSERT_FALSE(untitled);
  EXPECT_THAT(untitled.error().message, HasSubstr("--title is missing"));
  request = by_hand("150");
  request.expect = "a lot";
  EXPECT_FALSE(propose_round(front_.context, request));
  request = by_hand("151");  // no value of the tunable
  EXPECT_FALSE(propose_round(front_.context, request));
  request = by_hand("150");
  request.give_up = true;
  const Result<Proposed> nothing_open = propose_round(front_.context, request);
  ASSERT_FALSE(nothing_open);
  EXPECT_EQ(nothing_open.error().code, ErrorCode::kConflict);
  EXPECT_EQ(*read_file(directory() / "journal.jsonl"), before);
}

TEST_F(CampaignTest, IsCancelledAndGoesOn) {
  ASSERT_TRUE(confirm_draft(directory(), "test"));
  front_.stops = 1;
  const Result<Ran> stopped = run();
  ASSERT_TRUE(stopped) << stopped.error().text();
  EXPECT_EQ(stopped->result.end, RunEnd::kPaused);
  EXPECT_EQ(left_behind().state, "ended");
  front_.stops = 0;
  const Result<Ran> again = run();
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_TRUE(again->result.waits);
}

TEST_F(CampaignTest, AtItsEndTheFileIsGoneAndTheRecordHolds) {
  begin();
  ASSERT_TRUE(propose_round(front_.context, by_hand("300")));
  ASSERT_TRUE(stop_campaign(directory()));
  const Result<Ran> ended = run();
  ASSERT_TRUE(ended) << ended.error().text();
  EXPECT_EQ(ended->result.end, RunEnd::kDone) << ended->result.reason;
  EXPECT_FALSE(fs::exists(directory() / kProgressFile));
  EXPECT_FALSE(fs::exists(directory() / "progress.json.part"));
  const auto audit = verify_record({directory().string(), {}});
  ASSERT_TRUE(audit) << audit.error().text();
  EXPECT_TRUE(audit->ok) << testing::PrintToString(audit->differences);
  EXPECT_FALSE(campaign_status(directory())->progress);
  EXPECT_EQ(next_command(directory(), ended->state), "ridge campaign export-kernel " + directory().string());
}

// What is asked while the campaign runs elsewhere in the same process.
TEST_F(CampaignTest, TakesOneCallerAtATime) {
  begin();
  Front other;
  std::optional<Error> round, second, status;
  front_.context.on_campaign = [&](const record::CampaignProgress&) {
    if (round) return;
    round = propose_round(other.context, by_hand("120")).error();
    second = run_campaign(other.context, directory(), run_).error();
    const auto seen = campaign_status(directory());
    if (!seen || !seen->progress || seen->progress->state != "running") status = Error{};
  };
  ASSERT_TRUE(propose_round(front_.context, by_hand("150")));
  ASSERT_TRUE(round);
  EXPECT_EQ(round->code, ErrorCode::kConflict);
  EXPECT_THAT(round->hint, HasSubstr("one round at a time"));
  EXPECT_EQ(second->code, ErrorCode::kConflict);
  EXPECT_FALSE(status) << "a reader of the same process sees that it runs";
  EXPECT_TRUE(other.worker.requests().empty());
}

TEST_F(CampaignTest, SeveralRunInOneProcess) {
  constexpr std::size_t kCampaigns = 3;
  std::vector<std::unique_ptr<Front>> fronts;
  std::vector<std::string> ends(kCampaigns);
  for (std::size_t i = 0; i < kCampaigns; ++i) {
    fronts.push_back(std::make_unique<Front>());
    fs::copy(directory(), fronts[i]->path() / "c", fs::copy_options::recursive);
    ASSERT_TRUE(confirm_draft(fronts[i]->path() / "c", "test"));
  }
  fronts[1]->stops = 1;  // one of them is stopped, and no other
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kCampaigns; ++i) {
      threads.emplace_back([&, i] {
        const Result<Ran> ran = run_campaign(fronts[i]->context, fronts[i]->path() / "c", run_);
        ends[i] = ran ? ran->result.reason : ran.error().text();
      });
    }
  }
  EXPECT_THAT(ends[0], HasSubstr("waits for a round by hand"));
  EXPECT_THAT(ends[1], Not(HasSubstr("waits for a round by hand")));
  EXPECT_THAT(ends[2], HasSubstr("waits for a round by hand"));
}

// No reader of a campaign's record looks at the file, whatever is in it.
TEST_F(CampaignTest, VerifyStatusAndSlimAreNotDisturbedByTheFile) {
  begin();
  ASSERT_TRUE(stop_campaign(directory()));
  ASSERT_TRUE(run());
  const fs::path file = directory() / kProgressFile;
  for (const char* const text : {"", "{", "{\"version\": 1}", "{\"version\": 99, \"mood\": \"fine\"}"}) {
    ASSERT_TRUE(write_file_durably(file, text));
    EXPECT_FALSE(read_progress(directory())) << text;
    EXPECT_TRUE(verify_record({directory().string(), {}})->ok) << text;
    const auto status = campaign_status(directory());
    ASSERT_TRUE(status) << text;
    EXPECT_FALSE(status->progress);
  }
  EXPECT_THAT(read_progress(directory()).error().message, HasSubstr("is of version 99"));
  const auto slimmed = campaign::slim_campaign(directory());
  ASSERT_TRUE(slimmed) << slimmed.error().text();
  EXPECT_TRUE(verify_record({directory().string(), {}})->ok);
}

TEST_F(CampaignTest, AFileOfAProcessThatIsGoneIsStale) {
  begin();
  record::CampaignProgress progress = left_behind();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_GT(child, 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  progress.pid = child;
  progress.state = "running";
  progress.because.clear();
  ASSERT_TRUE(write_file_durably(directory() / kProgressFile, record::to_pretty(progress)));
  EXPECT_EQ(left_behind().state, "stale");
  EXPECT_THAT(left_behind().because, HasSubstr("ridge campaign resume " + directory().string()));
  EXPECT_THAT(progress_text(left_behind()), HasSubstr("; stale: process"));
  ASSERT_TRUE(campaign_status(directory())->progress);
  // The next process writes over it.
  ASSERT_TRUE(run());
  EXPECT_EQ(left_behind().state, "ended");
}

class ProgressWriterTest : public CampaignTest {};

TEST_F(ProgressWriterTest, WritesNewStepsAtOnceAndOthersOnceASecond) {
  const campaign::State state = *campaign::load_campaign(directory());
  VirtualClock clock{1'767'225'600, 0.0};
  ProgressWriter writer(directory(), state, clock);
  campaign::EngineProgress progress;
  progress.phase = record::Phase::kValidate;
  progress.round = 2;
  progress.action = "build, check and measure the candidate";
  EXPECT_TRUE(writer.show(progress, state));
  progress.detail = "session 1";
  EXPECT_FALSE(writer.show(progress, state));
  clock.advance(0.9);
  EXPECT_FALSE(writer.show(progress, state));
  clock.advance(0.2);
  progress.detail = "session 2";
  const auto written = writer.show(progress, state);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->detail, "session 2");
  EXPECT_EQ(left_behind().detail, "session 2");
  EXPECT_EQ(left_behind().since, "2026-01-01T00:00:00Z") << "since the step began";
  progress.action = "decide";
  progress.phase = record::Phase::kDecide;
  EXPECT_TRUE(writer.show(progress, state)) << "a new step";
  EXPECT_EQ(left_behind().state, "running");
  writer.end("asked to");
  EXPECT_EQ(left_behind().because, "asked to");
}

TEST_F(ProgressWriterTest, LeftByAnErrorItDoesNotSayThatItRuns) {
  const campaign::State state = *campaign::load_campaign(directory());
  SystemClock clock;
  {
    ProgressWriter writer(directory(), state, clock);
    campaign::EngineProgress progress;
    progress.action = "read the tips";
    EXPECT_TRUE(writer.show(progress, state));
  }
  EXPECT_EQ(left_behind().state, "ended");
}

TEST_F(ProgressWriterTest, AFolderThatIsGoneStopsNothing) {
  const campaign::State state = *campaign::load_campaign(directory());
  SystemClock clock;
  ProgressWriter writer(front_.path() / "nowhere", state, clock);
  EXPECT_TRUE(writer.show({}, state));
  writer.remove();
}

}  // namespace
}  // namespace ridge::service::test
