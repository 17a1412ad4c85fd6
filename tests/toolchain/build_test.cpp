#include "toolchain/build.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"
#include "base/hash.h"
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
