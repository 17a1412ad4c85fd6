// Real machine code, compiled by the test: nvcc and clang where they are installed, g++ always.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>

#include "base/files.h"
#include "base/process.h"
#include "hardware/spec.h"
#include "inspect/disassemble.h"
#include "inspect/elf.h"
#include "inspect/fatbin.h"
#include "inspect/inspect.h"
#include "places.h"

namespace ridge::inspect {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCuda = R"(
extern "C" __global__ void copy4(const float4* x, float4* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
extern "C" __global__ void __launch_bounds__(192) shared_sum(const float* x, float* y) {
  __shared__ float s[1024];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float a = 0;
  for (int i = 0; i < 1024; ++i) a += s[i] * y[i];
  y[threadIdx.x] = a;
}
extern "C" __global__ void dynamic_shared(const float* x, float* y) {
  extern __shared__ float d[];
  d[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = d[threadIdx.x ^ 1];
}
extern "C" __global__ void spill(const float* x, float* y, int n) {
  float a[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) a[i] = x[i * 256 + threadIdx.x];
  for (int k = 0; k < n; ++k) {
#pragma unroll
    for (int i = 0; i < 64; ++i) a[i] = a[i] * a[(i + 7) % 64] + x[k];
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) y[i * 256 + threadIdx.x] = a[i];
}
)";

struct Built {
  fs::path file;
  std::string log;
};

Built compile(const TempDir& directory, std::vector<std::string> command, const std::string& source_name,
              const char* source, const std::string& output) {
  const fs::path in = directory.path() / source_name, out = directory.path() / output;
  EXPECT_TRUE(write_file_durably(in, source));
  command.insert(command.end(), {"-o", out.string(), in.string()});
  ProcessSpec spec;
  spec.argv = command;
  const auto result = run_process(spec);
  EXPECT_TRUE(result && result->succeeded()) << (result ? result->error_output : result.error().text());
  return {out, result ? result->output + result->error_output : std::string()};
}

struct PtxasReport {
  std::int64_t registers = -1, shared = 0, stack = -1, stores = -1, loads = -1, barriers = 0;
};

// "Compiling entry function 'spill' for ..." ... "232 bytes stack frame, 456 bytes spill stores, 480 bytes spill loads"
// ...
std::map<std::string, PtxasReport> parse_ptxas(const std::string& log) {
  std::map<std::string, PtxasReport> reports;
  const std::regex item(
      "Compiling entry function '(\\w+)'|(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads|"
      "Used (\\d+) registers|used (\\d+) barriers|(\\d+) bytes smem");
  std::string current;
  for (std::sregex_iterator it(log.begin(), log.end(), item), end; it != end; ++it) {
    const std::smatch& m = *it;
    if (m[1].matched) current = m[1];
    PtxasReport& r = reports[current];
    if (m[2].matched) r.stack = std::stoll(m[2]), r.stores = std::stoll(m[3]), r.loads = std::stoll(m[4]);
    if (m[5].matched) r.registers = std::stoll(m[5]);
    if (m[6].matched) r.barriers = std::stoll(m[6]);
    if (m[7].matched) r.shared = std::stoll(m[7]);
  }
  return reports;
}

class Nvcc : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (find_program("nvcc").empty()) GTEST_SKIP() << "no nvcc here: cubins were not read";
  }
};

