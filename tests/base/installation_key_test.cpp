#include "base/installation_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>
#include <thread>

#include "base/files.h"

namespace ridge {
namespace {

using ::testing::HasSubstr;

class InstallationKey : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path folder() const { return directory_.path() / "state" / "ridge"; }
  [[nodiscard]] std::filesystem::path file() const { return folder() / "key"; }
  std::string refusal() {
    const Result<std::string> key = installation_key(folder());
    return key ? "no error" : key.error().text();
  }
  TempDir directory_ = TempDir::create("ridge-key").value();
};

TEST_F(InstallationKey, IsMadeOnceForItsUserAlone) {
  const std::string key = installation_key(folder()).value();
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(installation_key(folder()).value(), key);
  struct stat status {};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  ASSERT_EQ(::stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder()), {}), 1) << "no temporary file is left";
}

TEST_F(InstallationKey, IsTheSameForAllWhoMakeItAtOnce) {
  std::vector<std::string> keys(8);
  std::vector<std::thread> threads;
  for (std::string& key : keys) threads.emplace_back([&] { key = installation_key(folder()).value(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 1u);
}

TEST_F(InstallationKey, IsNotUsedWhenOthersCouldReadOrReplaceIt) {
  ASSERT_TRUE(installation_key(folder()).ok());
  std::filesystem::permissions(file(), std::filesystem::perms(0640));
  EXPECT_THAT(refusal(), HasSubstr("its mode is 640"));
  EXPECT_THAT(refusal(), HasSubstr("remove it"));
  std::filesystem::permissions(file(), std::filesystem::perms(0600));
  std::ofstream(file(), std::ios::app) << "x";
  EXPECT_THAT(refusal(), HasSubstr("33 bytes"));
  std::filesystem::remove(file());
  std::filesystem::create_symlink("/etc/hostname", file());
  EXPECT_THAT(refusal(), HasSubstr("is not used"));
  std::filesystem::remove(file());
  std::filesystem::permissions(folder(), std::filesystem::perms(0777));
  EXPECT_THAT(refusal(), HasSubstr("RIDGE_STATE_DIR"));
}

TEST(Hmac, IsThatOfRfc4231) {
  EXPECT_EQ(hmac_sha256("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_TRUE(same_tag("abc", "abc"));
  EXPECT_FALSE(same_tag("abc", "abd"));
  EXPECT_FALSE(same_tag("abc", "ab"));
}

}  // namespace
}  // namespace ridge
