// Checks of row models on the GPU (ops/row_check.h), in fp64 and by the same numbers as on the host:
//
//   rows_elements   every element after a launch: in each piece of 512 columns 32 at a secret place are held against
//                   their Numbers, which also tell how far the others may be off; those are held against their exact
//                   values, and what is further against its Number. One warp takes a piece; a row whose statistics are
//                   needed belongs to one warp or one block.
//   rows_sums       column sums: a block adds up the terms of a strip of rows
//   rows_reference  every element with what it may be off by, for the full compare
//
// Behind check_numbers.cuh, row_numbers.cuh, row_operands.cuh, the model, and RIDGE_ROW_MODEL, its type. Kernels
// without a model move nothing but compare: rows_moved and rows_kept.
namespace ridge::row_check {

template <class Model>
__device__ void find_statistics(const Model& model, const Row<Number>& row, Number* found) {
  if constexpr (Model::kStatistics > 0) model.statistics(row, found);
}

// What a thread found out about elements.
struct Finding {
  double worst = 0;  // error in units of what is allowed
  i64 row = 0;
  u64 not_finite = 0;

  __device__ void look(const Format& format, double found, const Number& expected, i64 at) {
    if (!is_finite(found)) ++not_finite;
    const double distance = fabs(found - expected.value);
    const double least = surely_allowed(format.is_f32 != 0, format.step(fabs(expected.value)), expected.error);
    if (distance <= least && distance <= worst * least) return;
    Stored right;
    const double ratio = error_ratio(format, found, expected, right);
    if (ratio <= worst) return;
    worst = ratio == ratio ? ratio : 1e30;
    row = at;
  }
  // Every lane of the warp takes part.
  __device__ void note(Projection* result) {
    for (int offset = 16; offset > 0; offset >>= 1) {
      const double other = __shfl_down_sync(~0u, worst, offset);
      const i64 other_row = __shfl_down_sync(~0u, row, offset);
      not_finite += __shfl_down_sync(~0u, not_finite, offset);
      if (other > worst) row = other_row;
      worst = other > worst ? other : worst;
    }
    if (threadIdx.x % 32 != 0) return;
    if (worst > 0) note_worst(result, least_of(worst, 1e30), row);
    if (not_finite != 0) atomicAdd(&result->not_finite, not_finite);
  }
};

// The squared errors of one output, in units of the ideal kernel's, and how many independent ones they are of.
struct Tally {
  double squares, count;
};

// One piece of an output, by one warp: columns first .. last, at most kPiece.
template <class Model>
__device__ void check_piece(const Model& model, const Operands& x, const Row<Number>& numbers, const Number* statistics,
                            i64 output, i64 first, i64 last, u64 secret, Finding& finding, double& squares,
                            double& count) {
  const i64 operand = x.outputs[output];
  const Matrix& matrix = x.output[operand];
  const Format& format = x.format[operand];
  const Row<double> doubles{x, numbers.team, numbers.at};
  double exact[Model::kStatistics > 0 ? Model::kStatistics : 1];
  for (int k = 0; k < Model::kStatistics; ++k) exact[k] = statistics[k].value;
  const int steps = static_cast<int>((last - first + 31) / 32),
            drawn = static_cast<int>(static_cast<u32>(secret >> 32) % static_cast<u32>(steps));
  double slack = __longlong_as_double(0x7ff0000000000000ll);
  for (int k = 0; k < steps; ++k) {
    const int step = k == 0 ? drawn : k <= drawn ? k - 1 : k;
    const i64 column = first + step * 32 + threadIdx.x % 32;
    const bool active = column < last;
    const double found = active ? load(matrix, numbers.at, column) : 0.0;
    bool open = active;
    if (k != 0 && active) {
      const double value = model.element(doubles, exact, static_cast<int>(output), column);
      open = !surely_right(format, format.is_f32 != 0, found, value, slack);
    }
    if (open) {
      const Number expected = model.element(numbers, statistics, static_cast<int>(output), column);
      finding.look(format, found, expected, numbers.at);
      if (k == 0 && is_finite(found) && is_finite(expected.value)) {
        squares += normal_square(format, found, expected);
        count += 1;
      }
      if (k == 0 && expected.value != 0) slack = 0.5 * expected.error / fabs(expected.value);
    }
    if (k != 0) continue;
    for (int mask = 16; mask > 0; mask >>= 1) slack = least_of(slack, __shfl_xor_sync(~0u, slack, mask));
    if (!is_finite(slack)) slack = 0;
  }
}

// `lanes`: threads of a team. `tallies`: one per output.
template <class Model>
__device__ void elements(const Model& model, const Operands& x, i64 lanes, u64 seed, Tally* tallies,
                         Projection* result) {
  constexpr bool kWhole = Model::kStatistics > 0;  // a team has a whole row, not a piece of it
  __shared__ double squares_of[kMostOperands], counts_of[kMostOperands];
  if (threadIdx.x < kMostOperands) squares_of[threadIdx.x] = counts_of[threadIdx.x] = 0;
  __syncthreads();
  const int size = static_cast<int>(lanes), warps = size / 32, warp = static_cast<int>(threadIdx.x) % size / 32;
  const Team team{static_cast<int>(threadIdx.x) % size, size};
  const i64 parts = kWhole ? 1 : (x.columns + kPiece - 1) / kPiece, teams = kThreads / size;
  Finding finding;
  for (i64 unit = blockIdx.x * teams + threadIdx.x / size; unit < x.rows * parts; unit += gridDim.x * teams) {
    const i64 row = kWhole ? unit : static_cast<u32>(unit) / static_cast<u32>(parts);  // less than 2^32
    const i64 begin = kWhole ? 0 : (unit - row * parts) * kPiece,
              end = kWhole ? x.columns : min(begin + kPiece, x.columns);
    const Row<Number> numbers{x, team, row};
    Number statistics[kWhole ? Model::kStatistics : 1];
    find_statistics(model, numbers, statistics);
    for (i64 output = 0; output < x.output_count; ++output) {
      const i64 operand = x.outputs[output], reads = x.reads[operand];
      double squares = 0, count = 0;
      if (reads == kScalar && begin == 0 && team.rank == 0) {
        const Number expected = model.element(numbers, statistics, static_cast<int>(output), 0);
        const double found = load_at(x.output[operand], row);
        finding.look(x.format[operand], found, expected, row);
        if (is_finite(found) && is_finite(expected.value)) {
          squares = normal_square(x.format[operand], found, expected);
          count = 1;
        }
      }
      for (i64 first = begin + warp * kPiece; reads == kRow && first < end; first += warps * kPiece) {
        const u64 secret = mix(seed ^ mix(static_cast<u64>(row * x.columns + first)));
        check_piece(model, x, numbers, statistics, output, first, min(first + kPiece, end), secret, finding, squares,
                    count);
      }
      for (int offset = 16; offset > 0; offset >>= 1) {
        squares += __shfl_down_sync(~0u, squares, offset);
        count += __shfl_down_sync(~0u, count, offset);
      }
      if (threadIdx.x % 32 != 0 || count == 0) continue;
      // Elements of a row share the error of its statistics: its share of a warp counts for one.
      atomicAdd(&squares_of[output], kWhole ? squares / count : squares);
      atomicAdd(&counts_of[output], kWhole ? 1.0 : count);
    }
  }
  finding.note(result);
  __syncthreads();
  if (threadIdx.x < kMostOperands && counts_of[threadIdx.x] > 0) {
    atomicAdd(&tallies[threadIdx.x].squares, squares_of[threadIdx.x]);
    atomicAdd(&tallies[threadIdx.x].count, counts_of[threadIdx.x]);
  }
}

// Rows first .. first + count of an output of `width` columns.
template <class Model>
__device__ void reference(const Model& model, const Operands& x, i64 output, i64 first, i64 count, i64 width, i64 lanes,
                          double* value, double* allowed, double* variance, double* shift) {
  const int size = static_cast<int>(lanes);
  const Team team{static_cast<int>(threadIdx.x) % size, size};
  const i64 teams = kThreads / size;
  for (i64 i = blockIdx.x * teams + threadIdx.x / size; i < count; i += gridDim.x * teams) {
    const Row<Number> row{x, team, first + i};
    Number statistics[Model::kStatistics > 0 ? Model::kStatistics : 1];
    find_statistics(model, row, statistics);
    for (i64 column = team.rank; column < width; column += size) {
      const Stored one =
          stored(x.format[x.outputs[output]], model.element(row, statistics, static_cast<int>(output), column));
      value[i * width + column] = one.value;
      allowed[i * width + column] = one.allowed;
      variance[i * width + column] = one.ideal_square;
      shift[i * width + column] = one.shift;
    }
  }
}

// Adds the terms of kStrip rows to the sums of every column: values, errors and variances of Numbers.
template <class Model>
__device__ void sums(const Model& model, const Operands& x, i64 output, double* value, double* error,
                     double* variance) {
  constexpr int kKinds = Model::kStatistics > 0 ? Model::kStatistics : 1;
  __shared__ double shared[kStrip * kKinds * 3];
  const Team team{static_cast<int>(threadIdx.x), kThreads};
  const i64 first = static_cast<i64>(blockIdx.x) * kStrip, last = min(first + kStrip, x.rows);
  for (i64 row = first; Model::kStatistics > 0 && row < last; ++row) {
    Number statistics[kKinds];
    find_statistics(model, Row<Number>{x, team, row}, statistics);
    for (int k = 0; k < kKinds && threadIdx.x == 0; ++k) {
      double* const to = shared + ((row - first) * kKinds + k) * 3;
      to[0] = statistics[k].value;
      to[1] = statistics[k].error;
      to[2] = statistics[k].variance;
    }
  }
  __syncthreads();
  const double length = static_cast<double>(x.rows), per_magnitude = sum_error(length),
               per_square = sum_variance(length);
  for (i64 column = threadIdx.x; column < x.columns; column += kThreads) {
    Sum sum;
    for (i64 row = first; row < last; ++row) {
      Number statistics[kKinds];
      for (int k = 0; k < Model::kStatistics; ++k) {
        const double* const from = shared + ((row - first) * kKinds + k) * 3;
        statistics[k] = Number(from[0], from[1], from[2]);
      }
      sum.add(model.element(Row<Number>{x, team, row}, statistics, static_cast<int>(output), column));
    }
    atomicAdd(&value[column], sum.value);
    atomicAdd(&error[column], sum.error + per_magnitude * sum.magnitude);
    atomicAdd(&variance[column], sum.variance + per_square * sum.squares);
  }
}

// A hash of a row's bytes under a secret key; a lane has a share of it, to be added up.
__device__ inline u64 hash_share(const Matrix& x, i64 width, i64 row, u64 seed) {
  const u8* const start = x.data + row * x.pitch * width;
  u64 hash = 0;
  for (i64 at = threadIdx.x % 32; at < x.columns * width; at += 32)
    hash += mix(seed ^ mix(seed + at * 256 + start[at]));
  return hash;
}

}  // namespace ridge::row_check

