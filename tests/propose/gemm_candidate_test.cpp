// The candidate source that `ridge optimize gemm` starts from: built by the host compiler in several configurations and
// compared with a double-precision product. Inputs end at a page that must not be read; rows of C are followed by
// sentinels that must survive.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/files.h"
#include "base/process.h"
#include "places.h"
#include "propose/space.h"
#include "record/tunables.h"
#include "ridge/candidate.h"

namespace ridge::propose {
namespace {

using Kernel = int (*)(const ridge_call*);
using Index = std::int64_t;

const std::filesystem::path kSource = source_dir() / "src/ops/gemm/cpu_plain.cpp";

record::TuneSpace declared_space() {
  auto text = read_file(kSource);
  EXPECT_TRUE(text.ok());
  auto space = record::parse_tunables(*text);
  EXPECT_TRUE(space.ok()) << space.error().text();
  return *space;
}

// A configuration, built and loaded. It stays loaded: a kernel keeps its buffers for as long as its process runs, so
// each needs a name of its own.
class Built {
 public:
  Built(const Config& config, const std::filesystem::path& directory) {
    static int number = 0;
    const std::filesystem::path object = directory / ("kernel" + std::to_string(++number) + ".so");
    ProcessSpec spec;
    // Vectors that are wider than this processor's have an ABI of their own, which -Wpsabi says; no call passes one.
    spec.argv = {"c++",     "-O2",     "-march=native", "-std=c++20", "-Wall",
                 "-Wextra", "-Werror", "-Wno-psabi",    "-shared",    "-fPIC"};
    spec.argv.push_back("-I" + source_dir().string() + "/include");
    for (const auto& [name, value] : config) spec.argv.push_back("-D" + name + "=" + std::to_string(value));
    spec.argv.insert(spec.argv.end(), {"-o", object.string(), kSource.string(), "-pthread"});
    auto result = run_process(spec);
    EXPECT_TRUE(result.ok() && result->succeeded()) << result->error_output;
    void* const library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    kernel = reinterpret_cast<Kernel>(dlsym(library, "ridge_kernel"));
  }

  Kernel kernel = nullptr;
};

// A matrix whose last element is the last before a page without access.
class Guarded {
 public:
  Guarded(Index rows, Index columns, Index stride, float padding) : rows_(rows), columns_(columns), stride_(stride) {
    const auto used = static_cast<std::size_t>(rows > 0 ? (rows - 1) * stride + columns : 0) * sizeof(float);
    size_ = (used + 4095) / 4096 * 4096 + 4096;
    base_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + size_ - 4096, 4096, PROT_NONE);
    data_ = reinterpret_cast<float*>(base_ + size_ - 4096 - used);
    for (std::size_t i = 0; i < used / sizeof(float); ++i) data_[i] = padding;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, size_); }

  float& at(Index row, Index column) { return data_[row * stride_ + column]; }
  [[nodiscard]] ridge_tensor tensor() const {
    return {data_, RIDGE_F32, 2, {rows_, columns_, 0, 0, 0}, {stride_, 1, 0, 0, 0}};
  }

 private:
  Index rows_, columns_, stride_;
  std::size_t size_ = 0;
  char* base_ = nullptr;
  float* data_ = nullptr;
};

void fill(Guarded& matrix, Index rows, Index columns, Random& random) {
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) matrix.at(i, j) = static_cast<float>(random.below(2001)) / 1000.0f - 1.0f;
  }
}

