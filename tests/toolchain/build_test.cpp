#include "toolchain/build.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/confinement.h"
#include "base/files.h"
#include "base/hash.h"
#include "toolchain/cache.h"
#include "toolchain/dependencies.h"
#include "toolchain/flags.h"

namespace ridge::toolchain {
namespace {

using ::testing::HasSubstr;

record::Candidate candidate_of(const std::string& text) {
  record::Candidate candidate;
  candidate.op = "gemm";
  candidate.sources = {{"kernel.cpp", "#include \"ridge/candidate.h\"\n" + text}};
  return candidate;
}

class BuildTest : public ::testing::Test {
 protected:
  Build build_of(const record::Candidate& candidate) {
    auto result = build(candidate, *compiler_, {.cache_directory = directory_->path(), .timeout = 20.0});
    EXPECT_TRUE(result.ok()) << result.error().text();
    return result.ok() ? std::move(*result) : Build{};
  }
  Result<TempDir> directory_ = TempDir::create("ridge-test");
  Result<Compiler> compiler_ = find_host_compiler();
};

TEST_F(BuildTest, BuildsAnObjectThatCanBeCalled) {
  record::Candidate candidate =
      candidate_of("#include \"part/size.h\"\nint ridge_kernel(const ridge_call*) { return SIZE + kOne; }");
  candidate.sources.push_back({"part/size.h", "constexpr int kOne = 1;\n"});
  candidate.defines["SIZE"] = 41;
  const Build build = build_of(candidate);
  ASSERT_TRUE(build.ok()) << build.error;
  void* library = ::dlopen(build.artifact.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto kernel = reinterpret_cast<int (*)(const void*)>(::dlsym(library, "ridge_kernel"));
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel(nullptr), 42);
  ::dlclose(library);
  EXPECT_EQ(*sha256_file(build.artifact), build.evidence.artifact);
  EXPECT_THAT(build.evidence.command, HasSubstr("-DSIZE=41"));
}

TEST_F(BuildTest, TakesTheSecondBuildFromTheCache) {
  const record::Candidate candidate = candidate_of("int ridge_kernel(const ridge_call*) { return 0; }");
  const Build first = build_of(candidate), second = build_of(candidate);
  EXPECT_FALSE(first.evidence.cached);
  EXPECT_TRUE(second.evidence.cached);
  EXPECT_EQ(first.artifact, second.artifact);
  EXPECT_EQ(first.evidence.counts, second.evidence.counts);
}

TEST_F(BuildTest, BuildsAgainWhenAnArtefactWasTamperedWith) {
  const record::Candidate candidate = candidate_of("int ridge_kernel(const ridge_call*) { return 0; }");
  const Build first = build_of(candidate);
  std::ofstream(first.artifact, std::ios::app) << "x";
  const Build second = build_of(candidate);
  EXPECT_FALSE(second.evidence.cached);
  EXPECT_EQ(*sha256_file(second.artifact), second.evidence.artifact);
}

// Ways to compile something that is not in the record: a file that anyone may change after the object was cached.
class ReachOut : public BuildTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(outside());
    std::filesystem::permissions(directory_->path(), std::filesystem::perms(0755));
    std::ofstream(outside() / "value.h") << "enum { VALUE = 1 };\n";
    ways_ = {{"include", "#include \"" + (outside() / "value.h").string() + "\"\n", "value.h"},
             {"macro", "#define H \"" + (outside() / "value.h").string() + "\"\n#include H\n", "value.h"},
             {"upwards", "#include \"../../../../../../.." + (outside() / "value.h").string() + "\"\n", "value.h"},
             {"incbin", "enum { VALUE = 2 }; asm(\".incbin \\\"" + (outside() / "value.h").string() + "\\\"\");\n",
              "value.h"},
             {"built directive",
              "enum { VALUE = 3 }; asm(\".macro x a, b\\n .\\\\a\\\\b \\\"" + (outside() / "value.h").string() +
                  "\\\"\\n.endm\\n x inc, bin\\n\");\n",
              "value.h"}};
  }
  [[nodiscard]] std::filesystem::path outside() const { return directory_->path() / "outside"; }
  Build build_with(const std::string& text, bool confined, bool declared_only) {
    const auto result =
        build(candidate_of(text + "int ridge_kernel(const ridge_call*) { return VALUE; }"), *compiler_,
              {.cache_directory = directory_->path() / "cache", .confined = confined, .declared_only = declared_only});
    EXPECT_TRUE(result.ok()) << result.error().text();
    return result.ok() ? *result : Build{};
  }
  struct Way {
    std::string name, text, says;
  };
  std::vector<Way> ways_;
};

