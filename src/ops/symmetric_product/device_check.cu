// Checks of symmetric products on the GPU, in fp64, sharing no code with any product that is measured. C against its
// transpose is every pair; what C should be is one element at a secret place of every 64 x 64, in full, which its
// mirror image is then known by; the reference is every element. check_numbers.cuh comes before this.
namespace ridge::symmetric_check {

constexpr double kUnit = 0x1p-24;  // of fp32, in which all of it is computed
constexpr i64 kStep = 64;

// The operands of a call. Rows of all matrices of a batch are counted through; without a residual it has no rows.
struct Call {
  Matrix a, residual;
  i64 n, k, turned;
  double alpha, beta, shift;
  double truncated;  // what a matrix unit may cut off, relative to |s| + sqrt(Q)
  i64 out_type;
};
struct SymmetricSums {
  double sum = 0, size = 0, squares = 0;
};

__device__ inline double factor(const Call& call, i64 matrix, i64 row, i64 term) {
  return call.turned != 0 ? load(call.a, matrix * call.k + term, row) : load(call.a, matrix * call.n + row, term);
}

__device__ inline void add_term(const Call& call, i64 matrix, i64 row, i64 column, i64 term, SymmetricSums& sums) {
  const double product = factor(call, matrix, row, term) * factor(call, matrix, column, term);
  sums.sum += product;
  sums.size += fabs(product);
  sums.squares += product * product;
}

__device__ inline Element finish(const Call& call, i64 matrix, i64 row, i64 column, const SymmetricSums& sums) {
  const double terms = static_cast<double>(call.k), many = terms > 1 ? terms : 1, alpha = call.alpha;
  double x = alpha * sums.sum;
  const double shift = fabs(alpha) * call.truncated * (fabs(sums.sum) + sqrt(sums.squares));
  double allowed =
      fabs(alpha) * (8 * kUnit * sqrt(terms) * sums.size + 2 * call.truncated * fabs(sums.sum) + terms * 0x1p-150);
  double variance = alpha * alpha * kUnit * kUnit * many * (sums.squares / 12 + sums.sum * sums.sum / 18) +
                    shift * shift + many * many * 0x1p-300;
  const auto rounded = [&](double result) {  // one more operation in fp32
    allowed += kUnit * fabs(result);
    variance += kUnit * kUnit * result * result / 6;
    return result;
  };
  x = rounded(x);
  if (call.residual.rows > 0) {
    const i64 upper = row < column ? row : column, lower = row < column ? column : row;
    x = rounded(x + rounded(call.beta * load(call.residual, matrix * call.n + upper, lower)));
  }
  if (row == column) x = rounded(x + call.shift);
  const double half = half_ulp(call.out_type, x);
  return {x, allowed + half_ulp(call.out_type, fabs(x) + allowed), variance + half * half / 3, shift};
}

}  // namespace ridge::symmetric_check

using namespace ridge::symmetric_check;

extern "C" __global__ void symmetric_pairs(Matrix c, i64 n, Projection* result) {
  for (i64 row = blockIdx.x; row < c.rows; row += gridDim.x) {
    const i64 first = row / n * n, i = row - first;
    for (i64 j = threadIdx.x; j < i; j += blockDim.x) {
      if (!same(load(c, row, j), load(c, first + j, i))) note_worst(result, 1e30, row);
    }
  }
}

// A warp for each element, whose lanes split the terms.
extern "C" __global__ void symmetric_samples(Matrix a, Matrix residual, Matrix c, i64 n, i64 k, i64 turned,
                                             double alpha, double beta, double shift, double truncated, u64 seed,
                                             Projection* result) {
  const Call call{a, residual, n, k, turned, alpha, beta, shift, truncated, c.type};
  const i64 side = (n + kStep - 1) / kStep, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const auto place = [&](i64 block, u64 which) {
    const i64 left = n - block * kStep, width = left < kStep ? left : kStep;
    return block * kStep + static_cast<i64>(mix(seed ^ mix(which)) % static_cast<u64>(width));
  };
  double squares = 0, count = 0;
  for (i64 tile = blockIdx.x * warps + threadIdx.x / 32; tile < c.rows / n * side * side; tile += gridDim.x * warps) {
    const i64 matrix = tile / (side * side), within = tile - matrix * (side * side);
    const i64 row = place(within / side, 2 * static_cast<u64>(tile));
    const i64 column = place(within % side, 2 * static_cast<u64>(tile) + 1);
    if (column < row) continue;  // the whole warp: its mirror image is another's
    SymmetricSums sums;
    for (i64 term = lane; term < k; term += 32) add_term(call, matrix, row, column, term, sums);
    for (int offset = 16; offset > 0; offset >>= 1) {
      sums.sum += __shfl_down_sync(~0u, sums.sum, offset);
      sums.size += __shfl_down_sync(~0u, sums.size, offset);
      sums.squares += __shfl_down_sync(~0u, sums.squares, offset);
    }
    if (lane != 0) continue;
    const Element want = finish(call, matrix, row, column, sums);
    const double got = load(c, matrix * n + row, column);
    count += 1;
    if (same(got, want.value)) continue;
    squares += judged(result, got, want.value, want.allowed, want.variance, matrix * n + row);
  }
  add_to(result, squares, count);
}

extern "C" __global__ void symmetric_reference(Matrix a, Matrix residual, i64 n, i64 k, i64 turned, double alpha,
                                               double beta, double shift, double truncated, i64 out_type, i64 first,
                                               i64 count, ElementArrays to) {
  const Call call{a, residual, n, k, turned, alpha, beta, shift, truncated, out_type};
  for (i64 at = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; at < count * n;
       at += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 line = first + at / n, matrix = line / n, row = line - matrix * n, column = at % n;
    SymmetricSums sums;
    for (i64 term = 0; term < k; ++term) add_term(call, matrix, row, column, term, sums);
    const Element want = finish(call, matrix, row, column, sums);
    to.put(at, want);
  }
}
