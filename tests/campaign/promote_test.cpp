// Promotion into a tree, its refusals, being killed between any two writes, and the way back to the same bytes.
#include "campaign/promote.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"
#include "base/hash.h"
#include "campaign/files.h"
#include "record/kernel_description.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Files = std::map<std::string, std::string>;

constexpr const char* kPath = "src/ops/gemm/kernel.cpp";

std::string kernel_text(const std::string& more_configs = "", const std::string& body = "int kernel;\n") {
  return "// A kernel.\n/* ridge-kernel\nop = \"gemm\"\n[configs]\ndefault = { }\n" + more_configs +
         "*/\n/* ridge-tunables\n[[tunable]]\nname = \"SPEED\"\nvalues = [100, 120, 150, 200]\ndefault = 100\n"
         "title = \"percent\"\n*/\n#ifndef SPEED\n#define SPEED 100\n#endif\n" +
         body;
}

record::TunedChoice tuned(const std::string& shape, double ratio, const std::string& configuration = "speed200") {
  record::TunedChoice choice;
  choice.device = "Test CPU";
  choice.libraries = "kernel source 0";
  choice.bucket = *record::parse_case("gemm " + shape);
  choice.implementation = "kernel";
  choice.configuration = configuration;
  choice.ratio = ratio;
  return choice;
}

class PromoteTest : public testing::Test {
 protected:
  void SetUp() override {
    world.baseline = make_candidate(100, kernel_text());
    write(kPath, kernel_text());
    write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- Something else.\n");
    write("data/tuned/test-cpu.jsonl", record::tuned_line(tuned(kShapes[1], 1.5, "default")));
    ASSERT_TRUE(git->init());
    commit_all();
  }
  void run() {
    const Result<RunResult> done = world.run();
    ASSERT_TRUE(done) << done.error().text();
    ASSERT_EQ(done->end, RunEnd::kDone) << done->reason;
  }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((tree() / path).parent_path());
    std::ofstream(tree() / path, std::ios::binary) << text;
  }
  void commit_all() {
    const auto changed = git->changes();
    ASSERT_TRUE(changed && git->commit("state", *changed));
  }
  [[nodiscard]] fs::path tree() const { return world.base() / "tree"; }
  [[nodiscard]] Files files() const {
    Files all;
    for (const auto& entry : fs::recursive_directory_iterator(tree())) {
      const std::string path = entry.path().lexically_relative(tree()).string();
      if (!path.starts_with(".git/") && path != ".git")
        all[path] = entry.is_directory() ? "/" : *read_file(entry.path());
    }
    return all;
  }
  Result<PromotionPlan> plan() {
    RIDGE_TRY(state, promotable(world.path()));
    RIDGE_TRY(planned, plan_promotion(state, tree(), {"", "avx2", "2026-01-01 00:00"}));
    planned.promotion.shapes = {{*record::parse_case("gemm " + kShapes[0]), "cpu_simd", 1.24, 1.2, 1.3, 1e-5, 8, true},
                                {*record::parse_case("gemm " + kShapes[1]), "cpu_simd", 1.1, 1.05, 1.2, 1e-5, 8, true},
                                {*record::parse_case("gemm " + kShapes[2]), "cpu_simd", 0.6, 0.5, 0.7, 1e-5, 8, false}};
    RIDGE_CHECK_OK(add_tuned_lines(planned, tree(), {tuned(kShapes[0], 1.24), tuned(kShapes[1], 1.1)}));
    RIDGE_CHECK_OK(add_changelog_line(planned, tree()));
    return planned;
  }
  std::string refusal() {
    const auto planned = plan();
    return planned ? "planned" : planned.error().text();
  }

  World world{one_per_round({make_proposal({make_candidate(150, kernel_text())}),
                             make_proposal({make_candidate(120, kernel_text())}, "SLOWER"),
                             make_proposal({make_candidate(200, kernel_text())}, "FASTER")})};
  std::unique_ptr<execute::Git> git = execute::make_git(world.base() / "tree");
};

