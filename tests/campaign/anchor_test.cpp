#include "campaign/anchor.h"

#include <sys/stat.h>

#include "base/signature.h"
#include "campaign/verify.h"
#include "forgery.h"

namespace ridge::campaign::test {
namespace {

// One round whose candidate is as fast as the baseline.
ScriptedProposer::Answer no_gain() {
  return one_per_round({make_proposal({make_candidate(100, "#define SPEED 100\nint k;\n")})});
}

// A rejected round becomes a gain of 42 %, by a forger who takes care that no two sessions are alike.
void forge_a_gain(const std::filesystem::path& campaign) {
  bend_last_evaluation(campaign, [](record::Evaluation& evaluation) {
    evaluation.outcome = record::Outcome::kPass;
    evaluation.rebuild = record::Rebuild{evaluation.build.artifact, *evaluation.incumbent_artifact, {}, 1};
    repeat_sessions(evaluation, 20);
    Jitter jitter("forged");
    for (record::Session& session : evaluation.sessions) {
      scale_candidate(session, 1.42);
      for_each_launch(session, [&](double& seconds) { seconds *= jitter(); });
    }
  });
}

class AnchorTest : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv(kSignKeyVariable);
    ASSERT_TRUE(SigningKey::generate().write_new(key()));
  }
  void TearDown() override { ::unsetenv(kSignKeyVariable); }
  [[nodiscard]] std::filesystem::path key() const { return keys_.path() / "key"; }
  [[nodiscard]] std::string public_key() const { return *read_public_key(keys_.path() / "key.pub"); }
  [[nodiscard]] std::unique_ptr<World> anchored(const std::string& stamp = {}) const {
    record::CampaignSpec spec = make_spec();
    EXPECT_TRUE(anchor_spec(spec, "/nowhere", key(), stamp));
    auto world = std::make_unique<World>(no_gain(), spec);
    world->engine_options.sign_key = key();
    return world;
  }
  static SignatureReport signatures(const World& world, const std::string& public_key) {
    return *check_signatures(world.path(), record::read_journal(world.path() / "journal.jsonl")->events, public_key);
  }
  TempDir keys_ = TempDir::create("ridge-keys").value();
};

TEST_F(AnchorTest, EveryLineIsSigned) {
  const auto world = anchored();
  ASSERT_TRUE(world->run());
  const SignatureReport report = signatures(*world, public_key());
  EXPECT_TRUE(report.ok()) << report.problem;
  EXPECT_GT(report.events, 10);
  EXPECT_EQ(report.signed_events, report.events);
  EXPECT_EQ(report.unused, 0);
  EXPECT_TRUE(verify_campaign(world->path())->ok());
  EXPECT_EQ(signatures(*world, SigningKey::generate().public_key()).first_bad, 1);
}

// A chain proves consistency and no origin: a forger with the folder alone writes all of it anew.
TEST_F(AnchorTest, ARehashedForgeryIsCleanWithoutAKeyAndNamedWithOne) {
  World plain(no_gain());
  ASSERT_TRUE(plain.run());
  ASSERT_FALSE(plain.state().rounds.at(0).decision->accepted);
  forge_a_gain(plain.path());
  ASSERT_TRUE(plain.run());
  ASSERT_TRUE(plain.state().rounds.at(0).decision->accepted) << plain.state().rounds.at(0).decision->reason;
  EXPECT_TRUE(verify_campaign(plain.path())->ok());
  EXPECT_TRUE(replay_campaign(plain.path())->ok());
  EXPECT_EQ(signatures(plain, public_key()).first_bad, 1);

  const auto world = anchored();
  ASSERT_TRUE(world->run());
  ASSERT_FALSE(world->state().rounds.at(0).decision->accepted);
  forge_a_gain(world->path());
  const SignatureReport report = signatures(*world, public_key());
  EXPECT_GT(report.first_bad, 1);
  EXPECT_EQ(report.problem, "is not the line that was signed");
  EXPECT_EQ(record::read_journal(world->path() / "journal.jsonl")->events.size(),
            static_cast<std::size_t>(report.first_bad));  // the bent line is the last one
}

TEST_F(AnchorTest, AForgedJournalIsNotSignedFurther) {
  const auto world = anchored();
  ASSERT_TRUE(world->run());
  forge_a_gain(world->path());
  const Result<RunResult> resumed = world->run();
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(resumed.error().message.find("is not the line that was signed"), std::string::npos)
      << resumed.error().text();
}

TEST_F(AnchorTest, AForgerWithAKeyOfTheirOwnIsTold) {
  const SigningKey theirs = SigningKey::generate();
  const auto world = anchored();
  ASSERT_TRUE(world->run());
  std::vector<record::Event> events = record::read_journal(world->path() / "journal.jsonl")->events;
  std::string lines = *read_file(world->path() / kSignaturesFile);
  for (std::size_t at = 0; (at = lines.find(public_key(), at)) != std::string::npos;)
    lines.replace(at, 64, theirs.public_key());
  ASSERT_TRUE(write_file_durably(world->path() / kSignaturesFile, lines));
  EXPECT_EQ(signatures(*world, theirs.public_key()).first_bad, 1);
  EXPECT_TRUE(signatures(*world, public_key()).ok());  // which key a line claims counts for nothing
}