TEST_F(ReachOut, AFileThatIsNotDeclaredIsRefusedByName) {
  for (const Way& way : ways_) {
    for (const bool confined : {true, false}) {
      const Build build = build_with(way.text, confined, true);
      EXPECT_FALSE(build.ok()) << way.name;
      EXPECT_THAT(build.error, HasSubstr(way.says)) << way.name << (confined ? ", confined" : "");
    }
  }
}

TEST_F(ReachOut, ReachesWhereNothingIsDoneAboutIt) {
  for (const Way& way : ways_) EXPECT_TRUE(build_with(way.text, false, false).ok()) << way.name;
}

TEST_F(ReachOut, TheNameSpacesAloneKeepItIn) {
  if (!why_not_confined().empty()) GTEST_SKIP() << why_not_confined();
  for (const Way& way : ways_) EXPECT_FALSE(build_with(way.text, true, false).ok()) << way.name;
  const Build asked = build_with("#if __has_include(\"" + (outside() / "value.h").string() +
                                     "\")\n#error it is there\n#endif\nenum { VALUE = 1 };\n",
                                 true, true);
  EXPECT_TRUE(asked.ok()) << asked.error;
}

TEST_F(ReachOut, TheUsersVariablesDoNotChangeWhatIsRead) {
  ::setenv("CPLUS_INCLUDE_PATH", outside().c_str(), 1);
  const Build build = build_with("#include <value.h>\n", false, true);
  ::unsetenv("CPLUS_INCLUDE_PATH");
  EXPECT_FALSE(build.ok());
}

TEST_F(ReachOut, HonestSourcesAreNotTouchedByIt) {
  record::Candidate honest = candidate_of(
      "#include <vector>\n#include <immintrin.h>\n#include \"part/../a b.h\"\n#define H \"part/c.h\"\n"
      "#include H\n#include <ridge/candidate.h>\nint ridge_kernel(const ridge_call*) { return A + C; }");
  honest.sources.push_back({"a b.h", "enum { A = 1 };\n"});
  honest.sources.push_back({"part/c.h", "#include \"d.h\"\nasm(\".incbin \\\"part/d.h\\\"\");\n"});
  honest.sources.push_back({"part/d.h", "enum { C = 1 };\n"});
  for (const bool confined : {true, false}) {
    const auto result = build(honest, *compiler_,
                              {.cache_directory = directory_->path() / (confined ? "a" : "b"), .confined = confined});
    ASSERT_TRUE(result.ok());
    EXPECT_TRUE(result->ok()) << result->error;
  }
  const std::string in = build_with("enum { VALUE = 4 };\n", true, true).evidence.artifact;
  std::filesystem::remove_all(directory_->path() / "cache");
  EXPECT_EQ(build_with("enum { VALUE = 4 };\n", false, true).evidence.artifact, in)
      << "the same object with and without";
}

