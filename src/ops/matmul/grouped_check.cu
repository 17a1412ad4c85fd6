// Checks of grouped products on the GPU, in fp64, from offsets that only the device knows: C r against A (B r) for
// secret sign vectors r, row by row, and every element for the full compare; of codes with their scales, whose sums
// lose what the matrix unit cuts off, too. product_check.cu, whose numbers and limits these are, and check_numbers.cuh
// come before this.
namespace ridge::grouped_check {

using namespace ridge::product_check;

// Rows of a stack of matrices are counted through. Along sums C has a matrix of m rows for each group.
struct GroupedCall {
  Matrix a, b, c, old, offsets, scale_a, scale_b;  // old without data: C is overwritten
  Matrix index;                                    // of the rows of A (gather 1) or of B (2)
  i64 groups, rows, m, k;
  i64 along_sums;
  i64 a_by_terms, b_by_terms;        // whether a row of A, of B, has the elements of one term
  i64 granularity_a, granularity_b;  // kNoScale: no codes
  i64 gather, sources;               // 0: rows lie where they are
  i64 cuts_off;                      // whether the matrix unit cuts off what sticks out of sums that are kept in fp32
  i64 unit_terms;                    // of codes, after which sums move to fp32
  i64 settles;                       // where all numbers within the bound round to one, that one is right

