// What is particular to symmetric products: both triangles are equal to the last bit, what lies below the diagonal of
// the residual has no influence, scalars are of the call, and what a wrong kernel would do is seen.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "ops/harness.h"
#include "ridge/ops/symmetric_product.h"

#define __device__
#include "ops/symmetric_product/triangle.cuh"
#undef __device__

namespace ridge::testing {
namespace {

using ::testing::HasSubstr;

using Floats = std::vector<float>;

Floats normal(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> draw;
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = draw(generator);
  return values;
}

const ops::Operator& the_operator() { return **ops::find_operator("symmetric_product"); }

// A [n, k] and a residual [n, n] of fp32.
struct Gram {
  std::int64_t n = 5, k = 7;
  Floats a = normal(n * k, 1), residual = normal(n * n, 2), c = Floats(static_cast<std::size_t>(n * n), -9);

  TensorView square(Floats& values) { return TensorView::contiguous(values.data(), DType::kF32, {n, n}); }
  SymmetricProductArgs args() {
    SymmetricProductArgs args;
    args.a = TensorView::contiguous(a.data(), DType::kF32, {n, k});
    args.c = square(c);
    return args;
  }
  [[nodiscard]] double expected(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t p = 0; p < k; ++p) {
      sum += static_cast<double>(a[static_cast<std::size_t>(i * k + p)]) * a[static_cast<std::size_t>(j * k + p)];
    }
    return sum;
  }
  [[nodiscard]] float at(std::int64_t i, std::int64_t j) const { return c[static_cast<std::size_t>(i * n + j)]; }
};

TEST(SymmetricProduct, IsWhatTheContractSays) {
  Gram gram;
  SymmetricProductArgs args = gram.args();
  args.alpha = -0.5;
  args.beta = 2;
  args.shift = 3;
  args.residual = gram.square(gram.residual);
  const Status status = symmetric_product(args, Stream::cpu(2));
  ASSERT_TRUE(status.ok()) << status.error().text();
  for (std::int64_t i = 0; i < gram.n; ++i) {
    for (std::int64_t j = 0; j < gram.n; ++j) {
      const double r = gram.residual[static_cast<std::size_t>(std::min(i, j) * gram.n + std::max(i, j))];
      EXPECT_NEAR(gram.at(i, j), -0.5 * gram.expected(i, j) + 2 * r + (i == j ? 3 : 0), 1e-5) << i << ", " << j;
    }
  }
}

TEST(SymmetricProduct, ATransposedOperandGivesTheOtherGramMatrix) {
  Gram gram;
  Floats flipped(gram.a.size());
  for (std::int64_t i = 0; i < gram.n; ++i) {
    for (std::int64_t p = 0; p < gram.k; ++p) {
      flipped[static_cast<std::size_t>(p * gram.n + i)] = gram.a[static_cast<std::size_t>(i * gram.k + p)];
    }
  }
  SymmetricProductArgs args = gram.args();
  args.trans_a = true;
  args.a = TensorView::contiguous(flipped.data(), DType::kF32, {gram.k, gram.n});
  ASSERT_TRUE(symmetric_product(args, Stream::cpu(1)));
  for (std::int64_t i = 0; i < gram.n; ++i) {
    for (std::int64_t j = 0; j < gram.n; ++j) EXPECT_NEAR(gram.at(i, j), gram.expected(i, j), 1e-5);
  }
}

TEST(SymmetricProduct, BelowTheDiagonalTheResidualHoldsAnything) {
  Gram clean, dirty;
  for (std::int64_t i = 0; i < dirty.n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      dirty.residual[static_cast<std::size_t>(i * dirty.n + j)] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  for (Gram* const gram : {&clean, &dirty}) {
    SymmetricProductArgs args = gram->args();
    args.residual = gram->square(gram->residual);
    ASSERT_TRUE(symmetric_product(args, Stream::cpu(2)));
  }
  EXPECT_EQ(clean.c, dirty.c);
}

// A result of a case, as any implementation may have left it.
struct Checked {
  ops::Problem problem;
  Operands before, after;

  explicit Checked(const char* words)
      : problem(*the_operator().bind(*record::parse_case(fmt::format("symmetric_product {}", words)))),
        before(make_operands(problem, kPacked, 5)),
        after(make_operands(problem, kPacked, 5)) {
    const ops::Implementation& own = **ops::find_implementation(the_operator(), "cpu_bands");
    std::vector<std::byte> scratch(own.workspace_bytes(problem, Stream::cpu(2)) + 64);
    const Status status = own.run(problem, {after.views(), after.scalars, scratch}, Stream::cpu(2));
    EXPECT_TRUE(status.ok()) << status.error().text();
  }
  [[nodiscard]] std::string verdict(std::uint64_t seed = 3) const {
    return judge(the_operator(), problem, before, after, seed);
  }
  Operand& c() { return after.all.back(); }
};

TEST(SymmetricProduct, BothTrianglesAreEqualToTheLastBitOnAnyNumberOfThreads) {
  for (const char* words : {"n=321 k=200 residual=1", "n=130 k=72 dtype=f16 layout=t", "n=97 k=31 dtype=f32",
                            "n=200 k=64 out=f32 residual=1 batch=2"}) {
    Checked checked(words);
    EXPECT_EQ(checked.verdict(), "") << words;
    const TensorView c = checked.c().view();
    const std::vector<double> values = checked.c().values();
    const std::int64_t n = c.shape[1];
    for (std::int64_t index = 0; index < c.shape[0]; ++index) {
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < i; ++j) {
          const auto at = [&](std::int64_t row, std::int64_t column) {
            return values[static_cast<std::size_t>((index * n + row) * n + column)];
          };
          ASSERT_EQ(at(i, j), at(j, i)) << words << ": " << i << ", " << j;
        }
      }
    }
  }
}