TEST_P(Nvcc, ResourcesEqualWhatPtxasReports) {
  const auto directory = TempDir::create("ridge-inspect-test");
  const Built built =
      compile(*directory, {"nvcc", std::string("-arch=") + GetParam(), "-cubin", "-maxrregcount=40", "-Xptxas", "-v"},
              "k.cu", kCuda, "k.cubin");
  const auto inspections = inspect_file(built.file, {.listing = false});
  ASSERT_TRUE(inspections) << inspections.error().text();
  ASSERT_EQ(inspections->size(), 1u);
  const record::Inspection& inspection = inspections->front();
  EXPECT_EQ(inspection.target, GetParam()) << "read from the file, without a disassembler";
  const auto reports = parse_ptxas(built.log);
  ASSERT_EQ(reports.size(), 4u) << built.log;
  ASSERT_EQ(inspection.kernels.size(), 4u);
  bool spilled = false;
  for (const record::KernelInspection& kernel : inspection.kernels) {
    const PtxasReport& expected = reports.at(kernel.name);
    const record::KernelResources& r = kernel.resources;
    EXPECT_EQ(r.registers, expected.registers) << kernel.name;
    EXPECT_EQ(r.shared_bytes, expected.shared) << kernel.name;
    EXPECT_EQ(r.stack_bytes, expected.stack) << kernel.name;
    EXPECT_EQ(r.spill_store_bytes, expected.stores) << kernel.name;
    EXPECT_EQ(r.spill_load_bytes, expected.loads) << kernel.name;
    EXPECT_EQ(r.barriers.value_or(0), expected.barriers) << kernel.name;
    spilled |= expected.stores > 0;
  }
  EXPECT_TRUE(spilled) << "the test must see a kernel that spills";
}
INSTANTIATE_TEST_SUITE_P(Architectures, Nvcc, testing::Values("sm_80", "sm_89", "sm_90a", "sm_100a"));

TEST(Cubin, GivesOccupancyFromTheSpecDatabase) {
  if (find_program("nvcc").empty()) GTEST_SKIP() << "no nvcc here";
  const auto database = hardware::Database::open(source_dir() / "data");
  const hardware::Spec* h200 = *database->find("H200");
  const auto directory = TempDir::create("ridge-inspect-test");
  const Built built = compile(*directory, {"nvcc", "-arch=sm_90a", "-cubin"}, "k.cu", kCuda, "k.cubin");
  const auto inspections = inspect_file(built.file, {.kernel = "shared_sum", .product = h200, .listing = false});
  ASSERT_TRUE(inspections) << inspections.error().text();
  const auto& kernels = inspections->front().kernels;
  ASSERT_EQ(kernels.size(), 1u);
  ASSERT_TRUE(kernels[0].occupancy) << "__launch_bounds__ bounds the block";
  EXPECT_EQ(kernels[0].occupancy->threads_per_block, 192);
  EXPECT_GT(kernels[0].occupancy->blocks_per_unit, 0);
  const auto unbounded = inspect_file(built.file, {.kernel = "copy4", .product = h200, .listing = false});
  EXPECT_FALSE(unbounded->front().kernels[0].occupancy);
  ASSERT_EQ(unbounded->front().notes.size(), 1u);
  EXPECT_NE(unbounded->front().notes[0].find("--threads"), std::string::npos);
  EXPECT_FALSE(inspect_file(built.file, {.kernel = "nothing", .listing = false}));
}

TEST(Cubin, IsDisassembledWhereAToolIsInstalled) {
  if (find_program("nvcc").empty()) GTEST_SKIP() << "no nvcc here";
  const auto directory = TempDir::create("ridge-inspect-test");
  const Built built = compile(*directory, {"nvcc", "-arch=sm_90a", "-cubin"}, "k.cu", kCuda, "k.cubin");
  if (const auto code = disassemble(Isa::kSass, *read_file(built.file)); !code) GTEST_SKIP() << code.error().text();
  const auto inspections = inspect_file(built.file, {});
  ASSERT_TRUE(inspections) << inspections.error().text();
  EXPECT_EQ(inspections->front().target, "sm_90a");
  for (const record::KernelInspection& kernel : inspections->front().kernels) {
    EXPECT_TRUE(kernel.has_listing) << kernel.name;
    EXPECT_EQ(kernel.counts.instructions * 16, kernel.resources.code_bytes)
        << kernel.name << ": every instruction was read";
    EXPECT_EQ(kernel.counts.unknown, 0) << kernel.name;
    if (kernel.name == "copy4") {
      EXPECT_EQ(kernel.counts.widths.at("load_global 128"), 1);
    }
    if (kernel.name == "shared_sum") {
      EXPECT_FALSE(kernel.loops.empty());
    }
  }
}

