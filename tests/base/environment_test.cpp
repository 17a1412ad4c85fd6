#include "base/environment.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace ridge {
namespace {

// Sets variables for one test.
class CacheDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"RIDGE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      before_[name] = value != nullptr ? std::optional<std::string>(value) : std::nullopt;
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(CacheDirectory, IsTheFirstThatTheEnvironmentNames) {
  setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(default_cache_directory(), "/home/someone/.cache/ridge");
  setenv("XDG_CACHE_HOME", "/var/cache/someone", 1);
  EXPECT_EQ(default_cache_directory(), "/var/cache/someone/ridge");
  setenv("RIDGE_CACHE_DIR", "/fast/disk", 1);
  EXPECT_EQ(default_cache_directory(), "/fast/disk");
}

TEST_F(CacheDirectory, IsTheSameWithAnEmptyHomeAsWithout) {
  const std::filesystem::path without = default_cache_directory();
  setenv("HOME", "", 1);
  EXPECT_EQ(default_cache_directory(), without);
  EXPECT_TRUE(without.is_absolute());
  if (const passwd* user = getpwuid(geteuid()); user != nullptr && user->pw_dir[0] != '\0') {
    EXPECT_EQ(without, std::filesystem::path(user->pw_dir) / ".cache/ridge");
  }
}

}  // namespace
}  // namespace ridge
