#include "base/signature.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/process.h"

namespace ridge {
namespace {

class SignatureTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path at(const char* name) const { return directory_.path() / name; }
  TempDir directory_ = TempDir::create("ridge-signature").value();
};

TEST_F(SignatureTest, HoldsForItsMessageAndKeyAlone) {
  const SigningKey key = SigningKey::generate(), other = SigningKey::generate();
  const std::string signature = key.sign("head");
  EXPECT_TRUE(is_signed("head", signature, key.public_key()));
  EXPECT_FALSE(is_signed("Head", signature, key.public_key()));
  EXPECT_FALSE(is_signed("head", signature, other.public_key()));
  EXPECT_FALSE(is_signed("head", other.sign("head"), key.public_key()));
  for (std::size_t i = 0; i < signature.size(); ++i) {
    std::string bent = signature;
    bent[i] = bent[i] == '0' ? '1' : '0';
    EXPECT_FALSE(is_signed("head", bent, key.public_key())) << i;
  }
  for (const char* no_hex : {"", "zz", "00"}) {
    EXPECT_FALSE(is_signed("head", no_hex, key.public_key()));
    EXPECT_FALSE(is_signed("head", signature, no_hex));
  }
}

// RFC 8032, 7.1, test 2.
TEST_F(SignatureTest, AgreesWithThePublishedVector) {
  EXPECT_TRUE(
      is_signed("\x72",
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
                "387b2eaeb4302aeeb00d291612bb0c00",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"));
}

TEST_F(SignatureTest, AKeySurvivesItsFileAndIsNeverOverwritten) {
  const SigningKey key = SigningKey::generate();
  ASSERT_TRUE(key.write_new(at("key")));
  struct stat facts {};
  ASSERT_EQ(::stat(at("key").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_EQ(SigningKey::read(at("key"))->public_key(), key.public_key());
  EXPECT_EQ(*read_public_key(at("key.pub")), key.public_key());
  EXPECT_EQ(*read_public_key(at("key")), key.public_key());
  EXPECT_EQ(SigningKey::generate().write_new(at("key")).error().code, ErrorCode::kConflict);
  EXPECT_EQ(SigningKey::read(at("key"))->public_key(), key.public_key());
}

TEST_F(SignatureTest, RefusesAKeyThatOthersMayReadAndFilesThatAreNone) {
  ASSERT_TRUE(SigningKey::generate().write_new(at("key")));
  ASSERT_EQ(::chmod(at("key").c_str(), 0644), 0);
  EXPECT_NE(SigningKey::read(at("key")).error().hint.find("chmod 600"), std::string::npos);
  ASSERT_TRUE(write_file_durably(at("text"), "no key"));
  EXPECT_FALSE(read_public_key(at("text")));
  ASSERT_EQ(::chmod(at("text").c_str(), 0600), 0);
  EXPECT_FALSE(SigningKey::read(at("text")));
  EXPECT_EQ(SigningKey::read(at("absent")).error().code, ErrorCode::kNotFound);
}

// The files are those of the openssl program, and so is the signature.
TEST_F(SignatureTest, TheOpensslProgramReadsTheKeyAndAgrees) {
  if (find_program("openssl").empty()) GTEST_SKIP() << "no openssl program here";
  const SigningKey key = SigningKey::generate();
  ASSERT_TRUE(key.write_new(at("key")));
  ASSERT_TRUE(write_file_durably(at("message"), "head"));
  const auto openssl = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "openssl");
    return run_process({.argv = std::move(arguments)})->succeeded();
  };
  ASSERT_TRUE(
      openssl({"pkeyutl", "-sign", "-rawin", "-inkey", at("key"), "-in", at("message"), "-out", at("signature")}));
  EXPECT_EQ(to_hex(*read_file(at("signature"))), key.sign("head"));
  ASSERT_TRUE(openssl({"genpkey", "-algorithm", "ed25519", "-out", at("theirs")}));
  ASSERT_EQ(::chmod(at("theirs").c_str(), 0600), 0);
  EXPECT_TRUE(SigningKey::read(at("theirs")));
  ASSERT_TRUE(openssl({"genpkey", "-algorithm", "RSA", "-out", at("rsa")}));
  ASSERT_EQ(::chmod(at("rsa").c_str(), 0600), 0);
  EXPECT_FALSE(SigningKey::read(at("rsa")));
}

}  // namespace
}  // namespace ridge
