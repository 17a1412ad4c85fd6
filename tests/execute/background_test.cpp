#include "execute/background.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "base/files.h"

namespace ridge::execute {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Background, AProgramThatGoesOnIsInASessionOfItsOwnAndWritesItsLog) {
  const Result<TempDir> folder = TempDir::create("ridge-background");
  ASSERT_TRUE(folder.ok());
  const auto log = folder->path() / "deep" / "log";
  const Status started = start_in_background({"sh", "-c", "cut -d' ' -f1,6 /proc/$$/stat; exec sleep 30"}, log, 0.3);
  ASSERT_TRUE(started.ok()) << started.error().text();
  const Result<std::string> text = read_file(log);
  ASSERT_TRUE(text.ok());
  long process = 0, session = 0;
  ASSERT_EQ(std::sscanf(text->c_str(), "%ld %ld", &process, &session), 2) << *text;
  EXPECT_EQ(process, session);
  ::kill(static_cast<pid_t>(process), SIGKILL);
}

TEST(Background, OneThatEndsAtOnceSaysWhy) {
  const Result<TempDir> folder = TempDir::create("ridge-background");
  ASSERT_TRUE(folder.ok());
  const Status failed = start_in_background({"sh", "-c", "echo it is locked >&2; exit 7"}, folder->path() / "log", 5);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message, AllOf(HasSubstr("ended at once"), HasSubstr("it is locked")));
  EXPECT_FALSE(start_in_background({"no-such-program-here"}, folder->path() / "log").ok());
  EXPECT_TRUE(start_in_background({"true"}, folder->path() / "log", 5).ok());
}

}  // namespace
}  // namespace ridge::execute
