#include "numerics/projection.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "numerics/convert.h"
#include "numerics/cpu_isa.h"

namespace ridge::numerics {
namespace {

constexpr std::int64_t kBlockRows = 4;  // rows of A that share one pass over B

template <int kWidth>
struct Types;
template <>
struct Types<8> {
  using Vector = double __attribute__((vector_size(64), aligned(8)));
  using Bits = std::uint64_t __attribute__((vector_size(64), aligned(8)));
};
template <>
struct Types<4> {
  using Vector = double __attribute__((vector_size(32), aligned(8)));
  using Bits = std::uint64_t __attribute__((vector_size(32), aligned(8)));
};
template <>
struct Types<2> {
  using Vector = double __attribute__((vector_size(16), aligned(8)));
  using Bits = std::uint64_t __attribute__((vector_size(16), aligned(8)));
};

constexpr std::uint64_t kAll = ~std::uint64_t{0}, kSize = kAll >> 1;
constexpr std::uint64_t kLaneMask[kLaneCount] = {kAll, kAll, kAll, kAll, kSize, kSize, kSize, kSize};

// One vector register of kWidth doubles; eight lanes are 8 / kWidth of them. Products and sums stay separate
// operations (this file is built without contraction), so every width gives the same bits.
template <int kWidth>
struct Register {
  using Vector = typename Types<kWidth>::Vector;
  using Bits = typename Types<kWidth>::Bits;
  static constexpr int kParts = static_cast<int>(kLaneCount) / kWidth;

