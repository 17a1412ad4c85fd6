// Compiling device code: for real, since neither NVRTC nor nvcc needs a GPU.
#include "toolchain/device_build.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/confinement.h"
#include "base/files.h"
#include "device/cuda/library.h"
#include "places.h"

namespace ridge::toolchain {
namespace {

using testing::HasSubstr;

constexpr const char* kScale =
    "#include \"inner/factor.cuh\"\n"
    "extern \"C\" __global__ void scale(float* x) { x[threadIdx.x] *= factor(); }\n";

DeviceCode scale_code() {
  DeviceCode code;
  code.files = {{"kernels/scale.cu", kScale},
                {"kernels/inner/factor.cuh",
                 "#pragma once\n#include \"number.cuh\"\n"
                 "__device__ inline float factor() { return number; }\n"},
                {"kernels/inner/number.cuh", "#pragma once\nconstexpr float number = NUMBER;\n"}};
  code.defines = {"NUMBER=3.0f"};
  return code;
}

// Both compilers, or the reason why one is not here.
class DeviceBuilding : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto found = std::string_view(GetParam()) == "nvrtc" ? find_nvrtc() : find_nvcc();
    if (!found) {
      EXPECT_THAT(found.error().text(), HasSubstr("install the CUDA toolkit"));
      GTEST_SKIP() << found.error().text();
    }
    compiler_ = *found;
    auto directory = TempDir::create("ridge-device-build");
    ASSERT_TRUE(directory);
    directory_.emplace(std::move(*directory));
    options_.cache_directory = directory_->path();
  }

  DeviceBuild build(const DeviceCode& code) {
    auto built = build_device(code, *compiler_, options_);
    EXPECT_TRUE(built) << built.error().text();
    return built ? *built : DeviceBuild{};
  }

  std::shared_ptr<const DeviceCompiler> compiler_;
  std::optional<TempDir> directory_;
  BuildOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Compilers, DeviceBuilding, testing::Values("nvrtc", "nvcc"),
                         [](const auto& compiler) { return std::string(compiler.param); });

TEST_P(DeviceBuilding, MakesACubinAndTakesItFromTheCacheNextTime) {
  const DeviceBuild first = build(scale_code());
  ASSERT_TRUE(first.ok()) << first.error;
  EXPECT_TRUE(
      first.cubin.starts_with("\x7f"
                              "ELF"));
  EXPECT_FALSE(first.evidence.cached);
  EXPECT_GT(first.evidence.counts.at("registers"), 0);
  EXPECT_EQ(first.evidence.counts.at("spill_bytes"), 0);
  EXPECT_EQ(first.evidence.counts.at("kernels"), 1);
  const DeviceBuild second = build(scale_code());
  EXPECT_TRUE(second.evidence.cached);
  EXPECT_EQ(second.cubin, first.cubin);
  EXPECT_EQ(second.evidence.counts, first.evidence.counts);
  EXPECT_TRUE(std::filesystem::is_empty(directory_->path() / "building"));
}

// Where a driver is, NVRTC 12.9 and newer would answer the second of two equal builds from the driver's cache.
TEST_P(DeviceBuilding, TheSameCodeBuiltTwicePastTheCacheIsCompiledTwice) {
  options_.past_cache = true;
  for (int i = 0; i < 2; ++i) {
    const DeviceBuild built = build(scale_code());
    ASSERT_TRUE(built.ok()) << built.error;
    EXPECT_GT(built.evidence.counts.at("registers"), 0);  // of ptxas's account
    const bool caches = built.evidence.compiler >= "NVRTC 12.9" && std::string_view(GetParam()) == "nvrtc";
    EXPECT_EQ(built.evidence.command.find("--no-cache") != std::string::npos, caches) << built.evidence.command;
  }
}