void expect_product(Kernel kernel, Index m, Index n, Index k, Index pad, Random& random) {
  constexpr float kSentinel = 12345.0f;
  Guarded a(m, k, k + pad, kSentinel), b(k, n, n + 2 * pad, kSentinel), c(m, n, n + 3 * pad, kSentinel);
  fill(a, m, k, random);
  fill(b, k, n, random);
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) c.at(i, j) = NAN;
  }
  const ridge_tensor operands[] = {a.tensor(), b.tensor(), c.tensor()};
  const std::int64_t params[] = {m, n, k};
  const ridge_call call{RIDGE_CANDIDATE_VERSION, 2, 3, 3, operands, params, nullptr, 0, 0};
  ASSERT_EQ(kernel(&call), 0);
  double worst = 0;
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) {
      double sum = 0;
      for (Index q = 0; q < k; ++q) sum += static_cast<double>(a.at(i, q)) * static_cast<double>(b.at(q, j));
      const double error = std::abs(static_cast<double>(c.at(i, j)) - sum);
      worst = std::max(worst, std::isnan(error) ? 1e30 : error);
    }
    for (Index j = n; i + 1 < m && j < n + 3 * pad; ++j) ASSERT_EQ(c.at(i, j), kSentinel) << "row " << i << ", " << j;
  }
  EXPECT_LE(worst, 1e-6 * static_cast<double>(k + 8)) << "m=" << m << " n=" << n << " k=" << k << " pad=" << pad;
}

void expect_correct(const Config& config, Random& random) {
  SCOPED_TRACE(to_text(config));
  auto directory = TempDir::create("ridge-candidate");
  ASSERT_TRUE(directory.ok());
  const Built built(config, directory->path());
  ASSERT_NE(built.kernel, nullptr);
  const Index sizes[][3] = {{0, 5, 3}, {4, 0, 2}, {5, 7, 0}, {1, 1, 1}, {33, 130, 65}};
  for (const auto& [m, n, k] : sizes) expect_product(built.kernel, m, n, k, 0, random);
  for (int i = 0; i < 4; ++i) {
    const auto size = [&](std::size_t most) { return static_cast<Index>(1 + random.below(most)); };
    expect_product(built.kernel, size(90), size(230), size(150), size(20) - 1, random);
  }
}

TEST(GemmCandidate, DeclaresASpaceWhoseDefaultIsTheTextbookLoop) {
  auto space = Space::create(declared_space());
  ASSERT_TRUE(space.ok()) << space.error().text();
  EXPECT_TRUE(space->check(space->defaults()).ok());
  EXPECT_EQ(space->defaults().at("VECTOR") * space->defaults().at("MR") * space->defaults().at("NV"), 1);
  EXPECT_GT(space->count(), 1'000'000u);
}

TEST(GemmCandidate, EveryStepFromTheTextbookToTheBestIsCorrect) {
  Random random(1);
  expect_correct({}, random);
  expect_correct({{"ORDER", 1}}, random);
  expect_correct({{"VECTOR", 16}}, random);
  expect_correct({{"VECTOR", 8}, {"MR", 4}, {"NV", 2}, {"PACK_B", 2}}, random);
  expect_correct({{"VECTOR", 16}, {"MR", 6}, {"NV", 4}, {"PREFETCH_C", 1}, {"PREFETCH_AB", 1}, {"UNROLL", 4}}, random);
  expect_correct({{"VECTOR", 16}, {"MR", 14}, {"NV", 2}, {"PACK_B", 1}, {"PACK_A", 1}, {"KC", 64}, {"MC", 48}}, random);
}

TEST(GemmCandidate, RandomValidConfigurationsAreCorrect) {
  auto space = Space::create(declared_space());
  ASSERT_TRUE(space.ok());
  Random random(20261121);
  for (int i = 0; i < 7; ++i) expect_correct(space->config(random.next() % space->count()), random);
}

TEST(GemmCandidate, RefusesWhatItDoesNotCompute) {
  auto directory = TempDir::create("ridge-candidate");
  ASSERT_TRUE(directory.ok());
  const Built built({}, directory->path());
  float value = 0;
  ridge_tensor operands[3];
  for (ridge_tensor& operand : operands) operand = {&value, RIDGE_F32, 2, {1, 1, 0, 0, 0}, {1, 1, 0, 0, 0}};
  const ridge_call call{RIDGE_CANDIDATE_VERSION, 1, 3, 0, operands, nullptr, nullptr, 0, 0};
  EXPECT_EQ(built.kernel(&call), 0);
  operands[0].dtype = RIDGE_BF16;
  EXPECT_NE(built.kernel(&call), 0);
  operands[0].dtype = RIDGE_F32;
  operands[1].shape[0] = 2;
  EXPECT_NE(built.kernel(&call), 0);
}

}  // namespace
}  // namespace ridge::propose
