// The kernel that compares outputs on a GPU, run on the host: it finds what the judge on a processor finds, above all
// whether errors lean to one side.
#include <gtest/gtest.h>

#include <cmath>

#include "evaluate/judge.h"
#include "numerics/convert.h"
#include "numerics/format.h"
#include "numerics/philox.h"
#include "ops/cuda_on_host.h"

template <class T>
T __reduce_add_sync(unsigned, T value) {
  for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(~0u, value, mask);
  return value;
}
using std::isnan;
namespace ridge::harness {  // what operand.cuh converts with on a GPU
inline float half_to_float(unsigned short bits) { return static_cast<float>(numerics::decode(DType::kF16, bits)); }
}  // namespace ridge::harness

// clang-format off
#include "evaluate/cuda/operand.cuh"
#include "evaluate/cuda/compare.cu"
// clang-format on

namespace ridge::evaluate {
namespace {

using ridge::testing::kFibersRun;
using ridge::testing::on_host;

constexpr std::int64_t kRows = 12, kColumns = 50, kCount = kRows * kColumns;

struct Output {
  explicit Output(DType type) : dtype(type), memory(size_bytes(type, kCount)) {
    view = TensorView::contiguous(memory.data(), type, {kRows, kColumns});
  }
  DType dtype;
  std::vector<unsigned char> memory;
  TensorView view;
  ops::ReferenceOutput reference;
};

double nearest(DType dtype, double value) { return numerics::round_to(dtype, value); }
double towards_zero(DType dtype, double value) {
  const double step = numerics::ulp(dtype, value);
  return std::trunc(value / step) * step;
}

Output output_of(DType dtype, double (*store)(DType, double), double shift = 0) {
  Output output(dtype);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const std::uint32_t word = numerics::philox_word(3, static_cast<std::uint64_t>(i));
    const double value = std::ldexp((word & 1) != 0 ? -1.0 - word * 0x1p-32 : 1.0 + word * 0x1p-32, word >> 8 & 3);
    const double step = numerics::ulp(dtype, value);
    output.reference.value.push_back(value);
    output.reference.allowed.push_back(1.5 * step);
    output.reference.ideal_square.push_back(step * step / 12);
    output.reference.shift.push_back(shift * step);
    numerics::store_element(output.view, i, store(dtype, value));
  }
  return output;
}

struct Found {
  harness::Compared compared{};
  numerics::BiasSums bias{};
};

// In two chunks, as a large output is compared.
Found on_the_device(Output& output) {
  using ops::CheckLaunch;
  Found found;
  for (const std::int64_t first : {std::int64_t{0}, 7 * kColumns}) {
    const std::int64_t count = first == 0 ? 7 * kColumns : 5 * kColumns;
    const auto part = [&](const std::vector<double>& all) { return CheckLaunch::pointer(all.data() + first); };
    harness::Compared one{};
    CheckLaunch launch;
    launch.kernel = "ridge_compare";
    launch.grid_x = 2;
    launch.arguments = {
        ops::device_matrix(output.view), CheckLaunch::number(first),     CheckLaunch::number(count),
        part(output.reference.value),    part(output.reference.allowed), part(output.reference.ideal_square),
        part(output.reference.shift),    CheckLaunch::real(0.5),         CheckLaunch::pointer(nullptr),
        CheckLaunch::number(0),          CheckLaunch::pointer(&one),     CheckLaunch::pointer(&found.bias)};
    on_host(ridge_compare)(launch);
    found.compared.wrong += one.wrong;
    found.compared.finite += one.finite;
    found.compared.normal_squares += one.normal_squares;
  }
  found.bias.finite = static_cast<double>(found.compared.finite);
  return found;
}

class Compare : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!kFibersRun) GTEST_SKIP() << "not under a sanitizer";
  }

  void expect_the_same(Output output, bool leans) {
    const Judgement host = judge(numerics::to_doubles(output.view), output.reference, output.dtype);
    const Found device = on_the_device(output);
    const numerics::BiasVerdict bias = numerics::bias_verdict(device.bias);
    EXPECT_EQ(bias.leans(), leans);
    EXPECT_EQ(host.bias.leans(), leans);
    EXPECT_NEAR(bias.excess, host.bias.excess, 1e-9);
    EXPECT_NEAR(bias.limit, host.bias.limit, 1e-12);
    EXPECT_EQ(device.compared.wrong, static_cast<std::uint64_t>(host.wrong));
    EXPECT_NEAR(std::sqrt(device.compared.normal_squares / kCount), host.rms_ratio, 1e-12);
  }
};
INSTANTIATE_TEST_SUITE_P(Types, Compare, ::testing::Values(DType::kF32, DType::kBf16, DType::kF16));

TEST_P(Compare, PassesRoundingToNearestAsTheHostDoes) { expect_the_same(output_of(GetParam(), nearest), false); }
TEST_P(Compare, RefusesTruncationAsTheHostDoes) { expect_the_same(output_of(GetParam(), towards_zero), true); }
TEST_P(Compare, AllowsAShiftAsTheHostDoes) { expect_the_same(output_of(GetParam(), towards_zero, 1.0), false); }

}  // namespace
}  // namespace ridge::evaluate