  [[nodiscard]] __device__ bool coded() const { return granularity_a != kNoScale; }
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
  if (call.coded()) return {terms, 0, 4 * kUnit, kUnit * 0.40824829046386301637};  // coded_model
  return {terms, call.cuts_off != 0 ? (terms / 16 + 2) * kUnit : 0.0, 0, 0};
}
// What a row of C holds that no sum is made for: zeros, or what was there.
__device__ inline bool is_kept(const GroupedCall& call, const Group& group) {
  return group.index < 0 || (call.along_sums != 0 && group.first == group.end);
}
__device__ inline double kept_value(const GroupedCall& call, i64 row, i64 column) {
  return call.old.data != nullptr ? load(call.old, row, column) : 0.0;
}

// An element with its scale, its code alone, and whether the scale is no number.
struct Stored {
  double value, code;
  bool bad;
};
__device__ inline Stored stored(const Matrix& x, i64 row, i64 column, i64 granularity, double scale) {
  const double code = load(x, row, column);
  return granularity == kNoScale ? Stored{code, code, false} : Stored{code * scale, code, !isfinite(scale)};
}

// The row of an operand that is row `row` of the groups; -1: one of zeros.
__device__ inline i64 source_row(const GroupedCall& call, i64 operand, i64 row) {
  if (call.gather != operand) return row;
  const i64 source = static_cast<i64>(load(call.index, 0, row));
  return source < call.sources ? source : -1;
}

// Along rows every row of A has scales of its own, also where it is found by index, or its group; along sums they are
// of the group's own rows of C.
__device__ inline Stored factor_a(const GroupedCall& call, const Group& group, i64 row, i64 term) {
  const i64 own = row - group.index * call.m, place = group.first + term;
  const i64 source = source_row(call, 1, call.along_sums != 0 ? place : row);
  if (source < 0) return Stored{};
  double scale = 1;
  switch (call.granularity_a) {
    case kTensor: scale = load(call.scale_a, 0, group.index); break;
    case kRow:
      scale = call.along_sums != 0 ? load(call.scale_a, group.index, own) : load(call.scale_a, 0, source);
      break;
    case kVector:
      scale = call.along_sums != 0 ? load(call.scale_a, place / 128, own) : load(call.scale_a, term / 128, source);
      break;
    default: break;
  }
  const i64 other = call.along_sums != 0 ? own : source, along = call.along_sums != 0 ? source : term;
  return call.a_by_terms != 0 ? stored(call.a, along, other, call.granularity_a, scale)
                              : stored(call.a, other, along, call.granularity_a, scale);
}
__device__ inline Stored factor_b(const GroupedCall& call, const Group& group, i64 term, i64 column) {
  const i64 place = group.first + term, n = call.c.columns;
  double scale = 1;
  switch (call.granularity_b) {
    case kTensor: scale = load(call.scale_b, 0, group.index); break;
    case kRow: scale = load(call.scale_b, group.index, column); break;
    case kVector: scale = load(call.scale_b, place / 128, column); break;
    case kBlock: scale = load(call.scale_b, group.index * ((n + 127) / 128) + column / 128, term / 128); break;
    default: break;
  }
  if (call.along_sums != 0) {
    if (call.gather == 2) {
      const i64 source = source_row(call, 2, place);
      return source < 0 ? Stored{} : stored(call.b, source, column, call.granularity_b, scale);
    }
    return call.b_by_terms != 0 ? stored(call.b, place, column, call.granularity_b, scale)
                                : stored(call.b, column, place, call.granularity_b, scale);
  }
  return call.b_by_terms != 0 ? stored(call.b, group.index * call.k + term, column, call.granularity_b, scale)
                              : stored(call.b, group.index * n + column, term, call.granularity_b, scale);
}

// Sums over the lanes of a warp, in every lane.
__device__ inline void add_over_warp(double (&sums)[kLanes]) {
  for (int offset = 16; offset > 0; offset >>= 1) {
    for (double& sum : sums) sum += __shfl_xor_sync(~0u, sum, offset);
  }
}

// B r with the scales of B: for each term of each group, or of each row along sums. Where a row of B has the elements
// of a term a warp takes it, else every thread one. grid.y splits the columns.
extern "C" __global__ void __launch_bounds__(256)
    grouped_times(GroupedCall call, const double* signs, i64 per_block, double* products) {
  const bool by_warp = call.b_by_terms != 0, along_sums = call.along_sums != 0;
  const i64 columns = call.c.columns, count = along_sums ? call.rows : call.groups * call.k;
  const i64 begin = blockIdx.y * per_block, end = min(begin + per_block, columns);
  const i64 workers = by_warp ? 8 : 256, worker = by_warp ? threadIdx.x / 32 : threadIdx.x;
  const i64 lane_of_warp = threadIdx.x % 32, stride = along_sums ? call.rows : call.k;
  for (i64 at = blockIdx.x * workers + worker; at < count; at += gridDim.x * workers) {
    const Group group = along_sums ? group_of_row(call, at) : Group{at / call.k, 0, 0};
    if (group.index < 0) continue;
    const i64 term = along_sums ? at - group.first : at % call.k;
    double sums[kLanes] = {};
    for (i64 c = begin + (by_warp ? lane_of_warp : 0); c < end; c += by_warp ? 32 : 1) {
      const double x = factor_b(call, group, term, c).value;
      for (int lane = 0; lane < kSigned; ++lane) sums[lane] += x * signs[lane * columns + c];
      sums[kSigned] += x * x;
    }
    if (by_warp) add_over_warp(sums);
    if (by_warp && lane_of_warp != 0) continue;
    const i64 first = along_sums ? at : group.index * kLanes * call.k + term;
    for (int lane = 0; lane < kLanes; ++lane) atomicAdd(&products[first + lane * stride], sums[lane]);
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
      const double x = factor_a(call, group, row, term).value;
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
    // Of codes, what is expected of terms of random sign (expected_truncation) and what losses of one sign may add.
    const double part = fmin(static_cast<double>(terms_of(call, group)), static_cast<double>(call.unit_terms));
    const double unit = call.coded() ? 0x1p-26 * 11 * part / (2 * kUnitStep) : 0.0;
    const double truncated = call.coded() ? 0x1p-11 : m.truncated;
    const double variance = ideal_variance(m, q, found[kSigned]) + unit * q +
                            2 * truncated * truncated * (q + found[kSigned]) + half_ulps / 3;
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

// The part of a tile of C that belongs to one group, from row `begin` of the rows that are asked for on.
struct Part {
  Group group;
  i64 begin, end, terms;
};
__device__ inline Part part_at(const GroupedCall& call, i64 first_row, i64 begin, i64 last) {
  const Group group = group_of_output(call, first_row + begin);
  const i64 end_of_group = call.along_sums != 0 ? (group.index + 1) * call.m : group.end;
  return {group, begin, min(last, end_of_group - first_row), terms_of(call, group)};
}

// What the matrix unit may cut off those elements of a thread.
__device__ inline void add_losses(const GroupedCall& call, i64 first_row, const Part& part, i64 m0, i64 n0, int row,
                                  int column, UnitStep& step_a, UnitStep& step_b, UnitSums& sums) {
  for (i64 k0 = 0; k0 < part.terms; k0 += kUnitStep) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kUnitStep; i += 256) {
      const int at = i / kUnitStep, depth = i % kUnitStep;
      const bool in_a = m0 + at >= part.begin && m0 + at < part.end && k0 + depth < part.terms;
      const bool in_b = n0 + at < call.c.columns && k0 + depth < part.terms;
      const Stored x = in_a ? factor_a(call, part.group, first_row + m0 + at, k0 + depth) : Stored{};
      const Stored y = in_b ? factor_b(call, part.group, k0 + depth, n0 + at) : Stored{};
      step_a.put(depth, at, x.value, alignment_weight(call.a, x.code, x.value));
      step_b.put(depth, at, y.value, alignment_weight(call.b, y.code, y.value));
    }
    __syncthreads();
    sums.add(step_a, step_b, row, column, (k0 + kUnitStep) % call.unit_terms == 0);
  }
}

// Rows first_row .. first_row + count of C, of codes: what the matrix unit may have cut off, where grouped_reference
// takes it from.
extern "C" __global__ void __launch_bounds__(256)
    grouped_truncation(GroupedCall call, i64 first_row, i64 count, ElementArrays to) {
  __shared__ UnitStep step_a, step_b;
  const i64 m0 = blockIdx.y * static_cast<i64>(kTile), n0 = blockIdx.x * static_cast<i64>(kTile);
  const i64 columns = call.c.columns, last = min(m0 + kTile, count);
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  for (i64 begin = m0; begin < last;) {
    const Part part = part_at(call, first_row, begin, last);
    UnitSums sums;
    add_losses(call, first_row, part, m0, n0, row, column, step_a, step_b, sums);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const i64 r = m0 + row + i, c = n0 + column + j, at = r * columns + c;
        if (r < part.begin || r >= part.end || c >= columns) continue;
        const Cut cut = sums.at(i, j, part.terms);
        to.put(at, {0, cut.allowed, cut.variance, cut.shift});
      }
    }
    begin = part.end;
  }
}

