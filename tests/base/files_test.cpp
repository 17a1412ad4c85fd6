#include "base/files.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/large_file.h"

namespace ridge {
namespace {

using ::testing::HasSubstr;

TEST(Files, WriteThenReadGivesTheSameBytes) {
  const TempDir directory = TempDir::create("ridge-test").value();
  const std::string content("a\0b\n", 4);
  ASSERT_TRUE(write_file_durably(directory.path() / "sub" / "file", content).ok());
  EXPECT_EQ(read_file(directory.path() / "sub" / "file").value(), content);
}

TEST(Files, AWriteLeavesNoTemporaryFileBehind) {
  const TempDir directory = TempDir::create("ridge-test").value();
  ASSERT_TRUE(write_file_durably(directory.path() / "file", "x").ok());
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path())) ++entries;
  EXPECT_EQ(entries, 1);
}

// A file-size limit makes the kernel refuse the write half-way, as a full disk does.
TEST(Files, ThreadsMayWriteTheSameFileAtOnce) {
  const auto directory = TempDir::create("ridge-files");
  ASSERT_TRUE(directory);
  const std::filesystem::path path = directory->path() / "shared";
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, content = std::string(100'000, static_cast<char>('a' + t))] {
      for (int i = 0; i < 20; ++i) failures += !write_file_durably(path, content);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  const auto text = read_file(path);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, std::string(100'000, text->front()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory->path()), {}), 1);
}

TEST(Files, AWriteThatFailsHalfWayKeepsTheOldContentAndSaysSo) {
  const TempDir directory = TempDir::create("ridge-test").value();
  const std::filesystem::path path = directory.path() / "file";
  ASSERT_TRUE(write_file_durably(path, "old").ok());
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_file_durably(path, std::string(1 << 20, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, HasSubstr(path.string()));
  EXPECT_EQ(read_file(path).value(), "old");
}

TEST(Files, AMissingFileIsNotFound) {
  const Result<std::string> result = read_file("/no/such/file");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(result.error().message, HasSubstr("/no/such/file"));
}

TEST(Files, ATemporaryDirectoryGoesWithItsObject) {
  std::filesystem::path path;
  {
    const TempDir directory = TempDir::create("ridge-test").value();
    path = directory.path();
    ASSERT_TRUE(write_file_durably(path / "file", "x").ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Hash, MatchesTheStandardsTestVectors) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, SecretSeedsDiffer) { EXPECT_NE(secret_seed(), secret_seed()); }

TEST(Clock, FormatsMinutesAndDurations) {
  EXPECT_EQ(format_minute(0), "1970-01-01 00:00");
  EXPECT_EQ(format_day(1'763'712'000), "20251121");
  EXPECT_EQ(format_duration(0.0000005), "500 ns");
  EXPECT_EQ(format_duration(0.85), "850.0 ms");
  EXPECT_EQ(format_duration(59.94), "59.9 s");
  EXPECT_EQ(format_duration(59.96), "1 min 0 s");
  EXPECT_EQ(format_duration(88), "1 min 28 s");
  EXPECT_EQ(format_duration(252), "4 min 12 s");
  EXPECT_EQ(format_duration(3599.4), "59 min 59 s");
  EXPECT_EQ(format_duration(3960), "1 h 6 min");
}

// A named pipe hung every reader for ever, and /dev/zero filled the memory.
TEST(Files, ReadsRegularFilesOnly) {
  const TempDir directory = TempDir::create("ridge-files").value();
  const std::filesystem::path pipe = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [path, kind] :
       {std::pair(pipe, "a named pipe"), std::pair(std::filesystem::path("/dev/zero"), "a device"),
        std::pair(directory.path(), "a folder")}) {
    const Result<std::string> read = read_file(path);
    ASSERT_FALSE(read) << path;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(read.error().message.find(kind), std::string::npos) << read.error().message;
    EXPECT_FALSE(check_regular_file(path, kUsualFileBytes));
  }
  EXPECT_FALSE(read_file("/proc/self/status")->empty());  // a regular file of size 0, says the kernel
}

TEST(Files, ReadsNoMoreThanWasAgreed) {
  const TempDir directory = TempDir::create("ridge-files").value();
  ASSERT_TRUE(write_file_durably(directory.path() / "file", std::string(1000, 'x')));
  EXPECT_EQ(read_file_up_to(directory.path() / "file", 1000)->size(), 1000u);
  const Result<std::string> read = read_file_up_to(directory.path() / "file", 999);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("holds 1000 bytes, and at most 999 bytes"), std::string::npos)
      << read.error().message;
  std::filesystem::resize_file(directory.path() / "file", std::uintmax_t{100} << 30);  // takes no room on the disk
  EXPECT_NE(read_file(directory.path() / "file").error().message.find("at most 64 MiB"), std::string::npos);
}

}  // namespace
}  // namespace ridge