  [[gnu::always_inline]] static void load(const double* from, Vector& to) { std::memcpy(&to, from, sizeof to); }
  [[gnu::always_inline]] static void store(const Vector& from, double* to) { std::memcpy(to, &from, sizeof from); }
  [[gnu::always_inline]] static void absolute(const Vector& from, Vector& to) {
    to = reinterpret_cast<Vector>(reinterpret_cast<Bits>(from) & kSize);
  }
  // x in the signed lanes of part `part`, |x| in the others.
  [[gnu::always_inline]] static void spread(double x, int part, Vector& out) {
    Bits mask;
    std::memcpy(&mask, kLaneMask + part * kWidth, sizeof mask);
    const Vector same = x - Vector{};
    out = reinterpret_cast<Vector>(reinterpret_cast<Bits>(same) & mask);
  }
};

// sum of x_j^2 w_j in eight interleaved partial sums.
template <int kWidth>
[[gnu::always_inline]] inline double weighted_squares(const double* x, const double* w, std::int64_t count) {
  using R = Register<kWidth>;
  typename R::Vector sum[R::kParts] = {}, values, weight;
  std::int64_t j = 0;
  for (; j + static_cast<int>(kLaneCount) <= count; j += static_cast<int>(kLaneCount)) {
    for (int part = 0; part < R::kParts; ++part) {
      R::load(x + j + part * kWidth, values);
      R::load(w + j + part * kWidth, weight);
      sum[part] += values * values * weight;
    }
  }
  double partial[kLaneCount], total = 0;
  std::memcpy(partial, sum, sizeof partial);
  for (const double one : partial) total += one;
  for (; j < count; ++j) total += x[j] * x[j] * w[j];
  return total;
}

// y += x v for one row of X.
template <int kWidth>
[[gnu::always_inline]] inline void row_loop(const double* x, std::int64_t columns, const double* v, const double* w,
                                            double* y, double* squares) {
  using R = Register<kWidth>;
  typename R::Vector even[R::kParts] = {}, odd[R::kParts] = {}, values, factor;
  const auto step = [&](std::int64_t j, typename R::Vector(&sum)[R::kParts]) __attribute__((always_inline)) {
    for (int part = 0; part < R::kParts; ++part) {
      R::load(v + j * static_cast<int>(kLaneCount) + part * kWidth, values);
      R::spread(x[j], part, factor);
      sum[part] += factor * values;
    }
  };
  std::int64_t j = 0;
  for (; j + 2 <= columns; j += 2) {
    step(j, even);
    step(j + 1, odd);
  }
  if (j < columns) step(j, even);
  for (int part = 0; part < R::kParts; ++part) {
    R::load(y + part * kWidth, values);
    values += even[part] + odd[part];
    R::store(values, y + part * kWidth);
  }
  *squares += weighted_squares<kWidth>(x, w, columns);
}

// The same for the transpose: one stored row times one entry of v goes to all of y.
template <int kWidth>
[[gnu::always_inline]] inline void column_loop(const double* x, std::int64_t columns, const double* v, const double* w,
                                               double* y, double* squares) {
  using R = Register<kWidth>;
  typename R::Vector entry[R::kParts], sum, factor;
  for (int part = 0; part < R::kParts; ++part) R::load(v + part * kWidth, entry[part]);
  for (std::int64_t j = 0; j < columns; ++j) {
    for (int part = 0; part < R::kParts; ++part) {
      double* at = y + j * static_cast<int>(kLaneCount) + part * kWidth;
      R::load(at, sum);
      R::spread(x[j], part, factor);
      sum += factor * entry[part];
      R::store(sum, at);
    }
  }
  for (std::int64_t j = 0; j < columns; ++j) squares[j] += x[j] * x[j] * *w;
}

// One strip of kWidth columns of C for up to four rows of A at a time: twelve accumulators.
template <int kWidth, bool kFull>
[[gnu::always_inline]] inline void moments_strip(const double* a, std::int64_t some_rows, std::int64_t k,
                                                 const double* b, std::int64_t n, double* value, double* magnitude,
                                                 double* squares) {
  using R = Register<kWidth>;
  typename R::Vector sum[kBlockRows], size[kBlockRows], square[kBlockRows], right, absolute;
  const std::int64_t rows = kFull ? kBlockRows : some_rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    R::load(value + r * n, sum[r]);
    R::load(magnitude + r * n, size[r]);
    R::load(squares + r * n, square[r]);
  }
  for (std::int64_t p = 0; p < k; ++p) {
    R::load(b + p * n, right);
    for (std::int64_t r = 0; r < rows; ++r) {
      const typename R::Vector product = a[r * k + p] * right;
      R::absolute(product, absolute);
      sum[r] += product;
      size[r] += absolute;
      square[r] += product * product;
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    R::store(sum[r], value + r * n);
    R::store(size[r], magnitude + r * n);
    R::store(square[r], squares + r * n);
  }
}

template <int kWidth>
[[gnu::always_inline]] inline void moments_rows(const double* a, std::int64_t rows, std::int64_t k, const double* b,
                                                std::int64_t n, double* value, double* magnitude, double* squares) {
  std::int64_t j = 0;
  for (; j + kWidth <= n; j += kWidth) {
    if (rows == kBlockRows) {
      moments_strip<kWidth, true>(a, rows, k, b + j, n, value + j, magnitude + j, squares + j);
    } else {
      moments_strip<kWidth, false>(a, rows, k, b + j, n, value + j, magnitude + j, squares + j);
    }
  }
  for (; j < n; ++j) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t p = 0; p < k; ++p) {
        const double product = a[r * k + p] * b[p * n + j];
        value[r * n + j] += product;
        magnitude[r * n + j] += product < 0 ? -product : product;
        squares[r * n + j] += product * product;
      }
    }
  }
}

using Sweep = void (*)(const double* x, std::int64_t columns, const double* v, const double* w, double* y,
                       double* squares);
using MomentSweep = void (*)(const double* a, std::int64_t rows, std::int64_t k, const double* b, std::int64_t n,
                             double* value, double* magnitude, double* squares);
struct Sweeps {
  Sweep row, column;
  MomentSweep moments;
};