TEST(Fatbin, IsUnpackedCompressedOrNot) {
  if (find_program("nvcc").empty()) GTEST_SKIP() << "no nvcc here";
  const auto directory = TempDir::create("ridge-inspect-test");
  for (const char* mode :
       {"--compress-mode=default", "--compress-mode=none", "--compress-mode=speed", "--compress-mode=size"}) {
    const Built built = compile(*directory,
                                {"nvcc", "-gencode=arch=compute_80,code=sm_80",
                                 "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]", "-fatbin", mode},
                                "k.cu", kCuda, "k.fatbin");
    const auto inspections = inspect_file(built.file, {.listing = false});
    ASSERT_TRUE(inspections) << mode << ": " << inspections.error().text();
    ASSERT_EQ(inspections->size(), 3u) << mode;
    int cubins = 0;
    for (const record::Inspection& i : *inspections) {
      EXPECT_EQ(i.kernels.size(), 4u) << mode;
      cubins += i.format == "cubin" ? 1 : 0;
    }
    EXPECT_EQ(cubins, 2) << mode;
  }
}

TEST(Elf, SurvivesAnyCutAndAnyFlippedByte) {
  if (find_program("nvcc").empty()) GTEST_SKIP() << "no nvcc here";
  const auto directory = TempDir::create("ridge-inspect-test");
  const Built built = compile(*directory, {"nvcc", "-arch=sm_90a", "-fatbin"}, "k.cu", kCuda, "k.fatbin");
  const std::string whole = *read_file(built.file);
  for (std::size_t cut = 0; cut < whole.size(); cut += 97)
    (void)inspect_bytes(whole.substr(0, cut), "cut", {.listing = false});
  std::string flipped = whole;
  for (std::size_t at = 0; at < std::min<std::size_t>(whole.size(), 4096); at += 3) {
    flipped[at] = static_cast<char>(flipped[at] ^ 0x5a);
    (void)inspect_bytes(flipped, "flipped", {.listing = false});
    flipped[at] = whole[at];
  }
}

TEST(X86, CountsVectorsOfAnObjectFile) {
  const auto directory = TempDir::create("ridge-inspect-test");
  const char* source = R"(
extern "C" void axpy(float* y, const float* x, float a, int n) { for (int i = 0; i < n; ++i) y[i] += a * x[i]; }
)";
  const Built wide = compile(*directory, {"g++", "-c", "-O3", "-march=skylake-avx512", "-mprefer-vector-width=512"},
                             "k.cpp", source, "wide.o");
  const Built narrow =
      compile(*directory, {"g++", "-c", "-O3", "-march=haswell", "-fno-tree-vectorize"}, "k.cpp", source, "narrow.o");
  if (find_program("objdump").empty()) GTEST_SKIP() << "no objdump here";
  const auto a = inspect_file(wide.file, {}), b = inspect_file(narrow.file, {});
  ASSERT_TRUE(a && b);
  const record::KernelInspection &vector = a->front().kernels.at(0), &scalar = b->front().kernels.at(0);
  EXPECT_GT(vector.counts.classes.at("fma_f32"), 0);
  EXPECT_GT(vector.counts.widths.at("load_global 512"), 0);
  EXPECT_EQ(scalar.counts.classes.count("fma_f32"), 0u);
  ASSERT_FALSE(scalar.verdicts.empty());
  EXPECT_EQ(scalar.verdicts.front().severity, "bad");
  EXPECT_TRUE(vector.verdicts.empty() || vector.verdicts.front().severity != "bad");
  EXPECT_FALSE(difference(a->front(), b->front()).empty());
}

std::string find_clang() {
  for (int version = 23; version >= 17; --version) {
    if (const std::string found = find_program("clang-" + std::to_string(version)); !found.empty()) return found;
  }
  return {};
}

