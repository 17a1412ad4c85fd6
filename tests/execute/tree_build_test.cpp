// The library's build in a source tree: a folder of CMake's for that tree and no other, what a build says, and the
// compile check's three answers.
#include "execute/tree_build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

class TreeBuild : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((tree() / path).parent_path());
    std::ofstream(tree() / path) << text;
  }
  // A project of two targets, of which one fails, as CMake configures it.
  void configure() {
    write("CMakeLists.txt",
          "cmake_minimum_required(VERSION 3.25)\nproject(tree LANGUAGES NONE)\n"
          "add_custom_target(good COMMAND ${CMAKE_COMMAND} -E touch made)\n"
          "add_custom_target(bad COMMAND ${CMAKE_COMMAND} -E echo kernel.cpp:7: error && false)\n");
    const std::string command = "cmake -S " + tree().string() + " -B " + (tree() / "build").string() + " >/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  [[nodiscard]] fs::path tree() const { return directory.path() / "tree"; }

  TempDir directory = TempDir::create("ridge-tree-build").value();
  std::vector<std::string> lines;
  TreeCommand aloud{[this](std::string_view line) { lines.emplace_back(line); }, {}};
};

TEST_F(TreeBuild, IsTheFolderThatCMakeConfiguredForThisTree) {
  EXPECT_THAT(configured_build(tree()).error().text(), HasSubstr("build is no folder that CMake configured"));
  configure();
  EXPECT_EQ(*configured_build(tree()), tree() / "build");
  fs::rename(tree(), directory.path() / "moved");
  fs::create_directories(tree());
  EXPECT_THAT(configured_build(directory.path() / "moved").error().text(),
              HasSubstr("was configured for the tree " + tree().string()));
}

TEST_F(TreeBuild, BuildsAloudAndAnErrorEndsInWhatWasSaid) {
  configure();
  ASSERT_TRUE(build_targets(tree() / "build", {"good"}, aloud));
  EXPECT_TRUE(fs::exists(tree() / "build/made"));
  EXPECT_THAT(lines, Contains(HasSubstr("good")));
  const Status failed = build_targets(tree() / "build", {"good", "bad"}, aloud);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().text(), HasSubstr("kernel.cpp:7: error"));
}

TEST_F(TreeBuild, AKernelThatSpillsIsNoKernelThatCouldNotBeCompiled) {
  write("tools/check_kernels.py",
        "import sys\nprint('kernel:', sys.argv[1])\nsys.exit({'a:good/': 0, 'a:bad/': 1}.get(sys.argv[1], 77))\n");
  EXPECT_TRUE(check_kernel_builds(tree(), "a:good/", aloud));
  EXPECT_THAT(lines, Contains("kernel: a:good/"));
  const Status spilled = check_kernel_builds(tree(), "a:bad/", aloud);
  ASSERT_FALSE(spilled);
  EXPECT_EQ(spilled.error().code, ErrorCode::kToolFailed);
  EXPECT_THAT(spilled.error().text(), HasSubstr("kernel: a:bad/"));
  const Status skipped = check_kernel_builds(tree(), "a:else/", aloud);
  ASSERT_FALSE(skipped);
  EXPECT_EQ(skipped.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace ridge::execute