constexpr Sweeps kPortable = {
    [](const double* x, std::int64_t columns, const double* v, const double* w, double* y, double* squares) {
      row_loop<2>(x, columns, v, w, y, squares);
    },
    [](const double* x, std::int64_t columns, const double* v, const double* w, double* y, double* squares) {
      column_loop<2>(x, columns, v, w, y, squares);
    },
    [](const double* a, std::int64_t rows, std::int64_t k, const double* b, std::int64_t n, double* value,
       double* magnitude, double* squares) { moments_rows<2>(a, rows, k, b, n, value, magnitude, squares); }};

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]] void row_avx512(
    const double* x, std::int64_t columns, const double* v, const double* w, double* y, double* squares) {
  row_loop<8>(x, columns, v, w, y, squares);
}
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]] void column_avx512(
    const double* x, std::int64_t columns, const double* v, const double* w, double* y, double* squares) {
  column_loop<8>(x, columns, v, w, y, squares);
}
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]] void moments_avx512(
    const double* a, std::int64_t rows, std::int64_t k, const double* b, std::int64_t n, double* value,
    double* magnitude, double* squares) {
  moments_rows<8>(a, rows, k, b, n, value, magnitude, squares);
}
[[gnu::target("avx2")]] void row_avx2(const double* x, std::int64_t columns, const double* v, const double* w,
                                      double* y, double* squares) {
  row_loop<4>(x, columns, v, w, y, squares);
}
[[gnu::target("avx2")]] void column_avx2(const double* x, std::int64_t columns, const double* v, const double* w,
                                         double* y, double* squares) {
  column_loop<4>(x, columns, v, w, y, squares);
}
[[gnu::target("avx2")]] void moments_avx2(const double* a, std::int64_t rows, std::int64_t k, const double* b,
                                          std::int64_t n, double* value, double* magnitude, double* squares) {
  moments_rows<4>(a, rows, k, b, n, value, magnitude, squares);
}
constexpr Sweeps kAvx512 = {row_avx512, column_avx512, moments_avx512};
constexpr Sweeps kAvx2 = {row_avx2, column_avx2, moments_avx2};
#endif

const Sweeps& sweeps() {
#if defined(__x86_64__)
  if (best_isa() == Isa::kAvx512) return kAvx512;
  if (best_isa() == Isa::kAvx2) return kAvx2;
#endif
  return kPortable;
}

}  // namespace

void add_projection(const TensorView& x, bool transposed, const Projection& v, Projection& y) {
  const std::int64_t rows = x.shape[0], columns = x.shape[1];
  check(static_cast<std::int64_t>(v.size()) == (transposed ? rows : columns), "add_projection: one entry per column");
  check(static_cast<std::int64_t>(y.size()) == (transposed ? columns : rows), "add_projection: one entry per row");
  if (rows == 0 || columns == 0) return;
  check(x.rank == 2 && (x.stride[1] == 1 || columns == 1), "add_projection: columns must be contiguous");
  const Sweeps& sweep = sweeps();
  std::vector<double> row(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const char* data = static_cast<const char*>(x.data) + size_bytes(x.dtype, i * x.stride[0]);
    to_double(x.dtype, data, row.data(), columns);
    if (transposed) {
      sweep.column(row.data(), columns, v.lanes[at].value, &v.squares[at], y.lanes[0].value, y.squares.data());
    } else {
      sweep.row(row.data(), columns, v.lanes[0].value, v.squares.data(), y.lanes[at].value, &y.squares[at]);
    }
  }
}

void add_product_moments(std::span<const double> a, std::span<const double> b, std::int64_t m, std::int64_t n,
                         std::int64_t k, ProductMoments& into) {
  const auto size = static_cast<std::size_t>(m * n);
  check(a.size() == static_cast<std::size_t>(m * k) && b.size() == static_cast<std::size_t>(k * n) &&
            into.value.size() == size && into.magnitude.size() == size && into.squares.size() == size,
        "add_product_moments: sizes do not fit");
  if (n == 0) return;
  const Sweeps& sweep = sweeps();
  for (std::int64_t i = 0; i < m; i += kBlockRows) {
    const std::int64_t first = i * n;
    sweep.moments(a.data() + i * k, std::min(kBlockRows, m - i), k, b.data(), n, into.value.data() + first,
                  into.magnitude.data() + first, into.squares.data() + first);
  }
}

}  // namespace ridge::numerics