extern "C" __global__ void rows_clear(double* values, i64 count) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    values[i] = 0;
  }
}

// Finished sums as the full compare wants them; the arrays hold what rows_sums left.
extern "C" __global__ void rows_sums_reference(RIDGE_ROW_PARAMETER ridge::row_check::Operands x, i64 output,
                                               double* value, double* allowed, double* variance, double* shift) {
  using namespace ridge::row_check;
  for (i64 j = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; j < x.columns;
       j += static_cast<i64>(gridDim.x) * blockDim.x) {
    const Stored one = stored(x.format[x.outputs[output]],
                              finished_sum(static_cast<double>(x.rows), value[j], allowed[j], variance[j]));
    value[j] = one.value;
    allowed[j] = one.allowed;
    variance[j] = one.ideal_square;
    shift[j] = one.shift;
  }
}

// The same held against what was found, after a launch.
extern "C" __global__ void rows_sums_judge(RIDGE_ROW_PARAMETER ridge::row_check::Operands x, i64 output,
                                           const double* value, const double* error, const double* variance,
                                           ridge::row_check::Tally* tallies, Projection* result) {
  using namespace ridge::row_check;
  const i64 operand = x.outputs[output];
  Finding finding;
  double squares = 0, count = 0;
  for (i64 j = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; j < x.columns;
       j += static_cast<i64>(gridDim.x) * blockDim.x) {
    const Number expected = finished_sum(static_cast<double>(x.rows), value[j], error[j], variance[j]);
    const double found = load_at(x.output[operand], j);
    finding.look(x.format[operand], found, expected, 0);
    if (!is_finite(found) || !is_finite(expected.value)) continue;
    squares += normal_square(x.format[operand], found, expected);
    count += 1;
  }
  for (int offset = 16; offset > 0; offset >>= 1) {
    squares += __shfl_down_sync(~0u, squares, offset);
    count += __shfl_down_sync(~0u, count, offset);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&tallies[output].squares, squares);
    atomicAdd(&tallies[output].count, count);
  }
  finding.note(result);
}