TEST(SymmetricProduct, WhatAWrongKernelWouldDoIsSeen) {
  using Change = std::function<double(double value, std::int64_t row, std::int64_t column)>;
  struct Mutant {
    const char* what;
    Change change;
  };
  const Mutant mutants[] = {
      {"a factor that is off by 0.4 %", [](double x, auto, auto) { return 1.004 * x; }},
      {"one tile that was not written twice",
       [](double x, auto row, auto col) { return row >= 128 && col < 64 ? 0 : x; }},
      {"one element below the diagonal",
       [](double x, auto row, auto col) { return row == 90 && col == 2 ? x + 8 : x; }},
      {"no shift at the end", [](double x, auto row, auto col) { return row == 191 && col == 191 ? x + 4 : x; }},
  };
  for (const char* words : {"n=192 k=96", "n=192 k=96 dtype=f32 residual=1"}) {
    for (const Mutant& mutant : mutants) {
      Checked checked(words);
      std::vector<double> values = checked.c().values();
      for (std::size_t e = 0; e < values.size(); ++e) {
        values[e] = mutant.change(values[e], static_cast<std::int64_t>(e) / 192, static_cast<std::int64_t>(e) % 192);
      }
      checked.c().assign(values);
      EXPECT_NE(checked.verdict(), "") << words << ": " << mutant.what;
    }
  }
}

// Every scalar counts: the reference of other ones refuses the result.
TEST(SymmetricProduct, AScalarThatIsOffIsSeen) {
  for (std::size_t which = 0; which < 3; ++which) {
    Checked checked("n=150 k=80 residual=1 dtype=f32");
    EXPECT_EQ(checked.verdict(), "");
    record::Scalar& scalar = checked.before.scalars[which];
    scalar = record::Scalar::f32(static_cast<float>(scalar.real() * 1.001 + (scalar.real() == 0 ? 0.001 : 0)));
    checked.after.scalars = checked.before.scalars;
    EXPECT_NE(checked.verdict(), "") << which;
  }
}

// The order in which GPUs walk the tiles: each on or above the diagonal once, and none beside them.
template <unsigned kAcross>
void every_tile_once(unsigned cols, unsigned group) {
  const unsigned rows = (cols + kAcross - 1) / kAcross;
  unsigned tiles = 0;
  for (unsigned row = 0; row < rows; ++row) tiles += cols - kAcross * row;
  ASSERT_EQ(tiles, rows * cols - kAcross * (rows * (rows - 1) / 2)) << "as launch plans count them";
  std::set<std::pair<unsigned, unsigned>> seen;
  for (unsigned index = 0; index < tiles; ++index) {
    const cuda::TriangleTile tile = cuda::triangle_tile<kAcross>(rows, cols, group, index);
    ASSERT_LT(tile.row, rows);
    ASSERT_LT(tile.col, cols);
    ASSERT_GE(tile.col, kAcross * tile.row) << "below the diagonal";
    ASSERT_TRUE(seen.emplace(tile.row, tile.col).second) << tile.row << ", " << tile.col << " comes twice";
  }
}

TEST(SymmetricProduct, TheWalkOfAGpuTakesEveryTileOnce) {
  for (unsigned cols = 1; cols < 40; ++cols) {
    for (const unsigned group : {1u, 2u, 3u, 8u, 32u}) {
      every_tile_once<1>(cols, std::min(group, cols));
      every_tile_once<2>(cols, std::min(group, (cols + 1) / 2));
    }
  }
}

// Tiles that are in flight together read little: as many rows and columns as a rectangle of the band's height.
TEST(SymmetricProduct, TilesInFlightAreACompactRectangle) {
  constexpr unsigned kSide = 64, kGroup = 8, kInFlight = 132;
  for (unsigned first = 0; first + kInFlight <= kSide * (kSide + 1) / 2; first += kInFlight) {
    std::set<unsigned> lines;
    for (unsigned index = first; index < first + kInFlight; ++index) {
      const cuda::TriangleTile tile = cuda::triangle_tile<1>(kSide, kSide, kGroup, index);
      lines.insert({tile.row, tile.col});
    }
    EXPECT_LE(lines.size(), 3 * kGroup + 2 * kInFlight / kGroup) << first;
  }
}

TEST(SymmetricProduct, SaysWhatDoesNotGoTogether) {
  Gram gram;
  const auto error = [&](auto&& change) {
    SymmetricProductArgs args = gram.args();
    change(args);
    const Status status = symmetric_product(args, Stream::cpu(1));
    return status.ok() ? std::string("taken") : status.error().text();
  };
  EXPECT_THAT(error([](auto& args) { args.trans_a = true; }), HasSubstr("op(A) op(A)^T is [7, 7]"));
  EXPECT_THAT(error([](auto& args) { args.a.dtype = DType::kI32; }), HasSubstr("give f32, bf16 or f16"));
  EXPECT_THAT(error([](auto& args) { args.c.dtype = DType::kBf16; }), HasSubstr("C cannot be bf16"));
  EXPECT_THAT(error([](auto& args) { args.alpha = std::nan(""); }), HasSubstr("alpha is nan"));
  EXPECT_THAT(error([](auto& args) { args.shift = 1e300; }), HasSubstr("shift is 1e+300"));
  EXPECT_THAT(error([](auto& args) { args.residual = args.a; }), HasSubstr("give it C's shape and dtype"));
  EXPECT_THAT(error([](auto& args) { args.residual = args.c; }), HasSubstr("residual"));
  EXPECT_THAT(error([](auto& args) { args.c.data = args.a.data; }), HasSubstr("A"));
}

}  // namespace
}  // namespace ridge::testing
