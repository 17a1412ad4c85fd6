// Two sweeps over matrices in fp64 that decide how much checking costs: a matrix times several vectors at once, and a
// product with the moments of its terms. Vectorised with AVX-512 or AVX2 where there is one, the same bits everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ridge/tensor.h"

namespace ridge::numerics {

inline constexpr std::size_t kSignedLanes = 4;
inline constexpr std::size_t kAbsoluteLanes = 4;
inline constexpr std::size_t kLaneCount = kSignedLanes + kAbsoluteLanes;

struct alignas(64) LaneSums {
  double value[kLaneCount] = {};
};

// Eight vectors carried side by side, and a ninth for squares.
struct Projection {
  std::vector<LaneSums> lanes;
  std::vector<double> squares;

  explicit Projection(std::size_t count) : lanes(count), squares(count) {}
  [[nodiscard]] std::size_t size() const { return lanes.size(); }
};

// With X = x, or its transpose, [rows, columns], and v of `columns` entries, adds to `y` of `rows` entries:
//   lanes 0..3  sum_j X_ij v_j      lanes 4..7  sum_j |X_ij| v_j      squares  sum_j X_ij^2 v_j
// `x` is a matrix whose columns are contiguous. Every element is read once.
void add_projection(const TensorView& x, bool transposed, const Projection& v, Projection& y);

// For C = A B, row-major and contiguous, A [m, k], B [k, n], with p running over the k products of an element: adds
//   value  sum p      magnitude  sum |p|      squares  sum p^2         in the order of k, one rounding per operation.
struct ProductMoments {
  std::vector<double> value, magnitude, squares;
};
void add_product_moments(std::span<const double> a, std::span<const double> b, std::int64_t m, std::int64_t n,
                         std::int64_t k, ProductMoments& into);

}  // namespace ridge::numerics