TEST(Amdgpu, ReadsACodeObjectOfGfx942) {
  const std::string clang = find_clang();
  if (clang.empty()) GTEST_SKIP() << "no clang-17 or newer here: no AMD code object was read";
  const char* source = R"(
typedef float f16x __attribute__((ext_vector_type(16)));
typedef short s4 __attribute__((ext_vector_type(4)));
extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 256))) void mfma_tile(f16x* c, const s4* a, const s4* b) {
  __attribute__((shared)) static s4 tile[256];
  unsigned t = __builtin_amdgcn_workitem_id_x();
  f16x sum = c[t];
  for (int k = 0; k < 64; ++k) {
    tile[t] = b[k * 256 + t];
    __builtin_amdgcn_s_barrier();
    sum = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a[k * 256 + t], tile[t ^ 1], sum, 0, 0, 0);
  }
  c[t] = sum;
}
)";
  const auto directory = TempDir::create("ridge-inspect-test");
  const Built built = compile(*directory,
                              {clang, "-x", "hip", "-nogpulib", "-nogpuinc", "--cuda-device-only",
                               "--no-gpu-bundle-output", "-O3", "--offload-arch=gfx942"},
                              "k.hip", source, "k.co");
  const auto inspections = inspect_file(built.file, {});
  ASSERT_TRUE(inspections) << inspections.error().text();
  const record::Inspection& inspection = inspections->front();
  EXPECT_EQ(inspection.target, "gfx942");
  const record::KernelInspection& kernel = inspection.kernels.at(0);
  EXPECT_EQ(kernel.name, "mfma_tile");
  EXPECT_GT(kernel.resources.registers.value_or(0), 16);
  EXPECT_EQ(kernel.resources.shared_bytes, 2048);
  EXPECT_EQ(kernel.resources.max_threads, 256);
  EXPECT_EQ(kernel.resources.spilled_registers, 0);
  if (!kernel.has_listing) GTEST_SKIP() << inspection.notes.at(0);
  EXPECT_GT(kernel.counts.classes.at("matrix"), 0);
  EXPECT_EQ(kernel.counts.unknown, 0);
  EXPECT_FALSE(kernel.loops.empty());
}

// Recorded, because no compiler of Debian's knows gfx950: clang 20 at -O3 of a loop of
// __builtin_amdgcn_mfma_f32_16x16x32_bf16 over a[i], linked with its lld.
TEST(Amdgpu, ReadsACodeObjectOfGfx950) {
  const auto inspections = inspect_file(source_dir() / "tests/inspect/objects/gfx950.co", {});
  ASSERT_TRUE(inspections) << inspections.error().text();
  const record::Inspection& inspection = inspections->front();
  EXPECT_EQ(inspection.target, "gfx950");
  const record::KernelInspection& kernel = inspection.kernels.at(0);
  EXPECT_EQ(kernel.name, "mfma_kernel");
  EXPECT_EQ(kernel.resources.registers, 14);
  EXPECT_EQ(kernel.resources.spilled_registers, 0);
  EXPECT_EQ(kernel.resources.shared_bytes, 0);
  EXPECT_EQ(kernel.resources.max_threads, 1024);
  if (kernel.has_listing) return;  // an llvm-objdump 20 or newer is here
  ASSERT_FALSE(inspection.notes.empty());
  EXPECT_THAT(inspection.notes.at(0), testing::AnyOf(testing::HasSubstr("does not know the target of this file"),
                                                     testing::HasSubstr("no disassembler")));
  EXPECT_EQ(inspection.notes.at(0).find('\n'), std::string::npos) << "one line, not a tool's stack dump";
}

// The tools that inspect finds are those of a folder of this test.
class Tools : public testing::Test {
 protected:
  void SetUp() override {
    keep("PATH", folder_->path().string());
    keep("CUDA_HOME", "");
    keep("VIRTUAL_ENV", folder_->path().string());
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }

  void put(const fs::path& program, const std::string& script) {
    const fs::path file = folder_->path() / program;
    fs::create_directories(file.parent_path());
    ASSERT_TRUE(write_file_durably(file, "#!/bin/sh\n" + script));
    fs::permissions(file, fs::perms::owner_all);
  }
  [[nodiscard]] fs::path folder() const { return folder_->path(); }

