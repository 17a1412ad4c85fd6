#include "numerics/projection.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "numerics/convert.h"
#include "numerics/cpu_isa.h"
#include "numerics/fill.h"

namespace ridge::numerics {
namespace {

constexpr Isa kIsas[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512};

// Runs with the instructions of lesser machines.
class WithIsa {
 public:
  explicit WithIsa(Isa isa) : before_(isa_limit.exchange(isa)) {}
  WithIsa(const WithIsa&) = delete;
  WithIsa& operator=(const WithIsa&) = delete;
  ~WithIsa() { isa_limit = before_; }

 private:
  Isa before_;
};

struct Matrix {
  Matrix(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride)
      : memory(size_bytes(dtype, rows * stride + 1)),
        view(TensorView::matrix(memory.data(), dtype, rows, columns, stride)) {
    fill(view, Family::kNormal, 3);
  }
  [[nodiscard]] double at(std::int64_t i, std::int64_t j) const { return load_element(view, i * view.shape[1] + j); }
  std::vector<char> memory;
  TensorView view;
};

Projection vectors(std::size_t count) {
  Projection v(count);
  for (std::size_t j = 0; j < count; ++j) {
    for (std::size_t l = 0; l < kLaneCount; ++l) v.lanes[j].value[l] = static_cast<double>((7 * j + 3 * l) % 5) - 2.0;
    v.squares[j] = 1.0 + static_cast<double>(j % 3);
  }
  return v;
}

bool same(const Projection& a, const Projection& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t l = 0; l < kLaneCount; ++l) {
      if (a.lanes[i].value[l] != b.lanes[i].value[l]) return false;
    }
  }
  return a.squares == b.squares;
}

TEST(Projection, IsTheProductWithEveryLane) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const bool transposed : {false, true}) {
      const Matrix x(dtype, 13, 37, 41);
      const Projection v = vectors(transposed ? 13 : 37);
      Projection y(transposed ? 37 : 13);
      y.squares[0] = 5;  // added to
      add_projection(x.view, transposed, v, y);
      for (std::size_t i = 0; i < y.size(); ++i) {
        double sums[kLaneCount] = {}, squares = i == 0 ? 5 : 0;
        for (std::size_t j = 0; j < v.size(); ++j) {
          const auto r = static_cast<std::int64_t>(transposed ? j : i),
                     c = static_cast<std::int64_t>(transposed ? i : j);
          for (std::size_t l = 0; l < kLaneCount; ++l) {
            sums[l] += (l < kSignedLanes ? x.at(r, c) : std::fabs(x.at(r, c))) * v.lanes[j].value[l];
          }
          squares += x.at(r, c) * x.at(r, c) * v.squares[j];
        }
        for (std::size_t l = 0; l < kLaneCount; ++l) EXPECT_NEAR(y.lanes[i].value[l], sums[l], 1e-12) << i << " " << l;
        EXPECT_NEAR(y.squares[i], squares, 1e-12);
      }
    }
  }
}

TEST(Projection, GivesTheSameBitsWithEveryInstructionSet) {
  const Matrix x(DType::kF32, 29, 67, 70);
  for (const bool transposed : {false, true}) {
    std::vector<Projection> all;
    for (const Isa isa : kIsas) {
      const WithIsa limited(isa);
      all.emplace_back(transposed ? 67 : 29);
      add_projection(x.view, transposed, vectors(transposed ? 29 : 67), all.back());
    }
    EXPECT_TRUE(same(all[0], all[1]));
    EXPECT_TRUE(same(all[0], all[2]));
  }
}

TEST(Projection, OfNothingIsNothing) {
  const Matrix x(DType::kF32, 0, 5, 5);
  Projection y(5);
  add_projection(x.view, true, Projection(0), y);
  EXPECT_EQ(y.lanes[4].value[0], 0);
}

TEST(ProductMoments, AreThoseOfTheTerms) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{5, 19, 7}, {4, 8, 1}, {1, 1, 30}, {3, 9, 0}}) {
    const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    std::vector<double> a(size(m * k)), b(size(k * n));
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<double>(i));
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::cos(3.0 * static_cast<double>(i));
    const std::vector<double> one(size(m * n), 1.0);
    std::vector<ProductMoments> all;
    for (const Isa isa : kIsas) {
      const WithIsa limited(isa);
      all.push_back({one, one, one});
      add_product_moments(a, b, m, n, k, all.back());
    }
    for (std::size_t e = 0; e < size(m * n); ++e) {
      double value = 1, magnitude = 1, squares = 1;
      for (std::size_t p = 0; p < size(k); ++p) {
        const double term = a[e / size(n) * size(k) + p] * b[p * size(n) + e % size(n)];
        value += term;
        magnitude += std::fabs(term);
        squares += term * term;
      }
      EXPECT_EQ(all[0].value[e], value) << "in the order of k, so exactly";
      EXPECT_EQ(all[0].magnitude[e], magnitude);
      EXPECT_EQ(all[0].squares[e], squares);
    }
    for (std::size_t i = 1; i < 3; ++i) {
      EXPECT_EQ(all[i].value, all[0].value);
      EXPECT_EQ(all[i].magnitude, all[0].magnitude);
      EXPECT_EQ(all[i].squares, all[0].squares);
    }
  }
}

}  // namespace
}  // namespace ridge::numerics