// Of all outputs the one whose errors are largest for their number.
extern "C" __global__ void rows_conclude(const ridge::row_check::Tally* tallies, i64 outputs, Projection* result) {
  if (threadIdx.x != 0) return;
  double most = -1;
  for (i64 o = 0; o < outputs; ++o) {
    if (tallies[o].count == 0) continue;
    const double mean = tallies[o].squares / tallies[o].count, limit = 1 + 8 / sqrt(tallies[o].count);
    if (mean / limit <= most) continue;
    most = mean / limit;
    result->square_sum = tallies[o].squares;
    result->count = tallies[o].count;
  }
}

// Row i of `to` must be row source[i] of `from`, bit by bit, and zero where source[i] is negative. A warp takes a row.
extern "C" __global__ void rows_moved(Matrix to, Matrix from, const long* source, i64 width, Projection* result) {
  for (i64 row = blockIdx.x * static_cast<i64>(blockDim.x / 32) + threadIdx.x / 32; row < to.rows;
       row += static_cast<i64>(gridDim.x) * (blockDim.x / 32)) {
    const i64 at = source[row];
    const u8* const want = at < 0 || at >= from.rows ? nullptr : from.data + at * from.pitch * width;
    const u8* const found = to.data + row * to.pitch * width;
    bool wrong = at >= from.rows;
    for (i64 i = threadIdx.x % 32; i < to.columns * width; i += 32) {
      wrong = wrong || found[i] != (want == nullptr ? 0 : want[i]);
    }
    if (__any_sync(~0u, wrong) != 0 && threadIdx.x % 32 == 0) note_worst(result, 1e30, row);
  }
}