// Rows first_row .. first_row + count of C, 64 x 64 elements per block, 4 x 4 per thread; a tile is worked off once for
// each group that has rows of it. A sum of no terms is one, too.
extern "C" __global__ void __launch_bounds__(256, 1)
    grouped_reference(GroupedCall call, i64 first_row, i64 count, ElementArrays to) {
  __shared__ Slice slice_a, slice_b;
  __shared__ int bad_a[kTile], bad_b[kTile];
  const i64 m0 = blockIdx.y * static_cast<i64>(kTile), n0 = blockIdx.x * static_cast<i64>(kTile);
  const i64 columns = call.c.columns, last = min(m0 + kTile, count);
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  for (i64 begin = m0; begin < last;) {
    const Part part = part_at(call, first_row, begin, last);
    __syncthreads();
    if (threadIdx.x < kTile) bad_a[threadIdx.x] = bad_b[threadIdx.x] = 0;
    TileSums sums;
    for (i64 k0 = 0; k0 < part.terms; k0 += kDepth) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += 256) {
        int at = call.a_by_terms != 0 ? i % kTile : i / kDepth, depth = call.a_by_terms != 0 ? i / kTile : i % kDepth;
        const bool in_a = m0 + at >= part.begin && m0 + at < part.end && k0 + depth < part.terms;
        const Stored x = in_a ? factor_a(call, part.group, first_row + m0 + at, k0 + depth) : Stored{};
        slice_a[depth][at] = x.value;
        if (x.bad) bad_a[at] = 1;
        at = call.b_by_terms != 0 ? i % kTile : i / kDepth;
        depth = call.b_by_terms != 0 ? i / kTile : i % kDepth;
        const bool in_b = n0 + at < columns && k0 + depth < part.terms;
        const Stored y = in_b ? factor_b(call, part.group, k0 + depth, n0 + at) : Stored{};
        slice_b[depth][at] = y.value;
        if (y.bad) bad_b[at] = 1;
      }
      __syncthreads();
      sums.add(slice_a, slice_b, row, column);
    }
    const Model model = model_of(call, part.group);
    const i64 flags = (call.old.data != nullptr ? kAddsOld : 0) | (call.settles != 0 ? kSettle : 0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const i64 r = m0 + row + i, c = n0 + column + j, at = r * columns + c;
        if (r < part.begin || r >= part.end || c >= columns) continue;
        Element want;
        if (is_kept(call, part.group) && (part.group.index < 0 || call.old.data != nullptr)) {
          const double before = kept_value(call, first_row + r, c), half = half_ulp(call.c.type, before);
          want = {before, half, half * half / 3, 0};
        } else {
          const Cut cut = call.coded() ? Cut{to.allowed[at], to.variance[at], to.shift[at]} : Cut{};
          want = finish(sums.at(i, j, bad_a[row + i] != 0 || bad_b[column + j] != 0), cut, model, Matrix{}, call.old,
                        flags, 0, call.c.type, first_row + r, c);
        }
        to.put(at, want);
      }
    }
    begin = part.end;
  }
}

}  // namespace ridge::grouped_check