TEST(Dependencies, AreReadAsTheCompilerWritesThem) {
  EXPECT_EQ(read_dependencies("o.o: k.cpp \\\n a\\ b.h c$$d.h\no2: /x/y\n"),
            (std::vector<std::string>{"k.cpp", "a b.h", "c$d.h", "/x/y"}));
  const std::vector<std::string> declared = {"k.cpp", "part/h.h"};
  const std::vector<std::filesystem::path> folders = {"/usr/include"};
  EXPECT_EQ(undeclared({"k.cpp", "./part/h.h", "/usr/include/c++/12/vector"}, "/tmp", declared, folders), std::nullopt);
  EXPECT_EQ(undeclared({"k.cpp", "/usr/includes/x.h"}, "/tmp", declared, folders), "/usr/includes/x.h");
  EXPECT_EQ(undeclared({"/usr/include/../../etc/passwd"}, "/tmp", declared, folders), "/usr/include/../../etc/passwd");
  EXPECT_EQ(undeclared({"other.h"}, "/tmp", declared, folders), "other.h");
}

// What a red team did: an object of its own in the place of a cached one, and the digest that lies beside it made to
// fit.
class CacheAttack : public BuildTest {
 protected:
  void SetUp() override {
    ::setenv("RIDGE_STATE_DIR", (directory_->path() / "state").c_str(), 1);
    honest_ = candidate_of("int ridge_kernel(const ridge_call*) { return 1; }");
    first_ = build_of(honest_);
  }
  void TearDown() override { ::unsetenv("RIDGE_STATE_DIR"); }

  // Puts an object that returns 2 where the honest one lies, and everything that lies beside it.
  void replace_entry() {
    const Build other = build_of(candidate_of("int ridge_kernel(const ridge_call*) { return 2; }"));
    const std::filesystem::path from = other.artifact.parent_path(), to = first_.artifact.parent_path();
    for (const char* name : {"kernel.so", "evidence.json", "tag"}) {
      std::filesystem::copy_file(from / name, to / name, std::filesystem::copy_options::overwrite_existing);
    }
  }
  static int returned_by(const Build& build) {
    void* library = ::dlopen(build.object->path().c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << ::dlerror();
    if (library == nullptr) return -1;
    const int value = reinterpret_cast<int (*)(const void*)>(::dlsym(library, "ridge_kernel"))(nullptr);
    ::dlclose(library);
    return value;
  }
  record::Candidate honest_;
  Build first_;
};

TEST_F(CacheAttack, AnObjectThatWasReplacedWithItsDigestIsBuiltAgain) {
  replace_entry();
  const Build second = build_of(honest_);
  EXPECT_EQ(returned_by(second), 1);
  EXPECT_FALSE(second.evidence.cached);
  EXPECT_EQ(second.evidence.counts.at(kRefusedEntries), 1);
  EXPECT_THAT(second.evidence.log, HasSubstr("not of this installation's key"));
  const Build third = build_of(honest_);  // and the entry is ours again
  EXPECT_TRUE(third.evidence.cached);
  EXPECT_FALSE(third.evidence.counts.contains(kRefusedEntries));
}

TEST_F(CacheAttack, PassesWhereTheTagIsNotAskedFor) {
  replace_entry();
  const auto second = build(honest_, *compiler_, {.cache_directory = directory_->path(), .authenticated = false});
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->evidence.cached);
  EXPECT_EQ(returned_by(*second), 2);
}

TEST_F(CacheAttack, AnEntryWithoutATagOrOfAnotherKeyIsBuiltAgain) {
  std::filesystem::remove(first_.artifact.parent_path() / "tag");
  EXPECT_THAT(build_of(honest_).evidence.log, HasSubstr("no tag"));
  std::filesystem::remove(directory_->path() / "state" / "key");
  const Build other_key = build_of(honest_);
  EXPECT_FALSE(other_key.evidence.cached);
  EXPECT_EQ(other_key.evidence.counts.at(kRefusedEntries), 1);
}

TEST_F(CacheAttack, NothingIsBelievedNorKeptWithoutAKey) {
  std::filesystem::permissions(directory_->path() / "state" / "key", std::filesystem::perms(0644));
  for (int i = 0; i < 2; ++i) {
    const Build build = build_of(honest_);
    EXPECT_FALSE(build.evidence.cached);
    EXPECT_EQ(returned_by(build), 1);
    EXPECT_THAT(build.evidence.log, HasSubstr("its mode is 644"));
  }
}