// The rows of `a` are those of `b` in some order: the difference of the sums of their hashes, to be zero.
extern "C" __global__ void rows_kept(Matrix a, Matrix b, i64 width, u64 seed, u64* difference) {
  u64 hash = 0;
  for (i64 row = blockIdx.x * static_cast<i64>(blockDim.x / 32) + threadIdx.x / 32; row < a.rows;
       row += static_cast<i64>(gridDim.x) * (blockDim.x / 32)) {
    u64 of_a = ridge::row_check::hash_share(a, width, row, seed),
        of_b = ridge::row_check::hash_share(b, width, row, seed);
    for (int mask = 16; mask > 0; mask >>= 1) {
      of_a += __shfl_xor_sync(~0u, of_a, mask);
      of_b += __shfl_xor_sync(~0u, of_b, mask);
    }
    hash += mix(of_a) - mix(of_b);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(difference, hash);
}
extern "C" __global__ void rows_kept_judge(const u64* difference, Projection* result) {
  if (threadIdx.x == 0 && *difference != 0) note_worst(result, 1e30, 0);
}

#ifdef RIDGE_ROW_MODEL
// Of many statistics a thread has no room beside another block's.
extern "C" __global__ void __launch_bounds__(256, RIDGE_ROW_MODEL::kStatistics > 4 ? 1 : 2)
    rows_elements(RIDGE_ROW_PARAMETER RIDGE_ROW_MODEL model, RIDGE_ROW_PARAMETER ridge::row_check::Operands x,
                  i64 lanes, u64 seed, ridge::row_check::Tally* tallies, Projection* result) {
  ridge::row_check::elements(model, x, lanes, seed, tallies, result);
}
// As many registers as it takes: the full compare runs once.
extern "C" __global__ void __launch_bounds__(256, 1)
    rows_reference(RIDGE_ROW_PARAMETER RIDGE_ROW_MODEL model, RIDGE_ROW_PARAMETER ridge::row_check::Operands x,
                   i64 output, i64 first, i64 count, i64 width, i64 lanes, double* value, double* allowed,
                   double* variance, double* shift) {
  ridge::row_check::reference(model, x, output, first, count, width, lanes, value, allowed, variance, shift);
}
extern "C" __global__ void __launch_bounds__(256, 2)
    rows_sums(RIDGE_ROW_PARAMETER RIDGE_ROW_MODEL model, RIDGE_ROW_PARAMETER ridge::row_check::Operands x, i64 output,
              double* value, double* error, double* variance) {
  ridge::row_check::sums(model, x, output, value, error, variance);
}
#endif