TEST_P(DeviceBuilding, KeyCoversHeadersDefinesFlagsAndArchitecture) {
  build(scale_code());
  DeviceCode header = scale_code();
  header.files[2].text += "// changed\n";
  EXPECT_FALSE(build(header).evidence.cached);
  DeviceCode define = scale_code();
  define.defines = {"NUMBER=4.0f"};
  EXPECT_FALSE(build(define).evidence.cached);
  DeviceCode flag = scale_code();
  flag.flags = {"--maxrregcount=32"};
  EXPECT_FALSE(build(flag).evidence.cached);
  DeviceCode arch = scale_code();
  arch.arch = "sm_80";
  EXPECT_FALSE(build(arch).evidence.cached);
}

TEST_P(DeviceBuilding, AnErrorComesWithItsLineOfSource) {
  DeviceCode code = scale_code();
  code.files[0].text += "extern \"C\" __global__ void bad(float* x) {\n  x[0] = undeclared_name;\n}\n";
  const DeviceBuild built = build(code);
  EXPECT_FALSE(built.ok());
  EXPECT_THAT(built.error, HasSubstr("scale.cu(4)"));
  EXPECT_THAT(built.error, HasSubstr("undeclared_name"));
  EXPECT_THAT(built.error, HasSubstr("x[0] = undeclared_name;"));
  EXPECT_THAT(built.evidence.log, testing::Not(HasSubstr(directory_->path().string())));
}

TEST_P(DeviceBuilding, ToolkitHeadersAreFound) {
  if (device::cuda::toolkit_include_folders().empty()) GTEST_SKIP() << "no cuda_fp16.h on this machine";
  DeviceCode code;
  code.files = {
      {"half.cu", "#include <cuda_fp16.h>\nextern \"C\" __global__ void k(__half* x) { *x = __hadd(*x, *x); }\n"}};
  EXPECT_TRUE(build(code).ok());
}

TEST_P(DeviceBuilding, CandidatesReachTheKernelLayer) {
  record::Candidate candidate;
  candidate.op = "gemm";
  candidate.backend = "cuda";
  candidate.sources = {
      {"k.cu",
       "#include \"ridge/kernel/mbarrier.cuh\"\n"
       "extern \"C\" __global__ void k(int* x) { *x = static_cast<int>(sizeof(ridge::cuda::u64)) + SIZE; }\n"}};
  candidate.defines = {{"SIZE", 3}};
  const auto built = build_device_candidate(candidate, "sm_90a", *compiler_, options_);
  ASSERT_TRUE(built) << built.error().text();
  EXPECT_TRUE(built->ok()) << built->error << "\n" << built->evidence.log;
  EXPECT_EQ(built->evidence.candidate, candidate.id());
}

TEST_P(DeviceBuilding, TheShippedCandidateCompilesWithoutSpills) {
  const auto text = read_file(source_dir().string() + "/data/candidates/gemm_bf16_tiled.cu");
  ASSERT_TRUE(text);
  record::Candidate candidate;
  candidate.backend = "cuda";
  candidate.sources = {{"gemm_bf16_tiled.cu", *text}};
  const auto built = build_device_candidate(candidate, "sm_90a", *compiler_, options_);
  ASSERT_TRUE(built) << built.error().text();
  ASSERT_TRUE(built->ok()) << built->error << "\n" << built->evidence.log;
  EXPECT_EQ(built->evidence.counts.at("spill_bytes"), 0);
}

// An accept asks for it: the same machine code again, from another folder and past the cache.
TEST_P(DeviceBuilding, ABuildPastTheCacheComesOutTheSame) {
  if (std::string_view(GetParam()) == "nvcc" && !why_not_confined().empty()) {
    GTEST_SKIP() << "nvcc leaves the folder's name in what it makes: " << why_not_confined();
  }
  record::Candidate candidate;
  candidate.backend = "cuda";
  candidate.flags = {"-lineinfo"};
  candidate.sources = {
      {"gemm_bf16_tiled.cu", *read_file(source_dir().string() + "/data/candidates/gemm_bf16_tiled.cu") +
                                 // Static symbols carry the name of their module.
                                 "static __device__ int counter;\nnamespace {\n__constant__ float table[4];\n}\n"
                                 // The line table names the folders of what is included.
                                 "#include \"parts/own.cuh\"\n"
                                 "extern \"C\" __global__ void more(float* x) { *x = twice(table[counter++ & 3]); }\n"},
      {"parts/own.cuh", "#pragma once\n__device__ __noinline__ float twice(float x) { return x + x; }\n"}};
  const auto kept = build_device_candidate(candidate, "sm_90a", *compiler_, options_);
  options_.past_cache = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // times of files in a line table are seconds
  const auto again = build_device_candidate(candidate, "sm_90a", *compiler_, options_);
  ASSERT_TRUE(kept.ok() && again.ok());
  ASSERT_TRUE(kept->ok() && again->ok()) << kept->error;
  EXPECT_FALSE(again->evidence.cached);
  EXPECT_EQ(again->evidence.artifact, kept->evidence.artifact);
}