 private:
  void keep(const char* name, const std::string& value) {
    const char* old = std::getenv(name);
    before_[name] = old != nullptr ? std::optional<std::string>(old) : std::nullopt;
    setenv(name, value.c_str(), 1);
  }
  Result<TempDir> folder_ = TempDir::create("ridge-inspect-tools");
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(Tools, AnLlvmObjdumpThatFailsLeavesOneLineAndTheResources) {
  if (fs::exists("/opt/rocm/llvm/bin/llvm-objdump")) GTEST_SKIP() << "ROCm's is looked for outside of PATH";
  const struct {
    const char *script, *note;
  } cases[] = {
      {"echo PLEASE submit a bug report >&2; echo Stack dump: >&2; echo '#0 0x1' >&2; kill -ABRT $$\n",
       "does not know the target of this file"},
      {"echo \"error: 'code.o': can't find target: : error: unable to get target for 'unknown--'\" >&2; exit 1\n",
       "does not know the target of this file"},
      {"echo \"'gfx950' is not a recognized processor\" >&2; echo a second line >&2; exit 1\n",
       "does not know the target of this file"},
      {"echo out of paper >&2; echo a second line >&2; exit 3\n", "exited with 3: out of paper"}};
  for (const auto& one : cases) {
    put("llvm-objdump", one.script);
    const auto inspections = inspect_file(source_dir() / "tests/inspect/objects/gfx950.co", {});
    ASSERT_TRUE(inspections) << inspections.error().text();
    ASSERT_EQ(inspections->front().notes.size(), 1u);
    const std::string& note = inspections->front().notes.front();
    EXPECT_THAT(note, testing::HasSubstr(one.note));
    EXPECT_EQ(note.find('\n'), std::string::npos) << note;
    EXPECT_EQ(inspections->front().kernels.at(0).resources.registers, 14);
  }
}

TEST_F(Tools, WithoutALlvmObjdumpTheNoteNamesWhatToInstall) {
  if (fs::exists("/opt/rocm/llvm/bin/llvm-objdump")) GTEST_SKIP() << "ROCm's is looked for outside of PATH";
  const auto inspections = inspect_file(source_dir() / "tests/inspect/objects/gfx950.co", {});
  ASSERT_TRUE(inspections) << inspections.error().text();
  EXPECT_FALSE(inspections->front().kernels.at(0).has_listing);
  EXPECT_THAT(inspections->front().notes.at(0), testing::HasSubstr("no disassembler: looked for llvm-objdump"));
}

TEST_F(Tools, NvdisasmOfAnInstalledPythonPackageIsFound) {
  if (fs::exists("/usr/local/cuda/bin/nvdisasm")) GTEST_SKIP() << "the toolkit's own comes first";
  const fs::path program = "lib/python3.11/site-packages/nvidia/cu13/bin/nvdisasm";
  put(program, "echo a listing\n");
  const auto code = disassemble(Isa::kSass, "a cubin");
  ASSERT_TRUE(code) << code.error().text();
  EXPECT_EQ(code->tool, folder() / program);
  EXPECT_EQ(code->text, "a listing\n");
}

TEST(Amdgpu, ReadsAssemblyOfGfx950AndTheResourcesInItsMetadata) {
  const auto inspections = inspect_file(source_dir() / "tests/inspect/objects/gfx950.s", {});
  ASSERT_TRUE(inspections) << inspections.error().text();
  ASSERT_EQ(inspections->front().kernels.size(), 1u);
  const record::KernelInspection& kernel = inspections->front().kernels.at(0);
  EXPECT_EQ(kernel.name, "mfma_kernel");
  EXPECT_EQ(kernel.counts.classes.at("matrix"), 1);
  EXPECT_EQ(kernel.counts.unknown, 0);
  ASSERT_EQ(kernel.loops.size(), 1u);
  EXPECT_EQ(kernel.loops[0].counts.classes.at("matrix"), 1);
  EXPECT_EQ(inspections->front().target, "gfx950");
  EXPECT_EQ(kernel.resources.registers, 14);
  EXPECT_EQ(kernel.resources.scalar_registers, 18);
  EXPECT_EQ(kernel.resources.spilled_registers, 0);
  EXPECT_EQ(kernel.resources.max_threads, 1024);
}

}  // namespace
}  // namespace ridge::inspect
