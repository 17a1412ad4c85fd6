// Checks of a matrix product on the GPU, in fp64, sharing no code with any product that is measured:
//
//   projection   C r against A (B r) (+ C_old r) for secret sign vectors r: every matrix is read once. One row's
//                difference has the variance sum_j var_ij under r, so rows are held to 12 standard deviations of the
//                ideal kernel, and the mean over all rows to twice its RMS error (numerics/error_model.h).
//   samples      where an activation makes C nonlinear: one element at a secret place of every 64 x 64, in full.
//   reference    every element by plain sums, with its bound, the ideal kernel's variance, and the shift it may have.
//                For 8-bit sums in the matrix unit all three come from the data, as ops/matmul/matrix_unit.h says.
//
// check_numbers.cuh comes before this; every parameter is 8 bytes or a Matrix.
namespace ridge::product_check {

constexpr int kSigned = 4;           // comparisons: errors that cancel in one show in another
constexpr int kLanes = kSigned + 1;  // and one for the squares
constexpr double kUnit = 0x1p-24;    // of fp32, in which everything but 8-bit sums is computed
constexpr double kSigmas = 12;       // numerics::kMixedSignSigmas

enum Flag : int { kTransA = 1, kTransB = 2, kAddsOld = 4, kSettle = 8 };

// How sums may be wrong: `truncated` relative to |s| + sqrt(Q), as matrix units do that cut off what sticks out when
// they align products; the others as in ops/matmul/product.h.
struct Model {
  double terms, truncated, more_allowed, more_ideal_shared;
};
// What the matrix unit may have cut off the 8-bit sums of one element.
struct Cut {
  double allowed, variance, shift;
};

__device__ inline double ideal_variance(const Model& m, double squares, double value_square) {
  const double n = m.terms > 1 ? m.terms : 1;
  // |sum of magnitudes|^2 <= n Q.
  return kUnit * kUnit * n * (squares / 12 + value_square / 18) +
         m.more_ideal_shared * m.more_ideal_shared * n * squares + n * n * 0x1p-300;
}

__device__ inline double activate(double x, i64 activation) {  // Activation of ridge/ops/gemm.h
  switch (activation) {
    case 1: return x / 2 * (1 + erf(x * 0.70710678118654752440));
    case 2: return x / 2 * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case 3: return x / (1 + exp(-x));
    default: return x;
  }
}

// One element: sum, sum of magnitudes, sum of squares of its products, without what the epilogue adds.
struct Sums {
  double sum, size, squares;
  bool any_scale_not_finite;  // then implementations may differ in whether NaN or an infinity comes out
};

__device__ inline Element finish(Sums s, const Cut& cut, const Model& m, const Matrix& bias, const Matrix& added,
                                 i64 flags, i64 activation, i64 out_type, i64 row, i64 column) {
  const bool adds_old = (flags & kAddsOld) != 0;
  if (adds_old) {
    const double before = load(added, row, column);
    s.sum += before;
    s.size += fabs(before);
    s.squares += before * before;
  }
  const double root = sqrt(s.squares);
  double x = s.sum, shift = m.truncated * (fabs(x) + root);
  double allowed = (8 * kUnit * sqrt(m.terms) + m.more_allowed) * s.size + cut.allowed + m.terms * 0x1p-150;
  double variance = ideal_variance(m, s.squares, x * x) + shift * shift + cut.variance;
  shift += cut.shift + m.more_allowed * fabs(x);
  const auto rounded_to = [&](double result) {
    allowed += kUnit * fabs(result);
    variance += kUnit * kUnit * result * result / 6;
    return result;
  };
  if (bias.data != nullptr) x = rounded_to(x + load(bias, 0, column));
  if (activation != 0) {
    const double step = 1e-4 * fmax(1.0, fabs(x)), before = x;
    const double slope = (activate(x + step, activation) - activate(x - step, activation)) / (2 * step);
    x = activate(x, activation);
    allowed = 1.13 * allowed + 8 * kUnit * fabs(before);
    if (isfinite(slope)) variance *= slope * slope;
    variance += 4 * kUnit * kUnit * before * before / 3;
    shift = 1.13 * shift + 8 * kUnit * fabs(before);
  }
  if (added.data != nullptr && !adds_old) x = rounded_to(x + load(added, row, column));
  if (s.any_scale_not_finite && !isfinite(x)) return {x, -1.0, 1.0, 0.0};
  const double low = round_to(out_type, x - allowed);
  if ((flags & kSettle) != 0 && isfinite(low) && low == round_to(out_type, x + allowed)) {
    const Rounded only = known(out_type, low);
    return {only.value, only.allowed, only.variance, 0.0};
  }
  const double half = half_ulp(out_type, x);
  return {x, allowed + half_ulp(out_type, fabs(x) + allowed), variance + half * half / 3, shift};
}

// Elements of op(A) [m, k] and of op(B)^T [n, k] with their scales.
__device__ inline double element(const Matrix& x, bool k_is_row, const Matrix& scale, i64 granularity, i64 mn, i64 k,
                                 bool& bad) {
  const double value = k_is_row ? load(x, k, mn) : load(x, mn, k);
  if (granularity == kNoScale) return value;
  const double factor = scale_at(scale, granularity, mn, k);
  bad = bad || !isfinite(factor);
  return value * factor;
}

// What the matrix unit aligns that element by: a subnormal code is aligned as if it had the exponent of the smallest
// normal one, which its field says.
__device__ inline float alignment_weight(const Matrix& x, double code, double value) {
  const double size = fabs(code), least = x.type == kE4m3 ? 0x1p-6 : 0x1p-14;
  return static_cast<float>(fabs(value) * (size > 0 && size < least ? least / size : 1.0));
}
__device__ inline float alignment_weight(const Matrix& x, bool k_is_row, i64 mn, i64 k, double value) {
  return alignment_weight(x, k_is_row ? load(x, k, mn) : load(x, mn, k), value);
}

constexpr int kTile = 64, kDepth = 16;  // elements of a block, and the terms of a step
using Slice = double[kDepth][kTile + 1];

// Sums of 4 x 4 elements by a thread of a block of 64 x 64.
struct TileSums {
  double sums[4][4] = {};
  float sizes[4][4] = {}, squares[4][4] = {};

