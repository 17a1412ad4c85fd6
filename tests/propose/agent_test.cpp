#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/confinement.h"
#include "base/error.h"
#include "base/files.h"
#include "places.h"
#include "propose/proposer.h"
#include "propose/request.h"

namespace ridge::propose {
namespace {

using ::testing::HasSubstr;

// A proposer that runs `script` with sh.
Result<record::Proposal> run(const std::string& script, const record::ProposalRequest& request = toy_request(),
                             ProposerOptions options = {}) {
  auto directory = TempDir::create("ridge-agent");
  const std::filesystem::path path = directory->path() / "agent.sh";
  std::ofstream(path) << script;
  auto proposer = make_proposer("command:sh " + path.string(), options);
  EXPECT_TRUE(proposer.ok());
  return (*proposer)->propose(request);
}

constexpr const char* kHypothesis =
    R"("hypothesis":{"title":"t","mechanism":"m","bottleneck":"compute","category":"tile","expected_gain":0.1,"reasoning":"r"})";

// A program that answers with the sample hypothesis and these changes.
std::string answering(const std::string& changes) {
  return "cat > /dev/null; cat <<'END'\n{\"version\":1," + std::string(kHypothesis) + ",\"changes\":" + changes +
         "}\nEND\n";
}

std::string refusal(const std::string& script) {
  auto proposal = run(script);
  EXPECT_FALSE(proposal.ok());
  return proposal.ok() ? "" : proposal.error().message;
}

TEST(Agent, AnHonestOneChangesTheIncumbent) {
  auto proposal = run(answering(R"([{"defines":{"LANES":16}},{"defines":{"LANES":8},"name":"narrow"}])"));
  ASSERT_TRUE(proposal.ok()) << proposal.error().text();
  ASSERT_EQ(proposal->candidates.size(), 2u);
  EXPECT_EQ(proposal->candidates[0].defines.at("LANES"), 16);
  EXPECT_EQ(proposal->candidates[0].name, "round 2: LANES=16");
  EXPECT_EQ(proposal->candidates[1].name, "narrow");
  EXPECT_EQ(proposal->candidates[0].parent, toy_request().incumbent.id());
  EXPECT_EQ(proposal->candidates[0].sources, toy_request().incumbent.sources);
}

// What a proposer did to the journal and the cache when it could reach them; here it writes and reads as before, and
// nothing of it is there afterwards.
TEST(Agent, ReachesNeitherTheCampaignNorTheKeys) {
  if (!why_not_confined().empty()) GTEST_SKIP() << why_not_confined();
  const TempDir campaign = TempDir::create("ridge-hidden").value();
  const std::string journal = (campaign.path() / "journal.jsonl").string();
  std::ofstream(journal) << "a line\n";
  const std::string attack = "cat " + journal + " >&2; echo forged >> " + journal +
                             "; setsid sh -c 'sleep 0.5; echo late >> " + journal + "' &\n" +
                             answering(R"([{"defines":{"LANES":16}}])");
  ASSERT_TRUE(run(attack, toy_request(), {.hidden = {campaign.path()}}).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  EXPECT_EQ(*read_file(journal), "a line\n");
  ASSERT_TRUE(run(attack).ok()) << "and where nothing is hidden";
  EXPECT_EQ(*read_file(journal), "a line\nforged\n") << "what it left behind is gone all the same";
}

TEST(Agent, MayReplaceAFileOfTheIncumbent) {
  auto proposal = run(answering(R"([{"sources":[{"path":"toy.cpp","text":"int better;"}]}])"));
  ASSERT_TRUE(proposal.ok()) << proposal.error().text();
  EXPECT_EQ(proposal->candidates[0].sources[0].text, "int better;");
}

TEST(Agent, MayGiveUpWithAReason) {
  auto proposal = run("cat >/dev/null; echo '{\"version\":1,\"exhausted\":true,\"reason\":\"no idea\"}'");
  ASSERT_TRUE(proposal.ok()) << proposal.error().text();
  EXPECT_TRUE(proposal->exhausted);
  EXPECT_EQ(proposal->reason, "no idea");
}

TEST(Agent, TheExampleInTheDocumentationWorks) {
  auto proposer = make_proposer("command:python3 " + source_dir().string() + "/examples/agent_random.py");
  for (int i = 0; i < 5; ++i) {  // every single step from the toy's defaults is valid
    auto proposal = (*proposer)->propose(toy_request());
    ASSERT_TRUE(proposal.ok()) << proposal.error().text();
    ASSERT_EQ(proposal->candidates.size(), 1u);
    EXPECT_EQ(proposal->candidates[0].defines.size(), 1u);
  }
}

TEST(Agent, SeesTheWholeRequest) {
  auto proposal =
      run("grep -q '\"roofline\":.*\"fraction\":0.008' && "
          "echo '{\"version\":1,\"exhausted\":true,\"reason\":\"seen\"}'");
  ASSERT_TRUE(proposal.ok()) << proposal.error().text();
}

TEST(Agent, GarbageIsRefusedAndQuoted) {
  EXPECT_THAT(refusal("cat >/dev/null; echo 'I think you should vectorise'"),
              HasSubstr("I think you should vectorise"));
  EXPECT_THAT(refusal("cat >/dev/null"), HasSubstr("standard output ends with nothing"));
}

TEST(Agent, CrashingIsToldWithItsLastWords) {
  const std::string message = refusal("cat >/dev/null; echo 'no token' >&2; exit 3");
  EXPECT_THAT(message, HasSubstr("exited with 3"));
  EXPECT_THAT(message, HasSubstr("no token"));
  EXPECT_THAT(refusal("kill -SEGV $$"), HasSubstr("exited with 139"));  // 128 + SIGSEGV, as a shell reports it
}

TEST(Agent, HangingIsKilledWithItsChildren) {
  const auto start = std::chrono::steady_clock::now();
  auto proposal = run("(sleep 60) & sleep 60", toy_request(), {.time_limit = 0.3});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  ASSERT_FALSE(proposal.ok());
  EXPECT_EQ(proposal.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(proposal.error().message, HasSubstr("no answer within 0.3 s"));
}

TEST(Agent, AHugeAnswerIsRefused) {
  auto proposal =
      run("cat >/dev/null; head -c 3000000 /dev/zero | tr '\\0' x", toy_request(), {.output_limit_bytes = 1u << 20});
  ASSERT_FALSE(proposal.ok());
  EXPECT_THAT(proposal.error().message, HasSubstr("larger than 1048576 bytes"));
}

TEST(Agent, UnknownKeysAreRefusedByName) {
  EXPECT_THAT(refusal(answering(R"([{"defines":{"LANES":16},"latency":1e-9}])")),
              HasSubstr("answer.changes[0]: unknown key \"latency\""));
  EXPECT_THAT(refusal(answering(R"([{"defines":{"LANES":"16"}}])")),
              HasSubstr("answer.changes[0].defines.LANES: expected an integer"));
  EXPECT_THAT(refusal("cat >/dev/null; echo '{\"version\":1,\"verdict\":\"PASS\"}'"),
              HasSubstr("unknown key \"verdict\""));
}

TEST(Agent, ValuesMustBeDeclaredAndSatisfyEveryConstraint) {
  EXPECT_THAT(refusal(answering(R"([{"defines":{"LANES":32}}])")),
              HasSubstr("answer.changes[0].defines: LANES=32 is not one of its declared values 1, 8, 16"));
  EXPECT_THAT(refusal(answering(R"([{"defines":{"SYSTEM":1}}])")), HasSubstr("SYSTEM is not a tunable"));
  EXPECT_THAT(refusal(answering(R"([{"defines":{"ROWS":12,"COLS":4}}])")),
              HasSubstr("COLS=4 ROWS=12 violates \"ROWS * COLS + COLS + 1 <= 32\": registers"));
}

TEST(Agent, MayTouchNoOtherFile) {
  for (const char* path : {"../toy.cpp", "/etc/passwd", "harness.cpp", ""}) {
    const std::string change = fmt::format(R"([{{"sources":[{{"path":"{}","text":"x"}}]}}])", path);
    EXPECT_THAT(refusal(answering(change)), HasSubstr("is not a file of the incumbent")) << path;
  }
}

TEST(Agent, OneRoundIsOneChange) {
  EXPECT_THAT(refusal(answering(R"([{"defines":{"LANES":16}},{"sources":[{"path":"toy.cpp","text":"int x;"}]}])")),
              HasSubstr("candidates of a sweep share their sources"));
  EXPECT_THAT(refusal(answering(R"([{"defines":{}}])")), HasSubstr("changes[0]: changes nothing"));
  // A value that is the default already.
  EXPECT_THAT(refusal(answering(R"([{"defines":{"ROWS":1}}])")), HasSubstr("changes[0]: changes nothing"));
  EXPECT_THAT(refusal(answering("[]")), HasSubstr("answer.changes: is empty"));
}

TEST(Agent, TheHypothesisMustBeWhole) {
  const auto with = [](const std::string& hypothesis) {
    return "cat >/dev/null; echo '{\"version\":1,\"hypothesis\":{" + hypothesis +
           "},\"changes\":[{\"defines\":{\"LANES\":16}}]}'";
  };
  EXPECT_THAT(refusal(with(R"("title":"t")")), HasSubstr("answer.hypothesis: key \"bottleneck\" is missing"));
  const std::string rest = R"("title":"t","mechanism":"m","category":"tile","reasoning":"r",)";
  EXPECT_THAT(refusal(with(rest + R"("bottleneck":"luck","expected_gain":0.1)")),
              HasSubstr("answer.hypothesis.bottleneck: \"luck\" is not one of compute, memory"));
  EXPECT_THAT(refusal(with(rest + R"("bottleneck":"memory","expected_gain":-1)")),
              HasSubstr("answer.hypothesis.expected_gain: -1 is not a positive fraction"));
  EXPECT_THAT(refusal(with(rest + R"("bottleneck":"memory","expected_gain":1,"informed_by":7)")),
              HasSubstr("answer.hypothesis.informed_by: there was no round 7"));
  EXPECT_THAT(refusal("cat >/dev/null; echo '{\"version\":2}'"), HasSubstr("answer.version: 2 is not 1"));
}

TEST(Agent, SaysWhatItsAnswerTook) {
  const auto with = [](const std::string& usage) {
    return "cat >/dev/null; echo '{\"version\":1," + std::string(kHypothesis) + ",\"usage\":" + usage +
           ",\"changes\":[{\"defines\":{\"LANES\":16}}]}'";
  };
  const auto proposal = run(with(R"({"model":"m-1","turns":3,"input_tokens":12000,"output_tokens":900,"usd":0.25})"));
  ASSERT_TRUE(proposal.ok()) << proposal.error().text();
  ASSERT_TRUE(proposal->usage);
  EXPECT_EQ(proposal->usage->model, "m-1");
  EXPECT_EQ(proposal->usage->input_tokens, 12000);
  EXPECT_DOUBLE_EQ(*proposal->usage->usd, 0.25);
  EXPECT_FALSE(run(answering(R"([{"defines":{"LANES":16}}])"))->usage);
  EXPECT_THAT(refusal(with(R"({"turns":-1})")), HasSubstr("answer.usage.turns: -1 is outside of 0 to"));
  EXPECT_THAT(refusal(with(R"({"output_tokens":9000000000000})")), HasSubstr("answer.usage.output_tokens"));
  EXPECT_THAT(refusal(with(R"({"usd":-0.5})")), HasSubstr("answer.usage.usd: -0.5 is outside of 0 to"));
  EXPECT_THAT(refusal(with(R"({"euro":1})")), HasSubstr("unknown key \"euro\""));
}

}  // namespace
}  // namespace ridge::propose