// nvcc runs in name spaces; NVRTC, a library in this process, is kept from files by include_outside().
TEST_P(DeviceBuilding, ACandidateCannotAskForFilesOfThisMachine) {
  if (std::string_view(GetParam()) == "nvrtc") GTEST_SKIP() << "its sources are refused by their text";
  if (!why_not_confined().empty()) GTEST_SKIP() << why_not_confined();
  const auto secret = directory_->path() / "secret.h";
  ASSERT_TRUE(write_file_durably(secret, "constexpr int secret = 1;\n"));
  DeviceCode code;
  code.files = {{"k.cu", fmt::format("#if __has_include(\"{}\")\n#error it sees the file\n#endif\n"
                                     "extern \"C\" __global__ void k() {{}}\n",
                                     secret.string())}};
  EXPECT_EQ(build(code).error, "");
  options_.confined = false;
  options_.past_cache = true;
  EXPECT_THAT(build(code).error, HasSubstr("it sees the file"));
}

// As `ridge optimize` puts them together: the source, and the library's kernel with the layer's headers by name.
TEST_P(DeviceBuilding, TheCandidatesThatCampaignsStartFromCompileWithoutSpills) {
  const std::string root = source_dir();
  std::string kernel = *read_file(root + "/src/ops/matmul/cuda_wgmma.cu");
  const std::string in_tree = "../../device/cuda/kernel/";
  for (std::size_t at = kernel.find(in_tree); at != std::string::npos; at = kernel.find(in_tree))
    kernel.replace(at, in_tree.size(), "ridge/kernel/");
  for (const std::string file : {"gemm_bf16_wgmma.cu", "gemm_fp8_blockwise_wgmma.cu"}) {
    record::Candidate candidate;
    candidate.backend = "cuda";
    candidate.sources = {{file, *read_file(root + "/data/candidates/" + file)}, {"ops/matmul/cuda_wgmma.cu", kernel}};
    const auto built = build_device_candidate(candidate, "sm_90a", *compiler_, options_);
    ASSERT_TRUE(built) << built.error().text();
    ASSERT_TRUE(built->ok()) << built->error << "\n" << built->evidence.log;
    EXPECT_EQ(built->evidence.counts.at("spill_bytes"), 0) << file;
    EXPECT_FALSE(built->evidence.counts.contains("wgmma_serialised")) << file;
  }
}

// A compiler of one line, whose file can change, and how often it was looked for.
class RememberedCompiler : public testing::Test {
 protected:
  class OneLine final : public DeviceCompiler {
   public:
    OneLine(std::string version, std::filesystem::path file, std::string log = "")
        : version_(std::move(version)), file_(std::move(file)), log_(std::move(log)) {}
    [[nodiscard]] std::string version() const override { return version_; }
    [[nodiscard]] std::string identity() const override { return file_.string(); }
    [[nodiscard]] std::string file() const override { return file_.string(); }
    Result<Output> compile(const DeviceCode&, const std::filesystem::path&, const BuildOptions&) const override {
      return Output{true, "code of " + version_, log_, "one line"};
    }

   private:
    std::string version_;
    std::filesystem::path file_;
    std::string log_;
  };

  void SetUp() override {
    auto directory = TempDir::create("ridge-device-build");
    ASSERT_TRUE(directory);
    directory_.emplace(std::move(*directory));
    options_.cache_directory = directory_->path() / "cache";
    ASSERT_TRUE(write_file_durably(file(), "compiler"));
  }
  [[nodiscard]] std::filesystem::path file() const { return directory_->path() / "libcompiler.so"; }
  [[nodiscard]] std::filesystem::path memory() const { return options_.cache_directory / "device_compiler"; }

