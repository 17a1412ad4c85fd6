// The bounds of 8-bit sums against an emulation of the matrix unit that shares nothing with them: right kernels are
// within, with margin, and kernels that do less than they say are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/fill.h"
#include "ops/gemm_fp8/gemm_fp8.h"
#include "ops/matmul/matrix_unit.h"
#include "ops/unit_emulation.h"

namespace ridge::testing {
namespace {

using numerics::Family;

constexpr Family kFamilies[] = {Family::kNormal,     Family::kUniform,   Family::kScaled,
                                Family::kHeavyTails, Family::kSpikes,    Family::kConstantBlocks,
                                Family::kTies,       Family::kDenormals, Family::kMixture};

struct Data {
  std::int64_t m = 0, n = 0, k = 0;
  std::vector<double> a, b;              // codes, [m, k] and [n, k]
  std::vector<double> scale_a, scale_b;  // [k / 128, m] and [k / 128, n]
};

std::vector<double> filled(Family family, DType dtype, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  std::vector<unsigned char> bytes(size_bytes(dtype, rows * columns));
  const TensorView view = TensorView::contiguous(bytes.data(), dtype, {rows, columns});
  numerics::fill(view, family, seed);
  return numerics::to_doubles(view);
}

Data data_of(Family family, std::int64_t m, std::int64_t n, std::int64_t k, bool scaled, std::uint64_t seed) {
  const std::int64_t blocks = (k + 127) / 128;
  Data d{m, n, k, filled(family, DType::kE4m3fn, m, k, seed), filled(family, DType::kE4m3fn, n, k, seed + 1), {}, {}};
  d.scale_a = scaled ? filled(family, DType::kF32, blocks, m, seed + 2) : std::vector<double>(blocks * m, 1.0);
  d.scale_b = scaled ? filled(family, DType::kF32, blocks, n, seed + 3) : std::vector<double>(blocks * n, 1.0);
  return d;
}

// What a kernel does: how long the unit adds up, where it starts anew (split k), and what it does to a term.
struct Kernel {
  std::int64_t promote_every = 128, split_at = 0;
  std::function<double(std::int64_t p, double code)> spoil;  // of op(A)
  bool half_partials = false;                                // sums between promotions kept in bf16
};

std::vector<double> run(const Data& d, const Kernel& kernel) {
  std::vector<double> c;
  std::vector<double> a(static_cast<std::size_t>(d.k));
  for (std::int64_t i = 0; i < d.m; ++i) {
    for (std::int64_t p = 0; p < d.k; ++p) {
      a[static_cast<std::size_t>(p)] = d.a[static_cast<std::size_t>(i * d.k + p)];
      if (kernel.spoil) a[static_cast<std::size_t>(p)] = kernel.spoil(p, a[static_cast<std::size_t>(p)]);
    }
    for (std::int64_t j = 0; j < d.n; ++j) {
      const double* b = d.b.data() + j * d.k;
      float total = 0;
      double partial = 0;
      for (std::int64_t p = 0; p < d.k; p += 32) {
        partial = step_of_unit(partial, a.data() + p, b + p, std::min<std::int64_t>(32, d.k - p));
        if (kernel.half_partials) partial = numerics::round_to(DType::kBf16, partial);
        const std::int64_t end = p + 32;
        if (end % kernel.promote_every != 0 && end != kernel.split_at && end < d.k) continue;
        const auto scale = static_cast<float>(d.scale_a[static_cast<std::size_t>(p / 128 * d.m + i)]) *
                           static_cast<float>(d.scale_b[static_cast<std::size_t>(p / 128 * d.n + j)]);
        total += static_cast<float>(partial) * scale;
        partial = 0;
      }
      c.push_back(total);
    }
  }
  return c;
}

// Largest |error| / allowed, and the RMS over that of the ideal kernel.
struct Found {
  double worst = 0, rms = 0;
  [[nodiscard]] bool right(std::int64_t count) const { return worst <= 1 && rms <= numerics::rms_limit(count); }
};

Found held(const Data& d, const std::vector<double>& c, std::int64_t unit_terms, DType out = DType::kF32,
           bool without_weights = false) {
  ops::ProductModel model{d.m, d.n, d.k, out};
  model.more_allowed = 4 * 0x1p-24;
  model.more_ideal_shared = 0x1p-24 / std::sqrt(6.0);
  model.matrix_unit_terms = unit_terms;
  std::vector<double> a(d.a.size()), b(d.b.size());
  model.weight_a.resize(a.size()), model.weight_b.resize(b.size());
  for (std::int64_t p = 0; p < d.k; ++p) {
    for (std::int64_t i = 0; i < d.m; ++i) {
      const auto at = static_cast<std::size_t>(i * d.k + p);
      const double scale = d.scale_a[static_cast<std::size_t>(p / 128 * d.m + i)];
      a[at] = d.a[at] * scale;
      model.weight_a[at] = lifted(d.a[at]) * scale;
    }
    for (std::int64_t j = 0; j < d.n; ++j) {
      const auto at = static_cast<std::size_t>(p * d.n + j);
      const double code = d.b[static_cast<std::size_t>(j * d.k + p)],
                   scale = d.scale_b[static_cast<std::size_t>(p / 128 * d.n + j)];
      b[at] = code * scale;
      model.weight_b[at] = lifted(code) * scale;
    }
  }
  if (without_weights) model.weight_a.clear(), model.weight_b.clear();
  const ops::ReferenceOutput right = product_reference(model, product_sums(model, a, b, {}));
  Found found;
  double squares = 0;
  for (std::size_t e = 0; e < c.size(); ++e) {
    const double error = std::abs(numerics::round_to(out, c[e]) - right.value[e]);
    if (error == 0) continue;
    found.worst = std::max(found.worst, error / right.allowed[e]);
    squares += error * error / right.ideal_square[e];
  }
  found.rms = std::sqrt(squares / static_cast<double>(c.size()));
  return found;
}

constexpr std::int64_t kM = 24, kN = 20;

TEST(MatrixUnit, RightKernelsStayWithinThreeQuartersOfTheBoundInEveryFamily) {
  for (const Family family : kFamilies) {
    for (const std::int64_t k : {40, 128, 640, 4096}) {
      const std::string what = std::string(numerics::to_string(family)) + " k=" + std::to_string(k);
      const Data scaled = data_of(family, kM, kN, k, true, 11 + static_cast<std::uint64_t>(k));
      const Found promoted = held(scaled, run(scaled, {}), 128);
      EXPECT_LE(promoted.worst, 0.75) << what << " promoted";
      EXPECT_LE(promoted.rms, 1.25) << what << " promoted";
      const Data plain = data_of(family, kM, kN, k, false, 12 + static_cast<std::uint64_t>(k));
      const Found fast = held(plain, run(plain, {k + 32}), k);
      EXPECT_LE(fast.worst, 0.75) << what << " fast";
      EXPECT_LE(fast.rms, 1.25) << what << " fast";
      const Found split = held(plain, run(plain, {k + 32, k / 64 * 32}), k);
      EXPECT_LE(split.worst, 0.75) << what << " fast, k split";
      EXPECT_LE(split.rms, 1.25) << what << " fast, k split";
    }
  }
}

// Terms that are all positive, and all equal with a mantissa that is cut in every step: the worst there is.
TEST(MatrixUnit, RightKernelsStayWithinTheBoundWhereEveryTermLosesTheSame) {
  for (const double code : {1.0, 1.125, 1.875, 3.25}) {
    for (const double other : {1.125, 1.625, 15.0}) {
      Data d = data_of(Family::kTies, 1, 1, 8192, false, 1);
      std::fill(d.a.begin(), d.a.end(), code);
      std::fill(d.b.begin(), d.b.end(), other);
      EXPECT_LE(held(d, run(d, {}), 128).worst, 1.0) << code << " * " << other;
      EXPECT_LE(held(d, run(d, {8192}), 8192).worst, 1.0) << code << " * " << other;
    }
  }
}

TEST(MatrixUnit, ABoundWithoutTheDataWouldCallRightKernelsWrongOrLetWrongOnesPass) {
  const Data d = data_of(Family::kConstantBlocks, 64, 64, 640, true, 5);
  const std::vector<double> c = run(d, {});
  ops::ProductModel model{d.m, d.n, d.k, DType::kF32};
  model.matrix_unit_terms = 128;
  const ops::ExpectedTruncation expected = expected_truncation(model);
  int beyond = 0;
  for (std::int64_t i = 0; i < d.m; ++i) {
    for (std::int64_t j = 0; j < d.n; ++j) {
      double sum = 0, size = 0, squares = 0;
      for (std::int64_t p = 0; p < d.k; ++p) {
        const double x = d.a[static_cast<std::size_t>(i * d.k + p)] * d.b[static_cast<std::size_t>(j * d.k + p)] *
                         d.scale_a[static_cast<std::size_t>(p / 128 * d.m + i)] *
                         d.scale_b[static_cast<std::size_t>(p / 128 * d.n + j)];
        sum += x;
        size += std::abs(x);
        squares += x * x;
      }
      const double error = std::abs(c[static_cast<std::size_t>(i * d.n + j)] - sum);
      beyond += error > expected.allowed * size + expected.allowed_root * std::sqrt(squares) ? 1 : 0;
    }
  }
  EXPECT_GT(beyond, 0);
  EXPECT_LE(held(d, c, 128).worst, 0.75);
}

TEST(MatrixUnit, ABoundThatForgetsTheExponentsOfSubnormalsWouldCallRightKernelsWrong) {
  const Data d = data_of(Family::kSpikes, 512, 384, 640, false, 6);
  const std::vector<double> c = run(d, {});
  EXPECT_GT(held(d, c, 128, DType::kF32, true).worst, 1.0);
  EXPECT_LE(held(d, c, 128).worst, 0.75);
}

// Each family alone must show it: a check meets only some of them on large shapes.
TEST(MatrixUnit, SumsThatAreNeverPromotedAreNotTakenForPromotedOnes) {
  for (const Family family : {Family::kNormal, Family::kConstantBlocks, Family::kMixture}) {
    for (const std::int64_t k : {4096, 16384}) {
      const Data d = data_of(family, kM, kN, k, false, 31);
      EXPECT_FALSE(held(d, run(d, {k + 32}), 128).right(kM * kN)) << numerics::to_string(family) << " k=" << k;
    }
  }
  // The rounding to 16 bits hides the sums of random terms, but not those of equal ones.
  const Data d = data_of(Family::kConstantBlocks, kM, kN, 4096, false, 31);
  EXPECT_FALSE(held(d, run(d, {4096 + 32}), 128, DType::kBf16).right(kM * kN));
  EXPECT_LE(held(d, run(d, {}), 128, DType::kBf16).worst, 1.0);
}

// Not one of thousands of equal terms: the unit may lose as much of them.
TEST(MatrixUnit, ALostTermShows) {
  for (const Family family : {Family::kNormal, Family::kMixture, Family::kUniform}) {
    for (const std::int64_t k : {640, 4096}) {
      const Kernel loses_last{128, 0, [k](std::int64_t p, double code) { return p == k - 1 ? 0.0 : code; }};
      const Data d = data_of(family, kM, kN, k, true, 41);
      EXPECT_FALSE(held(d, run(d, loses_last), 128).right(kM * kN)) << numerics::to_string(family) << " k=" << k;
      const Data plain = data_of(family, kM, kN, k, false, 41);
      Kernel fast = loses_last;
      fast.promote_every = k + 32;
      EXPECT_FALSE(held(plain, run(plain, fast), k).right(kM * kN)) << numerics::to_string(family) << " fast k=" << k;
    }
  }
}

TEST(MatrixUnit, ShorterTypesShow) {
  for (const Family family : {Family::kNormal, Family::kUniform, Family::kMixture}) {
    const Data d = data_of(family, kM, kN, 1024, true, 51);
    Kernel shorter;
    shorter.half_partials = true;
    EXPECT_FALSE(held(d, run(d, shorter), 128).right(kM * kN)) << "bf16 sums, " << numerics::to_string(family);
    Kernel e5m2;
    e5m2.spoil = [](std::int64_t, double code) { return numerics::round_to(DType::kE5m2, code); };
    EXPECT_FALSE(held(d, run(d, e5m2), 128).right(kM * kN)) << "e5m2 operands, " << numerics::to_string(family);
  }
}

}  // namespace
}  // namespace ridge::testing