  // Of a step's terms, from row and column on.
  __device__ void add(const Slice& a, const Slice& b, int row, int column) {
#pragma unroll 4
    for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const double x = a[depth][row + i], y = b[depth][column + j];
          sums[i][j] += x * y;
          const float product = static_cast<float>(x) * static_cast<float>(y);
          sizes[i][j] += fabsf(product);
          squares[i][j] += product * product;
        }
      }
    }
  }
  [[nodiscard]] __device__ Sums at(int i, int j, bool any_scale_not_finite) const {
    return {sums[i][j], sizes[i][j], squares[i][j], any_scale_not_finite};
  }
};

// A step of the matrix unit along k, in fp32, since bounds are made of it: numbers, and what they are aligned by.
constexpr int kUnitStep = 32;
struct UnitStep {
  float values[kUnitStep][kTile + 1], weights[kUnitStep][kTile + 1];

  __device__ void put(int depth, int at, double value, float weight) {
    values[depth][at] = static_cast<float>(value);
    weights[depth][at] = weight;
  }
};

// What the matrix unit may cut off 4 x 4 sums by a thread of a block of 64 x 64 (ops/matmul/matrix_unit.h).
struct UnitSums {
  float sum[4][4] = {}, low[4][4] = {}, high[4][4] = {}, coherent[4][4] = {}, lean[4][4] = {};
  double spread[4][4] = {};