  // What a fresh process gets: nothing but the files is kept between two calls.
  DeviceBuild start() {
    auto built = build_device(
        scale_code(),
        [this]() -> Result<std::shared_ptr<const DeviceCompiler>> {
          ++looked_for_;
          return std::shared_ptr<const DeviceCompiler>(std::make_shared<OneLine>(version_, file()));
        },
        options_);
    EXPECT_TRUE(built) << built.error().text();
    return built ? *built : DeviceBuild{};
  }

  std::optional<TempDir> directory_;
  BuildOptions options_;
  std::string version_ = "first";
  int looked_for_ = 0;
};

// The two notes by which ptxas says that it serialised wgmma instructions; a build from the cache keeps what was said.
TEST_F(RememberedCompiler, BothNotesOfSerialisedInstructionsAreNamed) {
  const auto reason = [&](const char* version, const char* log) {
    const OneLine compiler(version, file(), log);
    std::optional<std::string> found;
    for (int again = 0; again < 2; ++again) {
      DeviceCode code = scale_code();
      code.defines.push_back(std::string("LOG=") + version);
      const auto built = build_device(code, compiler, options_);
      EXPECT_TRUE(built && built->ok());
      EXPECT_EQ(built->evidence.cached, again == 1);
      found = serialised(*built);
      EXPECT_EQ(found.has_value(), *log != '\0') << log;
    }
    return found.value_or("");
  };
  EXPECT_EQ(reason("quiet", ""), "");
  EXPECT_THAT(
      reason("first", "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"),
      HasSubstr("serialised"));
  EXPECT_THAT(reason("second",
                     "ptxas info : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"),
              HasSubstr("said 1 times"));
}

TEST_F(RememberedCompiler, IsNotLookedForWhenTheCacheHasTheCode) {
  const DeviceBuild fresh = start();
  EXPECT_FALSE(fresh.evidence.cached);
  const DeviceBuild again = start();
  EXPECT_TRUE(again.evidence.cached);
  EXPECT_EQ(again.cubin, fresh.cubin);
  EXPECT_EQ(looked_for_, 1);
}

TEST_F(RememberedCompiler, IsLookedForAgainWhenItsFileChanged) {
  start();
  version_ = "second";
  const auto time = std::filesystem::last_write_time(file());
  std::filesystem::last_write_time(file(), time + std::chrono::milliseconds(1));
  EXPECT_EQ(start().cubin, "code of second");
  std::filesystem::remove(file());
  start();
  EXPECT_EQ(looked_for_, 3);
}

TEST_F(RememberedCompiler, IsLookedForAgainWhenTheSearchCouldEndElsewhere) {
  start();
  for (const char* variable : {"CUDA_HOME", "LD_LIBRARY_PATH"}) {
    const char* const before = std::getenv(variable);
    const std::optional<std::string> kept = before == nullptr ? std::nullopt : std::optional<std::string>(before);
    const int looked = looked_for_;
    ::setenv(variable, directory_->path().c_str(), 1);
    start();
    EXPECT_EQ(looked_for_, looked + 1) << variable;
    kept ? ::setenv(variable, kept->c_str(), 1) : ::unsetenv(variable);
  }
}

TEST_F(RememberedCompiler, IsNoReasonToFailWhereNothingCanBeRemembered) {
  start();
  std::filesystem::remove_all(options_.cache_directory);
  EXPECT_EQ(start().cubin, "code of first");
  std::filesystem::remove(memory());
  std::filesystem::create_directories(memory() / "in the way");
  EXPECT_EQ(start().cubin, "code of first");
  EXPECT_EQ(looked_for_, 3);
}