TEST_F(CacheAttack, WhatWasVerifiedIsWhatIsLoaded) {
  replace_entry();
  EXPECT_EQ(returned_by(first_), 1) << "the object in memory is not the file";
  const int fd = ::open(first_.object->path().c_str(), O_RDWR);
  EXPECT_LT(::write(fd, "x", 1), 0) << "and no one can write to it";
  ::close(fd);
}

TEST_F(CacheAttack, ABuildPastTheCacheComesOutTheSameAndSeesNoCache) {
  replace_entry();
  const BuildOptions past{.cache_directory = directory_->path(), .past_cache = true};
  const auto again = build(honest_, *compiler_, past);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->evidence.cached);
  EXPECT_EQ(again->evidence.artifact, first_.evidence.artifact) << "gcc is deterministic with these flags";
  EXPECT_EQ(returned_by(*again), 1);
  record::Candidate dated = candidate_of("int ridge_kernel(const ridge_call*) { return __TIME__[0] + __DATE__[0]; }");
  EXPECT_EQ(build(dated, *compiler_, past)->evidence.artifact, build_of(dated).evidence.artifact);
}

TEST_F(BuildTest, ArtefactChangesWithEveryDefineFlagAndHeader) {
  record::Candidate candidate = candidate_of("#include \"h.h\"\nint ridge_kernel(const ridge_call*) { return A + H; }");
  candidate.sources.push_back({"h.h", "enum { H = 1 };"});
  candidate.defines["A"] = 1;
  const std::filesystem::path base = build_of(candidate).artifact;
  record::Candidate define = candidate, flag = candidate, header = candidate;
  define.defines["A"] = 2;
  flag.flags = {"-funroll-loops"};
  header.sources[1].text = "enum { H = 2 };";
  for (const record::Candidate& changed : {define, flag, header}) EXPECT_NE(build_of(changed).artifact, base);
}

TEST_F(BuildTest, ReportsTheFirstErrorWithItsLine) {
  const Build build = build_of(candidate_of("int ridge_kernel(const ridge_call* call) {\n  return call->nonsense;\n}"));
  EXPECT_FALSE(build.ok());
  EXPECT_THAT(build.error, HasSubstr("kernel.cpp:3:"));
  EXPECT_THAT(build.error, HasSubstr("nonsense"));
  EXPECT_THAT(build.evidence.log, HasSubstr("error"));
}

TEST_F(BuildTest, RefusesACandidateWithoutItsEntryPoint) {
  const Build build = build_of(candidate_of("int other() { return 0; }"));
  EXPECT_FALSE(build.ok());
  EXPECT_THAT(build.error, HasSubstr("ridge_kernel"));
}

TEST_F(BuildTest, StopsACompilationThatNeverEnds) {
  const record::Candidate candidate = candidate_of(
      "template <int N> struct A { static constexpr unsigned long v = A<N - 1>::v + A<N - 1>::w, w = v; };\n"
      "constexpr unsigned long spin() { unsigned long s = 0; for (unsigned long i = 0; i < 1ul << 40; ++i) s += i; "
      "return s; }\n"
      "constexpr unsigned long x = spin();\nint ridge_kernel(const ridge_call*) { return (int)x; }");
  record::Candidate slow = candidate;
  slow.flags = {"-fconstexpr-ops-limit=1099511627776", "-fconstexpr-loop-limit=2147483647"};
  const auto result = build(slow, *compiler_, {.cache_directory = directory_->path(), .timeout = 0.3});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->error, HasSubstr("timed out"));
}

