#include "knowledge/tips.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"

namespace ridge::knowledge {
namespace {

NewTip tip(std::int64_t round) {
  return {"2026-11-21 07:30", "campaign", round, true, "gemm on a CPU", "1.8x", "pack B", "cpu gemm"};
}

class TipsTest : public testing::Test {
 protected:
  TempDir directory_ = TempDir::create("ridge-tips").value();
  std::filesystem::path path_ = directory_.path() / "x/gemm/cpu/tips.md";
};

TEST_F(TipsTest, AMissingFileIsAbsentAndNoError) {
  const Result<Tips> tips = read_tips(path_);
  ASSERT_TRUE(tips);
  EXPECT_EQ(tips->digest, "absent");
  EXPECT_TRUE(tips->entries.empty());
}

TEST_F(TipsTest, AnyH2OrH3BlockIsATip) {
  const auto entries = parse_tips("# Title\nintro\n\n## One\n- a\n\n## Group\n\n### Two\nprose\n# End\nnot a tip\n");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_TRUE(entries[0].starts_with("## One"));
  EXPECT_TRUE(entries[1].starts_with("### Two"));
}

TEST_F(TipsTest, AppendingAgainDoesNothing) {
  ASSERT_TRUE(write_file_durably(path_, "# Mine\n\n## Old\nkept\n"));
  ASSERT_TRUE(append_tips(path_, {tip(2), tip(3)}));
  const std::string once = *read_file(path_);
  ASSERT_TRUE(append_tips(path_, {tip(3), tip(2)}));
  EXPECT_EQ(*read_file(path_), once);
  EXPECT_TRUE(once.starts_with("# Mine\n\n## Old\nkept\n"));
  EXPECT_EQ(read_tips(path_)->entries.size(), 3u);
}

TEST_F(TipsTest, WhatAKilledWriterLeftIsRemoved) {
  ASSERT_TRUE(write_file_durably(path_, "# Mine\n"));
  const std::filesystem::path half = path_.string() + ".tmp-123";
  ASSERT_TRUE(write_file_durably(half, "# Mi"));
  ASSERT_TRUE(append_tips(path_, {tip(2)}));
  EXPECT_FALSE(std::filesystem::exists(half));
}

TEST_F(TipsTest, CampaignsThatEndTogetherKeepEachOthersTips) {
  constexpr int kWriters = 4, kTips = 10;
  for (int writer = 0; writer < kWriters; ++writer) {
    if (::fork() != 0) continue;
    bool good = true;
    for (int i = 0; i < kTips; ++i) good = good && append_tips(path_, {tip(writer * kTips + i)});
    ::_exit(good ? 0 : 1);
  }
  for (int writer = 0; writer < kWriters; ++writer) {
    int status = 0;
    ASSERT_GT(::wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_tips(path_)->entries.size(), static_cast<std::size_t>(kWriters * kTips));
}

TEST_F(TipsTest, RefusesEmptyFieldsAndPraiseOfIdentityCaches) {
  NewTip empty = tip(2);
  empty.signal.clear();
  EXPECT_FALSE(append_tips(path_, {empty}));
  NewTip cache = tip(2);
  cache.takeaway = "cache the quantised activation in a WeakRef dictionary";
  EXPECT_FALSE(append_tips(path_, {cache}));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TipsTest, PathsStayInsideTheFolder) {
  EXPECT_EQ(*tips_path("/e", "gfx950", "gemm", "TRITON"), "/e/gfx950/gemm/triton/tips.md");
  for (const char* part : {"..", ".", "", "a/b"}) EXPECT_FALSE(tips_path("/e", part, "gemm", "cpu"));
}

}  // namespace
}  // namespace ridge::knowledge
