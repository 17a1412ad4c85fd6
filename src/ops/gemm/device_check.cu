// Checks of a matrix product on the GPU, in fp64, sharing no code with any product that is measured:
//
//   projection   C r against A (B r) (+ C_old r) for secret sign vectors r: every matrix is read once. One row's
//                difference has the variance sum_j var_ij under r, so rows are held to 12 standard deviations of the
//                ideal kernel, and the mean over all rows to twice its RMS error (numerics/error_model.h).
//   reference    every element by plain sums, with its bound, the ideal kernel's variance, and the shift it may have.
//
// Every parameter is 8 bytes or a Matrix.
namespace ridge::gemm_check {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

enum Type : int { kF64, kF32, kF16, kBf16, kE4m3, kE5m2 };

struct Matrix {
  const unsigned char* data;
  i64 rows, columns, pitch;  // as stored; pitch in elements
  i64 type;
};

constexpr int kSigned = 4;           // comparisons: errors that cancel in one show in another
constexpr int kLanes = kSigned + 1;  // and one for the squares

__device__ inline float load(const Matrix& x, i64 row, i64 column) {
  const i64 at = row * x.pitch + column;
  if (x.type == kF32) return reinterpret_cast<const float*>(x.data)[at];
  const u16 bits = reinterpret_cast<const u16*>(x.data)[at];
  if (x.type == kBf16) return __uint_as_float(static_cast<u32>(bits) << 16);
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
  return f;
}

// Half the distance between neighbours of the output type at |x|, and its largest finite value.
__device__ inline double half_ulp(i64 type, double x) {
  const int mantissa = type == kF32 ? 23 : type == kF16 ? 10 : 7, lowest = type == kF16 ? -14 : -126;
  int exponent = x == 0.0 || !isfinite(x) ? lowest : ilogb(x);
  exponent = exponent < lowest ? lowest : exponent;
  return scalbn(0.5, exponent - mantissa);
}

__device__ inline u64 mix(u64 x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// What the rounding of a product may cost, relative to |s| + sqrt(Q): fp32 units round to nearest; a tensor core
// truncates when it aligns the 16 products of a step with the running sum.
__device__ inline double truncation(i64 type, i64 k) {
  return type == kF32 ? 0.0 : (static_cast<double>(k) / 16 + 2) * 0x1p-24;
}

constexpr double kUnit = 0x1p-24;  // of the fp32 accumulation
constexpr double kSigmas = 12;     // numerics::kMixedSignSigmas

__device__ inline double ideal_variance(i64 k, double squares, double value_square, double truncated) {
  const double n = static_cast<double>(k > 0 ? k : 1);
  return kUnit * kUnit * n * (squares / 12 + value_square / 18) + 2 * truncated * truncated * (squares + value_square) +
         n * n * 0x1p-300;
}

}  // namespace ridge::gemm_check

using namespace ridge::gemm_check;

// v[lane][i]: signs, and ones.
extern "C" __global__ void gemm_signs(double* v, i64 count, u64 seed) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    const u64 bits = mix(seed ^ mix(static_cast<u64>(i)));
    for (int lane = 0; lane < kSigned; ++lane) v[lane * count + i] = (bits >> (7 * lane) & 1) != 0 ? 1.0 : -1.0;
    v[kSigned * count + i] = 1.0;
  }
}