TEST_F(BuildTest, RefusesPathsFlagsAndDefinesThatReachOut) {
  record::Candidate good = candidate_of("int ridge_kernel(const ridge_call*) { return 0; }");
  const auto error_of = [&](auto change) {
    record::Candidate candidate = good;
    change(candidate);
    return build_of(candidate).error;
  };
  EXPECT_THAT(error_of([](auto& c) { c.sources.push_back({"../x.h", ""}); }), HasSubstr("../x.h"));
  EXPECT_THAT(error_of([](auto& c) { c.sources.push_back({"/tmp/x.h", ""}); }), HasSubstr("/tmp/x.h"));
  EXPECT_THAT(error_of([](auto& c) { c.sources.push_back({"ridge/candidate.h", ""}); }), HasSubstr("reserved"));
  EXPECT_THAT(error_of([](auto& c) { c.flags = {"-fplugin=x.so"}; }), HasSubstr("-fplugin=x.so"));
  EXPECT_THAT(error_of([](auto& c) { c.flags = {"-I/etc"}; }), HasSubstr("-I/etc"));
  EXPECT_THAT(error_of([](auto& c) { c.defines["A B"] = 1; }), HasSubstr("A B"));
  EXPECT_THAT(error_of([](auto& c) { c.sources.clear(); }), HasSubstr("no source"));
  EXPECT_THAT(error_of([](auto& c) { c.backend = "cuda"; }), HasSubstr("cuda"));
}

TEST_F(BuildTest, BuildsManyAtOnceInOrder) {
  std::vector<record::Candidate> candidates;
  for (int i = 0; i < 4; ++i) {
    candidates.push_back(candidate_of("int ridge_kernel(const ridge_call*) { return VALUE; }"));
    candidates.back().defines["VALUE"] = i % 2;  // two pairs race for the same cache entry
  }
  const auto results = build_all(candidates, *compiler_, {.cache_directory = directory_->path(), .timeout = 20.0}, 2);
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(results[i].ok());
    EXPECT_TRUE(results[i]->ok()) << results[i]->error;
    EXPECT_EQ(results[i]->evidence.candidate, candidates[i].id());
  }
  EXPECT_EQ(results[0]->artifact, results[2]->artifact);
  EXPECT_TRUE(std::filesystem::is_empty(directory_->path() / "building"));
}

TEST_F(BuildTest, CountsWhatTheCompilerDid) {
  const std::string dot =
      "int ridge_kernel(const ridge_call* call) {\n"
      "  float* x = (float*)call->operands[0].data; float* y = (float*)call->operands[1].data; float s = x[0];\n"
      "  for (int64_t i = 0; i < call->params[0]; ++i) y[i] = y[i] * s + x[i];\n  return 0; }";
  record::Candidate vector = candidate_of(dot), scalar = candidate_of(dot);
  vector.flags = {"-march=haswell", "-mprefer-vector-width=256"};
  scalar.flags = {"-march=haswell", "-fno-tree-vectorize"};
  const Build wide = build_of(vector), narrow = build_of(scalar);
  ASSERT_TRUE(wide.ok() && narrow.ok());
  EXPECT_GE(wide.evidence.counts.at("fma_ymm"), 1);
  EXPECT_EQ(wide.evidence.counts.at("vector_bits"), 256);
  EXPECT_EQ(narrow.evidence.counts.at("fma_vector"), 0);
  EXPECT_GE(narrow.evidence.counts.at("fma_scalar"), 1);
}

TEST(Flags, AllowCodeGenerationOnly) {
  for (const char* flag :
       {"-O2", "-Ofast", "-mavx512f", "-mprefer-vector-width=512", "-funroll-loops", "-fopenmp", "--param=x=3"}) {
    EXPECT_TRUE(flag_allowed(flag)) << flag;
  }
  for (const char* flag :
       {"-fplugin=a", "-fdump-tree-all", "-I.", "-include", "-Wl,-rpath,x", "-l", "-o", "@file", "-B/x", "-m",
        "-fprofile-use=/x", "-O2 -I/", "-specs=x", "-wrapper", "-fuse-ld=x", "-flto-partition=x"}) {
    EXPECT_FALSE(flag_allowed(flag)) << flag;
  }
}

}  // namespace
}  // namespace ridge::toolchain