  // `promoted`: behind this step the sums move to fp32.
  __device__ void add(const UnitStep& a, const UnitStep& b, int row, int column, bool promoted) {
    const auto sign = [](float x) { return copysignf(x != 0 ? 1.0f : 0.0f, x); };
    float largest[4][4] = {}, signs[4][4] = {};
#pragma unroll 4
    for (int depth = 0; depth < kUnitStep; ++depth) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float x = a.values[depth][row + i], y = b.values[depth][column + j];
          sum[i][j] += x * y;
          largest[i][j] = fmaxf(largest[i][j], a.weights[depth][row + i] * b.weights[depth][column + j]);
          signs[i][j] += sign(x) * sign(y);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float u = 0x1p-13f * fmaxf(high[i][j] - low[i][j], largest[i][j]);
        coherent[i][j] += u * signs[i][j] * signs[i][j] / kUnitStep;
        lean[i][j] += u * signs[i][j];
        spread[i][j] += static_cast<double>(u) * u;
        low[i][j] = promoted ? sum[i][j] : fminf(low[i][j], sum[i][j]);
        high[i][j] = promoted ? sum[i][j] : fmaxf(high[i][j], sum[i][j]);
      }
    }
  }
  // Of sums of so many terms.
  [[nodiscard]] __device__ Cut at(int i, int j, i64 terms) const {
    const double steps = fmax(1.0, static_cast<double>((terms + kUnitStep - 1) / kUnitStep));
    const double together = coherent[i][j], most = together + 10 * sqrt(spread[i][j]), leaning = 0.36 * lean[i][j];
    return {isfinite(most) ? most : __longlong_as_double(0x7ff0000000000000ll),  // of infinite terms
            leaning * leaning + 1.5 * spread[i][j] + together * together / (8 * steps), fabs(leaning)};
  }
};

}  // namespace ridge::product_check

using namespace ridge::product_check;

// v[lane][i]: signs, and ones.
extern "C" __global__ void product_signs(double* v, i64 count, u64 seed) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    const u64 bits = mix(seed ^ mix(static_cast<u64>(i)));
    for (int lane = 0; lane < kSigned; ++lane) v[lane * count + i] = (bits >> (7 * lane) & 1) != 0 ? 1.0 : -1.0;
    v[kSigned * count + i] = 1.0;
  }
}

// y[lane][row] += sum_column X[row, column] v[lane][column]; the last lane sums squares of X. A warp holds 8 rows, so
// that v is read once for them; grid.y splits the columns. `half_ulps` (may be null) gets the sum of the squared half
// distances between neighbours of X's type. X may have scales along its rows (k_is_row) or columns.
extern "C" __global__ void __launch_bounds__(256, 1)
    product_rows(Matrix x, Matrix scale, i64 granularity, i64 k_is_row, const double* v, i64 per_block, double* y,
                 double* half_ulps) {
  constexpr int kRows = 8;
  const i64 first = (blockIdx.x * 8ll + threadIdx.x / 32) * kRows;
  if (first >= x.rows) return;
  const i64 begin = blockIdx.y * per_block, end = min(begin + per_block, x.columns);
  double sums[kRows][kLanes] = {}, ulps[kRows] = {};
  for (i64 c = begin + threadIdx.x % 32; c < end; c += 32) {
    double factor[kLanes];
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) factor[lane] = v[lane * x.columns + c];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= x.rows) break;
      double value = load(x, first + r, c);
      if (granularity != kNoScale) {
        value *= k_is_row ? scale_at(scale, granularity, c, first + r) : scale_at(scale, granularity, first + r, c);
      }
#pragma unroll
      for (int lane = 0; lane < kSigned; ++lane) sums[r][lane] += value * factor[lane];
      sums[r][kSigned] += value * value * factor[kSigned];
      if (half_ulps != nullptr) {
        const double h = half_ulp(x.type, value);
        ulps[r] += h * h;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      double total = sums[r][lane];
      for (int offset = 16; offset > 0; offset >>= 1) total += __shfl_down_sync(~0u, total, offset);
      if (threadIdx.x % 32 == 0 && first + r < x.rows) atomicAdd(&y[lane * x.rows + first + r], total);
    }
    double total = ulps[r];
    for (int offset = 16; offset > 0; offset >>= 1) total += __shfl_down_sync(~0u, total, offset);
    if (half_ulps != nullptr && threadIdx.x % 32 == 0 && first + r < x.rows) atomicAdd(&half_ulps[first + r], total);
  }
}