// y[lane][row] += sum_column X[row, column] v[lane][column]; the last lane sums squares of X. A warp holds 8 rows, so
// that v is read once for them; grid.y splits the columns. `half_ulps` (may be null) gets the sum of the squared half
// distances between neighbours of X's type.
extern "C" __global__ void __launch_bounds__(256)
    gemm_rows(Matrix x, const double* v, i64 per_block, double* y, double* half_ulps) {
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
      const double value = load(x, first + r, c);
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
extern "C" __global__ void __launch_bounds__(128) gemm_columns(Matrix x, const double* v, i64 per_block, double* y) {
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
      if (first + 128 * c >= x.columns) break;
      const double value = load(x, r, first + 128 * c);
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

namespace ridge::gemm_check {
// ops/device_check.h
struct Projection {
  u64 worst;  // residual / allowed as float bits << 32 | row; the maximum wins
  double square_sum, count;
  u64 not_finite;
};
}  // namespace ridge::gemm_check

// found = C r with the squares of C in its last lane, expected = A (B r) with Q in its last lane; rows of each lane.
extern "C" __global__ void gemm_judge(const double* found, const double* expected, const double* half_ulps, i64 rows,
                                      i64 k, i64 type, Projection* result) {
  double squares = 0, count = 0;
  for (i64 row = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; row < rows;
       row += static_cast<i64>(gridDim.x) * blockDim.x) {
    const double value_square = found[kSigned * rows + row], q = expected[kSigned * rows + row];
    const double variance = ideal_variance(k, q, value_square, truncation(type, k)) + half_ulps[row] / 3;
    for (int lane = 0; lane < kSigned; ++lane) {
      const double residual = fabs(found[lane * rows + row] - expected[lane * rows + row]);
      if (!isfinite(residual) || !isfinite(variance)) {
        atomicAdd(&result->not_finite, 1ull);
        continue;
      }
      const double ratio = residual / (kSigmas * sqrt(variance));
      atomicMax(&result->worst,
                static_cast<u64>(__float_as_uint(static_cast<float>(ratio))) << 32 | static_cast<u32>(row));
      squares += residual * residual / variance;
      count += 1;
    }
  }
  for (int offset = 16; offset > 0; offset >>= 1) {
    squares += __shfl_down_sync(~0u, squares, offset);
    count += __shfl_down_sync(~0u, count, offset);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&result->square_sum, squares);
    atomicAdd(&result->count, count);
  }
}

// Rows first_row .. first_row + rows of the product, 64 x 64 elements per block, 4 x 4 per thread. `trans_a`: A is
// stored [k, m]; `trans_b`: B is stored [n, k]. `old` (data may be null) is added.
extern "C" __global__ void __launch_bounds__(256)
    gemm_reference(Matrix a, Matrix b, Matrix old, i64 trans_a, i64 trans_b, i64 first_row, i64 rows, i64 n, i64 k,
                   i64 out_type, double* value, double* allowed, double* variance, double* shift) {
  constexpr int kTile = 64, kDepth = 16;
  __shared__ double slice_a[kDepth][kTile + 1], slice_b[kDepth][kTile + 1];
  const i64 m0 = blockIdx.y * static_cast<i64>(kTile), n0 = blockIdx.x * static_cast<i64>(kTile);
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  double sums[4][4] = {};
  float sizes[4][4] = {}, squares[4][4] = {};
  for (i64 k0 = 0; k0 < k; k0 += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += 256) {
      int at = trans_a ? i % kTile : i / kDepth, depth = trans_a ? i / kTile : i % kDepth;
      const i64 m = first_row + m0 + at;
      slice_a[depth][at] =
          m0 + at < rows && k0 + depth < k ? (trans_a ? load(a, k0 + depth, m) : load(a, m, k0 + depth)) : 0.0f;
      at = trans_b ? i / kDepth : i % kTile;
      depth = trans_b ? i % kDepth : i / kTile;
      slice_b[depth][at] = n0 + at < n && k0 + depth < k
                               ? (trans_b ? load(b, n0 + at, k0 + depth) : load(b, k0 + depth, n0 + at))
                               : 0.0f;
    }
    __syncthreads();
#pragma unroll 4
    for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const double x = slice_a[depth][row + i], y = slice_b[depth][column + j];
          sums[i][j] += x * y;
          const float product = static_cast<float>(x) * static_cast<float>(y);
          sizes[i][j] += fabsf(product);
          squares[i][j] += product * product;
        }
      }
    }
    __syncthreads();
  }
  const i64 terms = k + (old.data != nullptr ? 1 : 0);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i64 r = m0 + row + i, c = n0 + column + j;
      if (r >= rows || c >= n) continue;
      double s = sums[i][j], size = sizes[i][j], q = squares[i][j];
      if (old.data != nullptr) {
        const double before = load(old, first_row + r, c);
        s += before;
        size += fabs(before);
        q += before * before;
      }
      const i64 at = r * n + c;
      const double truncated = truncation(a.type, terms) * (fabs(s) + sqrt(q));
      const double half = half_ulp(out_type, s);
      const double bound = 8 * kUnit * sqrt(static_cast<double>(terms)) * size + static_cast<double>(terms) * 0x1p-150;
      value[at] = s;
      allowed[at] = bound + half_ulp(out_type, fabs(s) + bound);
      variance[at] = ideal_variance(terms, q, s * s, 0.0) + truncated * truncated + half * half / 3;
      shift[at] = truncated;
    }
  }
}