TEST_F(RememberedCompiler, AMemoryThatIsCutOrForgedIsNotUsed) {
  const DeviceBuild fresh = start();
  const auto text = read_file(memory());
  ASSERT_TRUE(text);
  for (std::size_t length = 0; length < text->size(); length += 7) {
    ASSERT_TRUE(write_file_durably(memory(), text->substr(0, length)));
    const int looked = looked_for_;
    EXPECT_EQ(start().cubin, fresh.cubin);
    EXPECT_EQ(looked_for_, looked + 1) << length;
  }
  // Code swapped in the cache is told by its digest, however the compiler was remembered.
  ASSERT_TRUE(write_file_durably(fresh.artifact, "code of another"));
  EXPECT_EQ(start().cubin, "code of first");
}

TEST(DeviceCandidate, IsRefusedForWhatReachesOutsideItsFolder) {
  const auto refusal = [](const std::string& path, const std::string& text, const std::string& flag = {}) {
    record::Candidate candidate;
    candidate.backend = "cuda";
    candidate.sources = {{path, text}};
    if (!flag.empty()) candidate.flags = {flag};
    return refuse_device(candidate).value_or("");
  };
  EXPECT_EQ(refusal("k.cu", "#include <cuda_bf16.h>\n#include \"ridge/kernel/ptx.cuh\"\n", "--use_fast_math"), "");
  EXPECT_THAT(refusal("k.cu", "#include \"/etc/passwd\"\n"), HasSubstr("#include \"/etc/passwd\" leaves"));
  EXPECT_THAT(refusal("k.cu", "  #  include \"../../secret.h\"\n"), HasSubstr("leaves the candidate's folder"));
  EXPECT_THAT(refusal("k.cu", "#define X </etc/passwd>\n#include X\n"), HasSubstr("#include X"));
  for (const std::string hidden :
       {"/**/ #include \"/etc/passwd\"", "%:include \"/etc/passwd\"", "#inc\\\nlude \"/etc/passwd\"",
        "#inc\\ \nlude \"/etc/passwd\"", "#inc\\\r\nlude \"/etc/passwd\"", "#\\\n\\\ninclude \"/etc/passwd\"",
        "# /*x*/ include \"/etc/passwd\"", "#/*\n*/include \"/etc/passwd\"", "#include /*x*/ \"/etc/passwd\"",
        "/* \n */#include \"/etc/passwd\"", "/*\n// */ #include \"/etc/passwd\"", "\f#include \"/etc/passwd\"",
        "\v#include </etc/passwd>", "#include_next \"/etc/passwd\"", "#include \"a.h\"\r#include \"/etc/passwd\"",
        "#if __has_include(\"/etc/passwd\")\n#endif", "#if __has_include( <../secret.h>)\n#endif",
        "#define HAS __has_include\n#if HAS(\"/etc/passwd\")\n#endif",
        "#if __has_\\\ninclude(\"/etc/passwd\")\n#endif"}) {
    EXPECT_THAT(refusal("k.cu", "// first line\n" + hidden + "\nint x;\n"), HasSubstr("leaves the candidate's folder"))
        << hidden;
  }
  for (const std::string plain :
       {"// what it may include\n", "/* includes: include it\n include it */\n",
        "\t# include <cuda_fp8.h>  // for fp8\n",
        "#ifdef __has_include\n#if __has_include(<cuda_fp8.h>)\n#include <cuda_fp8.h>\r\n#endif\n#endif\n",
        "#if defined(__has_include) && __has_include(\"ridge/kernel/ptx.cuh\")\n#endif\n"}) {
    EXPECT_EQ(refusal("k.cu", plain), "") << plain;
  }
  EXPECT_THAT(refusal("../k.cu", ""), HasSubstr("leaves the candidate's folder"));
  EXPECT_THAT(refusal("ridge/k.cu", ""), HasSubstr("reserved"));
  EXPECT_THAT(refusal("k.cu", "", "-I/"), HasSubstr("\"-I/\" is not allowed"));
  EXPECT_THAT(refusal("k.cu", "", "--maxrregcount=32 -I/"), HasSubstr("not allowed"));
  EXPECT_THAT(refusal("k.cu", "", "--ptxas-options=-O3,--gpu-name=sm_80"), HasSubstr("not allowed"));
}

}  // namespace
}  // namespace ridge::toolchain