TEST_F(PromoteTest, AWonConfigurationIsALineAndGoesWithoutATrace) {
  run();
  const Files before = files();
  const auto planned = plan();
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_EQ(files(), before) << "planning writes nothing";
  ASSERT_TRUE(check_clean(planned->promotion, *git));
  ASSERT_TRUE(apply_promotion(*planned, tree()));
  EXPECT_EQ(*read_file(tree() / kPath),
            kernel_text(
                "speed200 = { SPEED = 200, instructions = \"avx2\", promoted = \"gemm_cpu_test_20260101, 2.00x\" }\n"));
  EXPECT_EQ(*read_file(tree() / "data/tuned/test-cpu.jsonl"),
            record::tuned_line(tuned(kShapes[1], 1.1)) + record::tuned_line(tuned(kShapes[0], 1.24)));
  EXPECT_THAT(
      *read_file(tree() / "CHANGELOG.md"),
      HasSubstr("## Unreleased\n\n- `kernel/speed200` of `gemm`, promoted by the campaign gemm_cpu_test_20260101: "
                "2.00x the kernel that it began with on testcpu; dispatch takes it on 2 of its 3 shapes.\n"
                "- Something else.\n"));
  const std::string page = *read_file(tree() / "src/ops/gemm/promotions/gemm_cpu_test_20260101.md");
  EXPECT_THAT(page, HasSubstr(world.state().last_hash));
  EXPECT_THAT(page,
              HasSubstr("| m=512 n=512 k=512 | cpu_simd | 0.600x [0.500, 0.700] over 8 sessions | no: not faster |"));
  EXPECT_THAT(planned->candidate.sources[0].text, HasSubstr("speed200"));
  EXPECT_EQ(planned->version, "kernel " + *record::kernel_version(kernel_text()));
  EXPECT_THAT(promotion_diff(planned->promotion), HasSubstr("src/ops/gemm/kernel.cpp\n+ speed200 = {"));

  const auto again = apply_promotion(*planned, tree());
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().text(), HasSubstr("promoted already"));
  for (const char* name : {"gemm_cpu_test_20260101", "speed200"}) {
    const auto found = find_promotion(tree(), name);
    ASSERT_TRUE(found) << name << found.error().text();
    EXPECT_EQ(found->configuration, "speed200");
  }
  EXPECT_THAT(find_promotion(tree(), "speed300").error().text(),
              HasSubstr("it holds gemm_cpu_test_20260101 (speed200)"));
  ASSERT_TRUE(revert_promotion(planned->promotion, tree()));
  EXPECT_EQ(files(), before);
}

TEST_F(PromoteTest, OtherEditsOfTheSameFilesStayAndAnEditOfThePromotedOnesIsRefused) {
  run();
  const auto planned = plan();
  ASSERT_TRUE(planned && apply_promotion(*planned, tree()));
  write(kPath, "// Above.\n" + *read_file(tree() / kPath) + "// Below.\n");
  const std::string line = record::tuned_line(tuned(kShapes[0], 1.24));
  const std::string table = *read_file(tree() / "data/tuned/test-cpu.jsonl");
  write("data/tuned/test-cpu.jsonl", record::tuned_line(tuned(kShapes[1], 1.1)));
  const Files edited = files();
  const Status refused = revert_promotion(planned->promotion, tree());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("data/tuned/test-cpu.jsonl has changed since gemm_cpu_test_20260101"));
  EXPECT_EQ(files(), edited);
  write("data/tuned/test-cpu.jsonl", table);
  ASSERT_TRUE(revert_promotion(planned->promotion, tree()));
  EXPECT_EQ(*read_file(tree() / kPath), "// Above.\n" + kernel_text() + "// Below.\n");
}