// y[lane][column] += sum_row X[row, column] v[lane][row]; a thread holds 4 columns, grid.y splits the rows.
extern "C" __global__ void __launch_bounds__(128)
    product_columns(Matrix x, Matrix scale, i64 granularity, i64 k_is_row, const double* v, i64 per_block, double* y) {
  constexpr int kColumns = 4;
  const i64 first = blockIdx.x * 512ll + threadIdx.x;
  const i64 begin = blockIdx.y * per_block, end = min(begin + per_block, x.rows);
  double sums[kColumns][kLanes] = {};
  for (i64 r = begin; r < end; ++r) {
    double factor[kLanes];
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) factor[lane] = v[lane * x.rows + r];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const i64 column = first + 128 * c;
      if (column >= x.columns) break;
      double value = load(x, r, column);
      if (granularity != kNoScale) {
        value *= k_is_row ? scale_at(scale, granularity, column, r) : scale_at(scale, granularity, r, column);
      }
#pragma unroll
      for (int lane = 0; lane < kSigned; ++lane) sums[c][lane] += value * factor[lane];
      sums[c][kSigned] += value * value * factor[kSigned];
    }
  }
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    if (first + 128 * c >= x.columns) break;
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) atomicAdd(&y[lane * x.columns + first + 128 * c], sums[c][lane]);
  }
}

// found = C r with the squares of C in its last lane, expected = A (B r) with Q in its last lane, `added` (may be null)
// what bias and residual contribute; rows of each lane.
extern "C" __global__ void product_judge(const double* found, const double* expected, const double* added,
                                         const double* half_ulps, i64 rows, double terms, double truncated,
                                         double more_ideal, double more_ideal_shared, Projection* result) {
  const Model m{terms, truncated, 0, more_ideal_shared};
  double squares = 0, count = 0;
  for (i64 row = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; row < rows;
       row += static_cast<i64>(gridDim.x) * blockDim.x) {
    const double value_square = found[kSigned * rows + row], q = expected[kSigned * rows + row];
    double variance = ideal_variance(m, q, value_square) + more_ideal * more_ideal * q +
                      2 * truncated * truncated * (q + value_square) + half_ulps[row] / 3;
    if (added != nullptr) variance += kUnit * kUnit * (value_square + added[kSigned * rows + row]) / 3;
    for (int lane = 0; lane < kSigned; ++lane) {
      const double more = added != nullptr ? added[lane * rows + row] : 0.0;
      const double residual = fabs(found[lane * rows + row] - expected[lane * rows + row] - more);
      if (!isfinite(residual) || !isfinite(variance)) {
        atomicAdd(&result->not_finite, 1ull);
        continue;
      }
      note_worst(result, residual / (kSigmas * sqrt(variance)), row);
      squares += residual * residual / variance;
      count += 1;
    }
  }
  add_to(result, squares, count);
}

