// Packs: what goes in comes out, by its key alone, and damage is an error that names the file.
#include "record/kernel_pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"

namespace ridge::record {
namespace {

using ::testing::HasSubstr;

class Packs : public ::testing::Test {
 protected:
  void SetUp() override {
    KernelPack pack;
    pack.header.arch = "sm_90a";
    pack.header.compiler = "a compiler";
    pack.kernels = {{"aa11", "a.cu", {"N=1"}}, {"bb22", "b.cu", {}}, {"cc33", "b.cu", {"X=2"}}};
    text_ = pack_text(pack, {std::string("one\n\n\0", 6), "", "three"});
    write(text_);
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  [[nodiscard]] std::string head() const { return *read_pack_head(path_); }

  TempDir folder_ = TempDir::create("ridge-pack").value();
  std::filesystem::path path_ = folder_.path() / "test.pack";
  std::string text_;
};

TEST_F(Packs, GiveBackEveryKernelByItsKey) {
  const auto pack = parse_pack(head(), "test.pack");
  ASSERT_TRUE(pack) << pack.error().text();
  EXPECT_EQ(pack->header.kernels, 3);
  EXPECT_EQ(pack->header.arch, "sm_90a");
  for (const auto& [key, code] : {std::pair("aa11", std::string("one\n\n\0", 6)), {"bb22", ""}, {"cc33", "three"}}) {
    const auto kernel = find_packed(head(), key);
    ASSERT_TRUE(kernel) << key;
    EXPECT_EQ(read_packed(path_, head().size(), *kernel).value(), code);
  }
  EXPECT_FALSE(find_packed(head(), "aa1")) << "a part of a key";
  EXPECT_FALSE(find_packed(head(), "dd44"));
}

TEST_F(Packs, AChangedByteIsFound) {
  std::string changed = text_;
  changed[changed.size() - 2] ^= 1;
  write(changed);
  const auto code = read_packed(path_, head().size(), *find_packed(head(), "cc33"));
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().text(), HasSubstr("the code of b.cu (cc33) does not have the digest it was packed with"));
  EXPECT_TRUE(read_packed(path_, head().size(), *find_packed(head(), "aa11")));
}

TEST_F(Packs, AnyCutIsAnErrorAndNeverACrash) {
  for (std::size_t size = 0; size < text_.size(); ++size) {
    write(text_.substr(0, size));
    const auto cut = read_pack_head(path_);
    if (!cut) continue;
    const auto kernel = find_packed(*cut, "cc33");
    ASSERT_TRUE(kernel);
    EXPECT_FALSE(read_packed(path_, cut->size(), *kernel)) << size;
  }
}

TEST_F(Packs, OtherFilesAndVersionsAreNamed) {
  write("something else\n\n");
  EXPECT_THAT(read_pack_head(path_).error().text(), HasSubstr("test.pack is no kernel pack"));
  EXPECT_THAT(read_pack_head(folder_.path() / "none").error().text(), HasSubstr("none: No such file"));
  std::string newer = text_;
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":9");
  write(newer);
  EXPECT_THAT(parse_pack(head(), "t.pack").error().text(), HasSubstr("version 9, this program reads version 1"));
  std::string fewer = text_;
  fewer.replace(fewer.find("\"kernels\":3"), 11, "\"kernels\":4");
  write(fewer);
  EXPECT_THAT(parse_pack(head(), "t.pack").error().text(), HasSubstr("lists 3 kernels, its header says 4"));
}

}  // namespace
}  // namespace ridge::record
