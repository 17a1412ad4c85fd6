#include "base/inside.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"

namespace ridge {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Inside : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(base_.ok());
    fs::create_directories(folder_);
    fs::create_directory_symlink(base_->path(), folder_ / "link");
    fs::create_symlink(folder_ / "circle", folder_ / "circle");
  }
  Result<TempDir> base_ = TempDir::create("ridge-test");
  fs::path folder_ = base_->path() / "out";
};

TEST_F(Inside, AFolderAndWhatIsBelowItAlsoBeforeItIsThere) {
  EXPECT_TRUE(lies_in(folder_, folder_));
  EXPECT_TRUE(lies_in(folder_ / "a/b", folder_));
  EXPECT_TRUE(lies_in(folder_ / "a/../b", folder_));
  EXPECT_TRUE(lies_in(folder_ / "link/out/a", folder_)) << "out of it and in again";
  EXPECT_FALSE(lies_in(base_->path() / "outside", folder_)) << "a name that begins alike";
  EXPECT_FALSE(lies_in(base_->path(), folder_));
}

TEST_F(Inside, LinksInCirclesLieNowhere) {
  EXPECT_FALSE(lies_in(folder_ / "circle/a", folder_));
  EXPECT_FALSE(lies_in("/etc/passwd", folder_ / "circle"));
  EXPECT_FALSE(lies_in(folder_ / "circle", folder_ / "circle"));
}

TEST_F(Inside, NothingIsWrittenElsewhereWhateverPathsARecordOfOthersNames) {
  for (const std::string& path :
       {std::string("../escaped"), (base_->path() / "escaped").string(), std::string("link/escaped")}) {
    const Status refused = write_inside(folder_, path, "x");
    ASSERT_FALSE(refused) << path;
    EXPECT_THAT(refused.error().text(), HasSubstr(path + " leads out of"));
    EXPECT_FALSE(fs::exists(base_->path() / "escaped")) << path;
  }
  EXPECT_TRUE(write_inside(folder_, "a/b", "x"));
  EXPECT_EQ(*read_file(folder_ / "a/b"), "x");
}

}  // namespace
}  // namespace ridge