// One element of every `kStep` x `kStep` of C, at a place that the seed tells, against its value in full. A warp takes
// 4 x 4 of them; its lanes split K.
extern "C" __global__ void __launch_bounds__(256)
    product_samples(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, Matrix bias, Matrix added, Matrix c,
                    i64 granularity_a, i64 granularity_b, i64 flags, i64 activation, i64 m, i64 n, i64 k, double terms,
                    double truncated, double more_allowed, double more_ideal_shared, u64 seed, Projection* result) {
  constexpr int kSide = 4;
  constexpr i64 kStep = 64;
  const Model model{terms, truncated, more_allowed, more_ideal_shared};
  const i64 across = (n + kStep * kSide - 1) / (kStep * kSide), warp = blockIdx.x * 8ll + threadIdx.x / 32;
  const i64 lane = threadIdx.x % 32;
  const auto place = [seed](i64 block, i64 extent, u64 which) {
    const i64 first = block * kStep, width = min(kStep, extent - first);
    return width <= 0 ? -1
                      : first + static_cast<i64>(mix(seed ^ mix(2 * static_cast<u64>(block) + which)) %
                                                 static_cast<u64>(width));
  };
  i64 rows[kSide], columns[kSide];
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    rows[i] = place(warp / across * kSide + i, m, 0);
    columns[i] = place(warp % across * kSide + i, n, 1);
  }
  if (rows[0] < 0) return;  // the whole warp
  Sums sums[kSide][kSide] = {};
  for (i64 p = lane; p < k; p += 32) {
    double x[kSide], y[kSide];
    bool bad_x[kSide] = {}, bad_y[kSide] = {};
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      x[i] = rows[i] < 0 ? 0 : element(a, (flags & kTransA) != 0, scale_a, granularity_a, rows[i], p, bad_x[i]);
      y[i] = columns[i] < 0 ? 0 : element(b, (flags & kTransB) == 0, scale_b, granularity_b, columns[i], p, bad_y[i]);
    }
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        const double product = x[i] * y[j];
        sums[i][j].sum += product;
        sums[i][j].size += fabs(product);
        sums[i][j].squares += product * product;
        sums[i][j].any_scale_not_finite |= bad_x[i] || bad_y[j];
      }
    }
  }
  double squares = 0, count = 0;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
#pragma unroll
    for (int j = 0; j < kSide; ++j) {
      Sums s = sums[i][j];
      for (int offset = 16; offset > 0; offset >>= 1) {
        s.sum += __shfl_xor_sync(~0u, s.sum, offset);
        s.size += __shfl_xor_sync(~0u, s.size, offset);
        s.squares += __shfl_xor_sync(~0u, s.squares, offset);
      }
      s.any_scale_not_finite = __any_sync(~0u, s.any_scale_not_finite);
      if (lane != 0 || rows[i] < 0 || columns[j] < 0) continue;
      const Element want = finish(s, Cut{}, model, bias, added, flags, activation, c.type, rows[i], columns[j]);
      const double error = fabs(load(c, rows[i], columns[j]) - want.value);
      if (!isfinite(error)) {
        atomicAdd(&result->not_finite, 1ull);
        continue;
      }
      note_worst(result, error / want.allowed, rows[i]);
      squares += error * error / want.variance;
      count += 1;
    }
  }
  add_to(result, squares, count);
}

// Of rows first_row .. first_row + rows, what the matrix unit may have cut off, in the arrays that product_reference
// takes it from. 64 x 64 elements per block, 4 x 4 per thread.
extern "C" __global__ void __launch_bounds__(256)
    product_truncation(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, i64 granularity_a, i64 granularity_b,
                       i64 flags, i64 first_row, i64 rows, i64 n, i64 k, i64 unit_terms, double* allowed,
                       double* variance, double* shift) {
  __shared__ UnitStep step_a, step_b;
  const bool trans_a = (flags & kTransA) != 0, trans_b = (flags & kTransB) != 0;
  const i64 m0 = blockIdx.y * static_cast<i64>(kTile), n0 = blockIdx.x * static_cast<i64>(kTile);
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  UnitSums sums;
  for (i64 k0 = 0; k0 < k; k0 += kUnitStep) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kUnitStep; i += 256) {
      bool bad = false;
      int at = trans_a ? i % kTile : i / kUnitStep, depth = trans_a ? i / kTile : i % kUnitStep;
      const i64 r = first_row + m0 + at;
      const bool in_a = m0 + at < rows && k0 + depth < k;
      const double x = in_a ? element(a, trans_a, scale_a, granularity_a, r, k0 + depth, bad) : 0.0;
      step_a.put(depth, at, x, in_a ? alignment_weight(a, trans_a, r, k0 + depth, x) : 0.0f);
      at = trans_b ? i / kUnitStep : i % kTile;
      depth = trans_b ? i % kUnitStep : i / kTile;
      const bool in_b = n0 + at < n && k0 + depth < k;
      const double y = in_b ? element(b, !trans_b, scale_b, granularity_b, n0 + at, k0 + depth, bad) : 0.0;
      step_b.put(depth, at, y, in_b ? alignment_weight(b, !trans_b, n0 + at, k0 + depth, y) : 0.0f);
    }
    __syncthreads();
    sums.add(step_a, step_b, row, column, (k0 + kUnitStep) % unit_terms == 0);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i64 r = m0 + row + i, c = n0 + column + j, at = r * n + c;
      if (r >= rows || c >= n) continue;
      const Cut cut = sums.at(i, j, k);
      allowed[at] = cut.allowed;
      variance[at] = cut.variance;
      shift[at] = cut.shift;
    }
  }
}

