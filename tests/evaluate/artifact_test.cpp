// What is read from an object's headers: real ones that may be loaded, and files that are no object at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "evaluate/artifact.h"
#include "evaluate/artifact_imports.h"
#include "places.h"
#include "toolchain/build.h"

namespace ridge::evaluate {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

class Artifact : public ::testing::Test {
 protected:
  std::filesystem::path build(const std::string& body, const std::vector<std::string>& flags = {}) {
    const auto compiler = toolchain::find_host_compiler();
    record::Candidate candidate;
    candidate.sources = {{"kernel.cpp", "#include \"ridge/candidate.h\"\n" + body}};
    candidate.flags = flags;
    toolchain::BuildOptions options;
    options.cache_directory = directory_->path();
    const auto built = toolchain::build(candidate, *compiler, options);
    EXPECT_TRUE(built.ok() && built->ok()) << built->error;
    return built->artifact;
  }

  Result<TempDir> directory_ = TempDir::create("ridge-artifact");
};

constexpr const char* kKernel = "extern \"C\" int ridge_kernel(const ridge_call*) { return work(); }\n";

std::string kernel(const char* work) {
  std::string text = work;
  text += kKernel;
  return text;
}

TEST_F(Artifact, OfUsualKernelsMayBeLoaded) {
  const std::string threads = kernel(
      "#include <thread>\n#include <vector>\n#include <cmath>\n"
      "static int work() { static std::vector<double> kept; thread_local int n = 0;\n"
      "kept.push_back(std::exp(n++)); std::thread([] {}).join(); return kept.size() > 9; }\n");
  EXPECT_EQ(refuse_artifact(build(threads, {"-pthread"})), std::nullopt);
  const std::string parallel = kernel(
      "#include <omp.h>\nstatic int work() { int n = 0;\n#pragma omp parallel reduction(+ : n)\n"
      "n += omp_get_thread_num() < 0; return n; }\n");
  EXPECT_EQ(refuse_artifact(build(parallel, {"-fopenmp"})), std::nullopt);
  EXPECT_EQ(refuse_artifact(build(kernel("static int work() { return 0; }\n"), {"-ffast-math"})), std::nullopt);
}

TEST_F(Artifact, OfTheShippedKernelMayBeLoadedAtItsTunedConfigurations) {
  const auto source = read_file(source_dir() / "src/ops/gemm/cpu_plain.cpp");
  const auto compiler = toolchain::find_host_compiler();
  ASSERT_TRUE(source.ok() && compiler.ok());
  for (const int threads : {1, 2}) {
    record::Candidate candidate;
    candidate.sources = {{"kernel.cpp", *source}};
    candidate.defines = {{"VECTOR", 8}, {"MR", 4}, {"NV", 2}, {"THREADS", threads}};
    toolchain::BuildOptions options;
    options.cache_directory = directory_->path();
    const auto built = toolchain::build(candidate, *compiler, options);
    ASSERT_TRUE(built.ok() && built->ok()) << built->error;
    EXPECT_EQ(refuse_artifact(built->artifact), std::nullopt) << threads << " thread(s)";
  }
}

TEST_F(Artifact, NamesAGlobalObjectAndTheWayOut) {
  const std::string global = kernel(
      "#include <vector>\nstd::vector<int> table(9);\n"
      "static int work() { return table[0]; }\n");
  const auto why = refuse_artifact(build(global));
  EXPECT_THAT(why, Optional(HasSubstr("kernel.cpp would run when it is loaded")));
  EXPECT_THAT(why, Optional(HasSubstr("inside the function that uses it")));
}

TEST_F(Artifact, ThatIsDamagedIsRefusedAndNeverRead) {
  const auto whole = read_file(build(kernel("static int work() { return 0; }\n")));
  ASSERT_TRUE(whole.ok());
  const std::filesystem::path file = directory_->path() / "damaged.so";
  ASSERT_TRUE(write_file_durably(file, "no object").ok());
  EXPECT_TRUE(refuse_artifact(file).has_value());
  // Cut off everywhere, and with every byte of its headers changed: an answer, whatever it is.
  for (std::size_t size = 0; size < whole->size(); size += 1 + whole->size() / 64) {
    ASSERT_TRUE(write_file_durably(file, whole->substr(0, size)).ok());
    EXPECT_TRUE(refuse_artifact(file).has_value()) << size << " bytes";
  }
  std::string changed = *whole;
  for (std::size_t at = 0; at < std::min<std::size_t>(changed.size(), 900); at += 7) {
    changed[at] = static_cast<char>(~changed[at]);
    ASSERT_TRUE(write_file_durably(file, changed).ok());
    (void)refuse_artifact(file);
    changed[at] = (*whole)[at];
  }
}

TEST(ArtifactImports, AreThoseOfKernels) {
  for (const char* name : {"malloc", "memcpy", "pthread_create", "clock_gettime", "__memcpy_chk", "__cxa_atexit"}) {
    EXPECT_TRUE(import_allowed(name, "libc.so.6")) << name;
  }
  for (const char* name : {"open", "fork", "syscall", "dlopen", "mprotect", "prctl", "sched_setaffinity", "sigaction",
                           "pthread_kill", "pthread_setaffinity_np", "dl_iterate_phdr", "system"}) {
    EXPECT_FALSE(import_allowed(name, "libc.so.6")) << name;
    EXPECT_FALSE(import_allowed(name, "")) << name;
  }
  EXPECT_TRUE(import_allowed("GOMP_parallel", "libgomp.so.1"));
  EXPECT_TRUE(import_allowed("expf", "libm.so.6"));
  EXPECT_FALSE(library_allowed("libdl.so.2"));
  EXPECT_FALSE(library_allowed("libcurl.so.4"));
}

}  // namespace
}  // namespace ridge::evaluate