TEST_F(AnchorTest, NamesTheFirstLineWhoseSignatureIsGone) {
  const auto world = anchored();
  ASSERT_TRUE(world->run());
  std::string lines = *read_file(world->path() / kSignaturesFile);
  const std::size_t second = lines.find('\n') + 1, third = lines.find('\n', second) + 1;
  ASSERT_TRUE(write_file_durably(world->path() / kSignaturesFile, lines.erase(second, third - second)));
  EXPECT_EQ(signatures(*world, public_key()).first_bad, 2);
  EXPECT_EQ(signatures(*world, public_key()).problem, "is not signed");
  std::filesystem::remove(world->path() / kSignaturesFile);
  EXPECT_EQ(signatures(*world, public_key()).first_bad, 1);
  EXPECT_FALSE(world->open());
}

TEST_F(AnchorTest, GoesOnWithTheKeyWhereItWasAndNotWithout) {
  const auto world = anchored();
  ASSERT_TRUE(world->create());
  world->engine_options.sign_key.clear();
  ASSERT_TRUE(world->open());  // signatures.jsonl says where the key is
  std::filesystem::rename(key(), keys_.path() / "moved");
  EXPECT_FALSE(world->open());
  ::setenv(kSignKeyVariable, (keys_.path() / "moved").c_str(), 1);
  ASSERT_TRUE(world->run());
  EXPECT_TRUE(signatures(*world, public_key()).ok());
  ::unsetenv(kSignKeyVariable);
  ASSERT_TRUE(extend_budget(world->path(), {0, 21}, world->clock));  // the new place was noted
  ASSERT_TRUE(SigningKey::generate().write_new(keys_.path() / "other"));
  world->engine_options.sign_key = keys_.path() / "other";
  const auto refused = world->open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
}

// The signature is written first: a crash between the two leaves one too many, and a disk that is full as well.
TEST_F(AnchorTest, ASignatureOfALineThatNeverWasDoesNoHarm) {
  const auto world = anchored();
  ASSERT_TRUE(world->create());
  std::string journal = *read_file(world->path() / "journal.jsonl");
  const std::size_t cut = journal.rfind('\n', journal.size() - 2) + 10;
  ASSERT_TRUE(write_file_durably(world->path() / "journal.jsonl", journal.substr(0, cut)));
  ASSERT_TRUE(
      write_file_durably(world->path() / kSignaturesFile, *read_file(world->path() / kSignaturesFile) + "{\"seq"));
  ASSERT_TRUE(confirm_campaign(world->path(), "again", world->clock));
  ASSERT_TRUE(world->run());
  EXPECT_TRUE(signatures(*world, public_key()).ok());
  EXPECT_EQ(signatures(*world, public_key()).unused, 1);
}

TEST_F(AnchorTest, TheKeyLiesOutsideOfTheFolder) {
  record::CampaignSpec spec = make_spec();
  const Status inside = anchor_spec(spec, keys_.path(), key(), {});
  ASSERT_FALSE(inside);
  EXPECT_NE(inside.error().message.find("own folder"), std::string::npos);
}

TEST_F(AnchorTest, AManifestCannotLoseItsKeyBeforeItIsConfirmed) {
  record::CampaignSpec spec = make_spec();
  ASSERT_TRUE(anchor_spec(spec, "/nowhere", key(), {}));
  const TempDir place = TempDir::create("ridge-draft").value();
  VirtualClock clock;
  ASSERT_TRUE(create_campaign(place.path() / "c", spec, make_candidate(100), clock, key()));
  std::string manifest = *read_file(place.path() / "c/manifest.yaml");
  const std::size_t at = manifest.find(kSigningKey);
  ASSERT_NE(at, std::string::npos);
  ASSERT_TRUE(
      write_file_durably(place.path() / "c/manifest.yaml", manifest.erase(at, manifest.find('\n', at) + 1 - at)));
  const auto confirmed = confirm_campaign(place.path() / "c", "test", clock);
  ASSERT_FALSE(confirmed);
  EXPECT_NE(confirmed.error().message.find(kSigningKey), std::string::npos);
}

TEST_F(AnchorTest, HeadsAreStampedByACommandAndAFailureIsKeptAsOne) {
  const auto world = anchored("read head; echo \"seen $head\"");
  ASSERT_TRUE(world->run());
  const std::vector<record::Event> events = record::read_journal(world->path() / "journal.jsonl")->events;
  const TimestampReport report = *check_timestamps(world->path(), events);
  EXPECT_GE(report.kept, 5);  // prepared, baseline, decided, final, reported
  EXPECT_EQ(report.failed, 0);
  EXPECT_TRUE(report.problems.empty());
  const std::string stamps = *read_file(world->path() / kTimestampsFile);
  EXPECT_NE(stamps.find("seen " + events.back().hash), std::string::npos) << stamps;
  ASSERT_TRUE(write_file_durably(world->path() / kTimestampsFile, stamps + stamps));
  EXPECT_TRUE(check_timestamps(world->path(), events)->problems.empty());
  EXPECT_FALSE(check_timestamps(world->path(), {})->problems.empty());

  const auto away = anchored("echo no network >&2; exit 7");
  ASSERT_TRUE(away->run());
  const auto failed = check_timestamps(away->path(), record::read_journal(away->path() / "journal.jsonl")->events);
  EXPECT_EQ(failed->kept, 0);
  EXPECT_GE(failed->failed, 5);
  EXPECT_NE(read_file(away->path() / kTimestampsFile)->find("no network"), std::string::npos);
}

}  // namespace
}  // namespace ridge::campaign::test