// Rows first_row .. first_row + rows of the product, 64 x 64 elements per block, 4 x 4 per thread. With unit_terms,
// what product_truncation left is in allowed, variance and shift.
extern "C" __global__ void __launch_bounds__(256)
    product_reference(Matrix a, Matrix b, Matrix scale_a, Matrix scale_b, Matrix bias, Matrix added, i64 granularity_a,
                      i64 granularity_b, i64 flags, i64 activation, i64 out_type, i64 first_row, i64 rows, i64 n, i64 k,
                      double terms, double truncated, double more_allowed, double more_ideal_shared, i64 unit_terms,
                      double* value, double* allowed, double* variance, double* shift) {
  __shared__ Slice slice_a, slice_b;
  __shared__ int bad_a[kTile], bad_b[kTile];
  const Model model{terms, truncated, more_allowed, more_ideal_shared};
  const bool trans_a = (flags & kTransA) != 0, trans_b = (flags & kTransB) != 0;
  const i64 m0 = blockIdx.y * static_cast<i64>(kTile), n0 = blockIdx.x * static_cast<i64>(kTile);
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  if (threadIdx.x < kTile) bad_a[threadIdx.x] = bad_b[threadIdx.x] = 0;
  TileSums sums;
  __syncthreads();
  for (i64 k0 = 0; k0 < k; k0 += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += 256) {
      bool bad = false;
      int at = trans_a ? i % kTile : i / kDepth, depth = trans_a ? i / kTile : i % kDepth;
      slice_a[depth][at] = m0 + at < rows && k0 + depth < k
                               ? element(a, trans_a, scale_a, granularity_a, first_row + m0 + at, k0 + depth, bad)
                               : 0.0;
      if (bad) bad_a[at] = 1;
      bad = false;
      at = trans_b ? i / kDepth : i % kTile;
      depth = trans_b ? i % kDepth : i / kTile;
      slice_b[depth][at] =
          n0 + at < n && k0 + depth < k ? element(b, !trans_b, scale_b, granularity_b, n0 + at, k0 + depth, bad) : 0.0;
      if (bad) bad_b[at] = 1;
    }
    __syncthreads();
    sums.add(slice_a, slice_b, row, column);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i64 r = m0 + row + i, c = n0 + column + j;
      if (r >= rows || c >= n) continue;
      const Sums s = sums.at(i, j, bad_a[row + i] != 0 || bad_b[column + j] != 0);
      const i64 at = r * n + c;
      const Cut cut = unit_terms != 0 ? Cut{allowed[at], variance[at], shift[at]} : Cut{};
      const Element want = finish(s, cut, model, bias, added, flags, activation, out_type, first_row + r, c);
      ElementArrays{value, allowed, variance, shift}.put(at, want);
    }
  }
}