// Killed before any effect, by every path: what is found next time is put back to what it was.
TEST_F(PromoteTest, KilledAnywhereTheTreeIsAsBefore) {
  run();
  const auto planned = plan();
  ASSERT_TRUE(planned);
  const auto killed_at = [&](int limit, auto&& change) {
    int steps = 0;
    const Status ended = change([&] { return steps++ < limit; });
    if (ended) return false;
    const auto recovered = recover_edits(tree(), *git);
    EXPECT_TRUE(recovered) << recovered.error().text();
    return true;
  };
  const Files before = files();
  int effects = 0;
  const auto promote = [&](const EditStep& step) { return apply_promotion(*planned, tree(), step); };
  for (; effects < 20 && killed_at(effects, promote); ++effects) ASSERT_EQ(files(), before) << "effect " << effects;
  EXPECT_EQ(effects, 7) << "the pending file, five files, and its end";
  const Files after = files();
  const auto take_back = [&](const EditStep& step) { return revert_promotion(planned->promotion, tree(), step); };
  for (effects = 0; effects < 20 && killed_at(effects, take_back); ++effects)
    ASSERT_EQ(files(), after) << "effect " << effects;
  EXPECT_EQ(effects, 7);
  EXPECT_EQ(files(), before);
  EXPECT_FALSE(*recover_edits(tree(), *git));
}

TEST_F(PromoteTest, WhatWasCommittedBeforeTheEndIsNotTakenBack) {
  run();
  const auto planned = plan();
  int steps = 0;
  ASSERT_FALSE(apply_promotion(*planned, tree(), [&] { return steps++ < 6; }));  // all but the end
  ASSERT_TRUE(git->commit("promoted", touched_files(planned->promotion)));
  const Files after = files();
  EXPECT_TRUE(*recover_edits(tree(), *git));
  Files rest = files();
  rest[kPendingFile] = after.at(kPendingFile);
  EXPECT_EQ(rest, after);
}

TEST_F(PromoteTest, AChangedSourceIsTakenWithTheConfigurationsOfTheTree) {
  const std::string faster = kernel_text("", "int faster;\n");
  world.proposer = ScriptedProposer(one_per_round({make_proposal({make_candidate(150, faster)})}));
  run();
  write(kPath, kernel_text("newer = { SPEED = 120 } # since the campaign\n"));
  commit_all();
  const Files before = files();
  const auto planned = plan();
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_TRUE(planned->promotion.new_source);
  EXPECT_NE(planned->promotion.source_before, planned->promotion.source_after);
  ASSERT_TRUE(apply_promotion(*planned, tree()));
  const std::string text = *read_file(tree() / kPath);
  EXPECT_THAT(text, HasSubstr("newer = { SPEED = 120 } # since the campaign\nspeed150 = {"));
  EXPECT_THAT(text, HasSubstr("int faster;\n"));
  ASSERT_TRUE(revert_promotion(planned->promotion, tree()));
  EXPECT_EQ(files(), before);
}

TEST_F(PromoteTest, AConfigurationThatIsThereIsSaidToBeTheCampaigns) {
  run();
  write(kPath, kernel_text("mine = { SPEED = 200 } # by hand\n"));
  commit_all();
  const auto planned = plan();
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_EQ(planned->promotion.configuration, "mine");
  EXPECT_FALSE(planned->promotion.new_configuration);
  EXPECT_EQ(planned->files.at(kPath),
            kernel_text("mine = { SPEED = 200, promoted = \"gemm_cpu_test_20260101, 2.00x\" } # by hand\n"));
  write(kPath, kernel_text("mine = { SPEED = 200, promoted = \"another, 1.50x\" }\n"));
  commit_all();
  const auto known = plan();
  ASSERT_TRUE(known) << known.error().text();
  EXPECT_FALSE(known->files.contains(kPath)) << "who came first stays";
}

TEST_F(PromoteTest, WhatTheTreesBuildRefusesIsPutBack) {
  run();
  const auto planned = plan();
  ASSERT_TRUE(planned);
  const Files before = files();
  Files seen;
  const Status refused = apply_promotion(*planned, tree(), {}, [&]() -> Status {
    seen = files();
    return make_error(ErrorCode::kConflict, "it does not build");
  });
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("it does not build"));
  EXPECT_THAT(seen.at(kPath), HasSubstr("speed200"));
  EXPECT_TRUE(seen.contains(kPendingFile)) << "killed while it is built, it is put back by the next call";
  EXPECT_EQ(files(), before);
}

