// Checks of grouped products on the GPU, in fp64, from offsets that only the device knows: C r against A (B r) for
// secret sign vectors r, row by row, and every element for the full compare. product_check.cu, whose numbers and limits
// these are, and check_numbers.cuh come before this.
namespace ridge::grouped_check {

using namespace ridge::product_check;

// Rows of a stack of matrices are counted through. Along sums C has a matrix of m rows for each group.
struct GroupedCall {
  Matrix a, b, c, old, offsets;  // old without data: C is overwritten
  i64 groups, rows, m, k;
  i64 along_sums, trans_b;
  i64 cuts_off;  // whether the matrix unit cuts off what sticks out
};

// The rows of a group, and which it is; -1: none.
struct Group {
  i64 index, first, end;
};
__device__ inline Group group_at(const GroupedCall& call, i64 index) {
  return {index, static_cast<i64>(load(call.offsets, 0, index)), static_cast<i64>(load(call.offsets, 0, index + 1))};
}
__device__ inline Group group_of_row(const GroupedCall& call, i64 row) {
  const i64 index = group_with(row, call.groups, [&](i64 at) { return static_cast<i64>(load(call.offsets, 0, at)); });
  return index < 0 ? Group{-1, row, row + 1} : group_at(call, index);
}
// Of a row of C.
__device__ inline Group group_of_output(const GroupedCall& call, i64 row) {
  return call.along_sums != 0 ? group_at(call, row / call.m) : group_of_row(call, row);
}

__device__ inline i64 terms_of(const GroupedCall& call, const Group& group) {
  if (group.index < 0) return 0;
  return call.along_sums != 0 ? group.end - group.first : call.k;
}
__device__ inline Model model_of(const GroupedCall& call, const Group& group) {
  const double terms = static_cast<double>(terms_of(call, group) + (call.old.data != nullptr ? 1 : 0));
  return {terms, call.cuts_off != 0 ? (terms / 16 + 2) * kUnit : 0.0, 0, 0};
}
// What a row of C holds that no sum is made for: zeros, or what was there.
__device__ inline bool is_kept(const GroupedCall& call, const Group& group) {
  return group.index < 0 || (call.along_sums != 0 && group.first == group.end);
}
__device__ inline double kept_value(const GroupedCall& call, i64 row, i64 column) {
  return call.old.data != nullptr ? load(call.old, row, column) : 0.0;
}

__device__ inline double factor_a(const GroupedCall& call, const Group& group, i64 row, i64 term) {
  return call.along_sums != 0 ? load(call.a, group.first + term, row - group.index * call.m) : load(call.a, row, term);
}
__device__ inline double factor_b(const GroupedCall& call, const Group& group, i64 term, i64 column) {
  if (call.along_sums != 0) return load(call.b, group.first + term, column);
  return call.trans_b != 0 ? load(call.b, group.index * call.c.columns + column, term)
                           : load(call.b, group.index * call.k + term, column);
}

// Sums over the lanes of a warp, in every lane.
__device__ inline void add_over_warp(double (&sums)[kLanes]) {
  for (int offset = 16; offset > 0; offset >>= 1) {
    for (double& sum : sums) sum += __shfl_xor_sync(~0u, sum, offset);
  }
}

// Expected sums of a row of C, from B r: along rows of its group, [kLanes][k] behind those of the groups before; along
// sums [kLanes][rows].
extern "C" __global__ void __launch_bounds__(256)
    grouped_expected(GroupedCall call, const double* products, double* expected) {
  const i64 lane_of_warp = threadIdx.x % 32, count = call.c.rows;
  for (i64 row = blockIdx.x * 8ll + threadIdx.x / 32; row < count; row += gridDim.x * 8ll) {
    const Group group = group_of_output(call, row);
    const i64 terms = terms_of(call, group), stride = call.along_sums != 0 ? call.rows : call.k;
    const i64 first = call.along_sums != 0 ? group.first : group.index * kLanes * call.k;
    double sums[kLanes] = {};
    for (i64 term = lane_of_warp; term < terms; term += 32) {
      const double x = factor_a(call, group, row, term);
      for (int lane = 0; lane < kSigned; ++lane) sums[lane] += x * products[first + lane * stride + term];
      sums[kSigned] += x * x * products[first + kSigned * stride + term];
    }
    add_over_warp(sums);
    if (lane_of_warp != 0) continue;
    for (int lane = 0; lane < kLanes; ++lane) expected[lane * count + row] = sums[lane];
  }
}

// Every row of C; a warp for each.
extern "C" __global__ void __launch_bounds__(256)
    grouped_judge(GroupedCall call, const double* signs, const double* expected, Projection* result) {
  const i64 lane_of_warp = threadIdx.x % 32, count = call.c.rows, columns = call.c.columns;
  double squares = 0, seen = 0;
  for (i64 row = blockIdx.x * 8ll + threadIdx.x / 32; row < count; row += gridDim.x * 8ll) {
    const Group group = group_of_output(call, row);
    const bool kept = is_kept(call, group);
    double found[kLanes] = {}, old_squares = 0, half_ulps = 0, changed = 0;
    for (i64 c = lane_of_warp; c < columns; c += 32) {
      const double value = load(call.c, row, c), before = kept_value(call, row, c), half = half_ulp(call.c.type, value);
      if (kept && !(value == before || (value != value && before != before))) changed = 1;
      for (int lane = 0; lane < kSigned; ++lane) found[lane] += (value - before) * signs[lane * columns + c];
      found[kSigned] += value * value;
      old_squares += before * before;
      half_ulps += half * half;
    }
    add_over_warp(found);
    for (int offset = 16; offset > 0; offset >>= 1) {
      old_squares += __shfl_xor_sync(~0u, old_squares, offset);
      half_ulps += __shfl_xor_sync(~0u, half_ulps, offset);
      changed += __shfl_xor_sync(~0u, changed, offset);
    }
    if (lane_of_warp != 0) continue;
    if (kept) {
      if (changed > 0) note_worst(result, 2.0, row);
      continue;
    }
    const Model m = model_of(call, group);
    const double q = expected[kSigned * count + row] + old_squares;
    const double variance =
        ideal_variance(m, q, found[kSigned]) + 2 * m.truncated * m.truncated * (q + found[kSigned]) + half_ulps / 3;
    for (int lane = 0; lane < kSigned; ++lane) {
      const double residual = fabs(found[lane] - expected[lane * count + row]);
      if (!isfinite(residual) || !isfinite(variance)) {
        atomicAdd(&result->not_finite, 1ull);
        continue;
      }
      note_worst(result, residual / (kSigmas * sqrt(variance)), row);
      squares += residual * residual / variance;
      seen += 1;
    }
  }
  add_to(result, squares, seen);
}

// Rows first_row .. first_row + count of C, 64 x 64 elements per block, 4 x 4 per thread; a tile is worked off once for
// each group that has rows of it.
extern "C" __global__ void __launch_bounds__(256, 1)
    grouped_reference(GroupedCall call, i64 first_row, i64 count, ElementArrays to) {
  __shared__ Slice slice_a, slice_b;
  const i64 m0 = blockIdx.y * static_cast<i64>(kTile), n0 = blockIdx.x * static_cast<i64>(kTile);
  const i64 columns = call.c.columns, last = min(m0 + kTile, count);
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  for (i64 begin = m0; begin < last;) {
    const Group group = group_of_output(call, first_row + begin);
    const i64 end_of_group = call.along_sums != 0 ? (group.index + 1) * call.m : group.end;
    const i64 end = min(last, end_of_group - first_row), terms = terms_of(call, group);
    TileSums sums;
    for (i64 k0 = 0; k0 < terms; k0 += kDepth) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += 256) {
        int at = call.along_sums != 0 ? i % kTile : i / kDepth, depth = call.along_sums != 0 ? i / kTile : i % kDepth;
        slice_a[depth][at] = m0 + at >= begin && m0 + at < end && k0 + depth < terms
                                 ? factor_a(call, group, first_row + m0 + at, k0 + depth)
                                 : 0.0;
        at = call.trans_b != 0 ? i / kDepth : i % kTile;
        depth = call.trans_b != 0 ? i % kDepth : i / kTile;
        slice_b[depth][at] = n0 + at < columns && k0 + depth < terms ? factor_b(call, group, k0 + depth, n0 + at) : 0.0;
      }
      __syncthreads();
      sums.add(slice_a, slice_b, row, column);
    }
    const Model model = model_of(call, group);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const i64 r = m0 + row + i, c = n0 + column + j, at = r * columns + c;
        if (r < begin || r >= end || c >= columns) continue;
        Element want;
        if (is_kept(call, group)) {
          const double before = kept_value(call, first_row + r, c), half = half_ulp(call.c.type, before);
          want = {before, half, half * half / 3, 0};
        } else {
          want = finish(sums.at(i, j, false), Cut{}, model, Matrix{}, call.old, call.old.data != nullptr ? kAddsOld : 0,
                        0, call.c.type, first_row + r, c);
        }
        to.put(at, want);
      }
    }
    begin = end;
  }
}

}  // namespace ridge::grouped_check