TEST_F(PromoteTest, RefusesARecordThatProvesNothing) {
  ASSERT_TRUE(world.create());
  EXPECT_THAT(refusal(), HasSubstr("has not ended"));
  run();
  const std::string journal = *read_file(world.path() / kJournalFile);
  std::string forged = journal;
  const std::size_t at = forged.find("\"accepted\":false");
  ASSERT_NE(at, std::string::npos);
  forged.replace(at, 16, "\"accepted\":true ");
  std::ofstream(world.path() / kJournalFile, std::ios::binary) << forged;
  EXPECT_THAT(refusal(), HasSubstr("line"));
  std::ofstream(world.path() / kJournalFile, std::ios::binary) << journal;
  write("../c/logs/optimize.md", "# Better than it was\n");
  EXPECT_THAT(refusal(), HasSubstr("does not verify: logs/optimize.md"));
}

TEST_F(PromoteTest, RefusesACampaignThatAcceptedNothing) {
  world.proposer = ScriptedProposer(one_per_round({make_proposal({make_candidate(100, kernel_text("", "int x;\n"))})}));
  run();
  EXPECT_THAT(refusal(), HasSubstr("no round was accepted"));
}

TEST_F(PromoteTest, RefusesAnotherSourceADirtyTreeAndAnotherDevice) {
  run();
  const std::string changed = kernel_text("", "int kernel; // changed\n");
  write(kPath, changed);
  commit_all();
  EXPECT_THAT(refusal(), HasSubstr("src/ops/gemm/kernel.cpp is not what the campaign began from: it is " +
                                   sha256(*record::text_without_configs(changed)).substr(0, 12)));
  EXPECT_THAT(refusal(), HasSubstr(sha256(*record::text_without_configs(kernel_text())).substr(0, 12)));
  EXPECT_THAT(refusal(), HasSubstr("ridge optimize gemm --kernel src/ops/gemm/kernel.cpp"));
  write(kPath, kernel_text());
  commit_all();

  const auto planned = plan();
  ASSERT_TRUE(planned);
  write("readme.txt", "nothing to do with it\n");
  EXPECT_TRUE(check_clean(planned->promotion, *git));
  write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- Mine.\n");
  EXPECT_THAT(check_clean(planned->promotion, *git).error().text(),
              HasSubstr("CHANGELOG.md has changes that are not committed"));

  EXPECT_TRUE(check_device(world.state(), "testcpu"));
  EXPECT_THAT(check_device(world.state(), "AMD EPYC 9654").error().text(),
              HasSubstr("gemm_cpu_test_20260101 was measured on testcpu; this is amd-epyc"));
  EXPECT_THAT(check_device(world.state(), "").error().text(), HasSubstr("this machine has none"));

  fs::remove(tree() / kPath);
  EXPECT_THAT(refusal(), HasSubstr("no kernel of gemm of that name that describes itself"));
}

TEST_F(PromoteTest, APromotionReachesNoFileOutsideOfTheTree) {
  run();
  const auto planned = plan();
  ASSERT_TRUE(planned && apply_promotion(*planned, tree()));
  write("../victim.txt", "mine\n");
  record::Promotion evil = planned->promotion;
  evil.edits.push_back({"../victim.txt", "theirs\n", "mine\n", false});
  const Status refused = revert_promotion(evil, tree());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("../victim.txt"));
  EXPECT_EQ(*read_file(tree() / "../victim.txt"), "mine\n");
  write(kPendingFile, R"({"version":1,"head":"","files":[{"path":"/etc/ridge","existed":true,"text":"x"}]})");
  EXPECT_THAT(recover_edits(tree(), *git).error().text(), HasSubstr("/etc/ridge"));
}

}  // namespace
}  // namespace ridge::campaign::test
