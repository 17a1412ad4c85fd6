// Checks of coded copies on the GPU, sharing no code with any kernel that makes them: every code and every scale,
// always, because the work is of the order of the operands anyway. The largest magnitudes of the groups come first, by
// the row model of what is coded, with its errors. A code that an fp32 division gives is within what is allowed, so
// only others are looked at in full.
//
// A copy has rows x cols elements of its own: of the transposed one, its rows are the columns of y. Groups are numbered
// as their scales lie, those of a part of a copy from the part's start. A model may say of which segment of the rows of
// y a row is (segment_of), 32 of them of one: with kRow those of the transpose have scales for each. Behind
// check_numbers.cuh, row_numbers.cuh, row_operands.cuh, right_codes.cuh, the model, and RIDGE_ROW_MODEL, its type.
// Every parameter is 8 bytes, a Matrix or a struct of 8 bytes each.
namespace ridge::code_check {

using namespace ridge::ops::right_codes;
using row_check::Operands;
using row_check::Row;

// What is coded.
template <class Model>
struct Source {
  const Model& model;
  const Operands& operands;

  __device__ Number operator()(i64 row, i64 col) const {
    const Number* const no_statistics = nullptr;
    return in_fp32(model.element(Row<Number>{operands, {0, 1}, row}, no_statistics, 0, col));
  }
};

template <class Model>
__device__ i64 segment_of(const Model& model, const Operands& operands, i64 row) {
  if constexpr (requires { model.segment_of(Row<Number>{operands, {0, 1}, row}); }) {
    return model.segment_of(Row<Number>{operands, {0, 1}, row});
  } else {
    return 0;
  }
}

__device__ inline Magnitude larger(const Magnitude& a, const Magnitude& b) {
  return {max(a.low, b.low), max(a.high, b.high)};
}
__device__ inline Magnitude largest_of_warp(const Magnitude& mine) {
  return {__reduce_max_sync(~0u, mine.low), __reduce_max_sync(~0u, mine.high)};
}
__device__ inline void raise(Magnitude* at, const Magnitude& to) {
  if (to.low != 0) atomicMax(&at->low, to.low);
  if (to.high != 0) atomicMax(&at->high, to.high);
}

// Of the groups of a part of y, for the copy as it is and for the transposed one; either array may be null, and holds
// zeros. A block takes 32 x 32 elements: a group never ends within its rows or columns. Segments that are not within
// these count for no column.
template <class Model>
__device__ void largest_magnitudes(const Model& model, const Operands& x, i64 row0, i64 row_end, i64 col0, i64 col_end,
                                   i64 segment0, i64 segment_end, i64 granularity, Magnitude* as_is,
                                   Magnitude* transposed) {
  const Source<Model> y{model, x};
  __shared__ Magnitude columns[32];
  const i64 rows = row_end - row0, cols = col_end - col0, across = (cols + 31) / 32;
  const i64 first_row = blockIdx.x / across * 32, col = blockIdx.x % across * 32 + threadIdx.x % 32;
  if (threadIdx.x < 32) columns[threadIdx.x] = {0, 0};
  __syncthreads();
  Magnitude largest{0, 0};
  for (i64 row = first_row + threadIdx.x / 32; row < first_row + 32; row += 8) {
    Magnitude one{0, 0};
    if (row < rows && col < cols) one = magnitude_of(y(row0 + row, col0 + col));
    largest = larger(largest, one);
    const Magnitude of_row = largest_of_warp(one);
    if (threadIdx.x % 32 == 0 && as_is != nullptr && row < rows) {
      raise(&as_is[group_of(granularity, rows, cols, row, col)], of_row);
    }
  }
  if (transposed == nullptr) return;
  raise(&columns[threadIdx.x % 32], largest);
  __syncthreads();
  const i64 segment = segment_of(model, x, row0 + first_row);
  if (segment_end != 0 && (segment < segment0 || segment >= segment_end)) return;
  if (threadIdx.x < 32 && col < cols) {
    raise(&transposed[group_of(granularity, cols, rows, col, first_row, segment - segment0)], columns[threadIdx.x]);
  }
}

// Of all elements; what is not finite counts as infinity.
template <class Model>
__device__ void largest_of_all(const Model& model, const Operands& x, Magnitude* word) {
  const Source<Model> y{model, x};
  Magnitude largest{0, 0};
  for (i64 row = blockIdx.x; row < x.rows; row += gridDim.x) {
    for (i64 col = threadIdx.x; col < x.columns; col += blockDim.x) {
      const Number one = y(row, col);
      const bool finite = ops::rows::is_finite(one.value);
      largest = larger(largest, finite ? magnitude_of(one) : Magnitude{kInfinityF32, kInfinityF32});
    }
  }
  raise(word, largest);
}

// Every code of both copies (q or q_t without data: not wanted), with the groups of all of y.
template <class Model>
__device__ void judge_codes(const Model& model, const Operands& x, const Matrix& q, const Matrix& q_t,
                            const Magnitude* as_is, const Magnitude* transposed, const Definition& d,
                            Projection* result) {
  const Source<Model> y{model, x};
  __shared__ u8 codes_t[32][33];
  const i64 rows = y.operands.rows, cols = y.operands.columns, across = (cols + 31) / 32;
  const i64 row0 = blockIdx.x / across * 32, col0 = blockIdx.x % across * 32, col = col0 + threadIdx.x % 32;
  const int lane = threadIdx.x % 32, line = threadIdx.x / 32;
  if (q_t.data != nullptr) {
    for (int c = line; c < 32; c += 8) {
      if (col0 + c < cols && row0 + lane < rows) codes_t[c][lane] = q_t.data[(col0 + c) * q_t.pitch + row0 + lane];
    }
  }
  __syncthreads();
  const i64 segment = q_t.data != nullptr ? segment_of(model, x, row0) : 0;
  double squares = 0, count = 0;
  const auto judge = [&](const Number& value, u8 code, const Magnitude& group, i64 row) {
    const Interval scale = scales_of(interval_of(group), d);
    count += 1;
    const float quotient = static_cast<float>(value.value) / static_cast<float>((scale.low + scale.high) / 2);
    const bool certain = d.stochastic == 0 && (d.rule == kExact || scale.low == scale.high);
    if (certain && isfinite(quotient) && code == to_code(quotient, d.type)) return;
    const double got = d.type == kE4m3 ? from_e4m3(code) : half_to_float(static_cast<u16>(code << 8));
    const Stored want = right_code(value, scale, d);
    if (!isfinite(got) || !isfinite(want.value)) {
      atomicAdd(&result->not_finite, 1ull);
      return;
    }
    const double error = fabs(got - want.value);
    if (error == 0) return;
    note_worst(result, error / want.allowed, row);
    squares += error * error / want.ideal_square;
  };
  for (i64 row = row0 + line; row < row0 + 32; row += 8) {
    if (row >= rows || col >= cols) continue;
    const Number value = y(row, col);
    if (q.data != nullptr) {
      judge(value, q.data[row * q.pitch + col], as_is[group_of(d.granularity, rows, cols, row, col)], row);
    }
    if (q_t.data != nullptr) {
      judge(value, codes_t[lane][row - row0], transposed[group_of(d.granularity, cols, rows, col, row, segment)], col);
    }
  }
  add_to(result, squares, count);
}

__device__ inline void store(const Stored& one, i64 at, double* value, double* allowed, double* variance) {
  value[at] = one.value;
  allowed[at] = one.allowed;
  variance[at] = one.ideal_square;
}

// Rows first .. first + count of a copy (transposed != 0: of y^T) with the groups of the part of it that begins in row
// `part` and is `part_rows` high.
template <class Model>
__device__ void reference_codes(const Model& model, const Operands& x, i64 transposed, i64 first, i64 count, i64 part,
                                i64 part_rows, const Magnitude* groups, const Definition& d, double* value,
                                double* allowed, double* variance) {
  const Source<Model> y{model, x};
  const i64 cols = transposed != 0 ? y.operands.rows : y.operands.columns;
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count * cols;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 row = first + i / cols, col = i % cols;
    const i64 segment = transposed != 0 ? segment_of(model, x, col) : 0;
    const Magnitude group = groups[group_of(d.granularity, part_rows, cols, row - part, col, segment)];
    const Number one = transposed != 0 ? y(col, row) : y(row, col);
    store(right_code(one, scales_of(interval_of(group), d), d), i, value, allowed, variance);
  }
}

}  // namespace ridge::code_check

extern "C" __global__ void codes_clear(ridge::ops::right_codes::Magnitude* groups, i64 count) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    groups[i] = {0, 0};
  }
}

// A given largest magnitude over that of y, unless it is 0 or not finite.
extern "C" __global__ void codes_given(const float* amax, ridge::ops::right_codes::Magnitude* groups) {
  const u32 bits = __float_as_uint(*amax) & 0x7fffffffu;
  if (threadIdx.x == 0 && bits != 0 && bits < ridge::ops::right_codes::kInfinityF32) groups[0] = {bits, bits};
}

// Every scale of a copy: groups in the order in which their scales lie.
extern "C" __global__ void codes_scales(Matrix scale, const ridge::ops::right_codes::Magnitude* groups,
                                        RIDGE_ROW_PARAMETER ridge::ops::right_codes::Definition d, Projection* result) {
  using namespace ridge::ops::right_codes;
  double squares = 0, count = 0;
  const i64 total = scale.rows * scale.columns;
  for (i64 first = blockIdx.x * static_cast<i64>(blockDim.x); first < total;
       first += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 i = first + threadIdx.x;
    if (i >= total) continue;
    const Stored want = right_scale(scales_of(interval_of(groups[i]), d), d);
    const double error = fabs(load(scale, i / scale.columns, i % scale.columns) - want.value);
    if (!isfinite(error)) {
      atomicAdd(&result->not_finite, 1ull);
      continue;
    }
    note_worst(result, error / want.allowed, i / scale.columns);
    squares += error * error / want.ideal_square;
    count += 1;
  }
  add_to(result, squares, count);
}

extern "C" __global__ void codes_found(const float* found, const ridge::ops::right_codes::Magnitude* largest,
                                       RIDGE_ROW_PARAMETER ridge::ops::right_codes::Format f32, Projection* result) {
  using namespace ridge::ops::right_codes;
  if (threadIdx.x != 0) return;
  const Stored want = right_largest(interval_of(*largest), f32);
  const double error = fabs(*found - want.value);
  if (*found == want.value) return;
  note_worst(result, isfinite(error) ? error / want.allowed : 1e30, 0);
}

extern "C" __global__ void codes_reference_scales(const ridge::ops::right_codes::Magnitude* groups, i64 count,
                                                  RIDGE_ROW_PARAMETER ridge::ops::right_codes::Definition d,
                                                  double* value, double* allowed, double* variance) {
  using namespace ridge::ops::right_codes;
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    ridge::code_check::store(right_scale(scales_of(interval_of(groups[i]), d), d), i, value, allowed, variance);
  }
}

extern "C" __global__ void codes_reference_found(const ridge::ops::right_codes::Magnitude* largest,
                                                 RIDGE_ROW_PARAMETER ridge::ops::right_codes::Format f32, double* value,
                                                 double* allowed, double* variance) {
  using namespace ridge::ops::right_codes;
  if (threadIdx.x == 0)
    ridge::code_check::store(right_largest(interval_of(*largest), f32), 0, value, allowed, variance);
}

// Equal inputs are rounded the same way, so that errors may all have one sign without anything being wrong. Only random
// roundings must not.
extern "C" __global__ void codes_shifts(const double* allowed, i64 count, i64 stochastic, double* shift) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    shift[i] = stochastic != 0 ? 0.0 : allowed[i];
  }
}

#ifdef RIDGE_ROW_MODEL
// A block of a multiprocessor will do: left to itself the compiler keeps to 64 registers, and spills.
extern "C" __global__ void __launch_bounds__(256, 1)
    codes_amax(RIDGE_ROW_PARAMETER RIDGE_ROW_MODEL model, RIDGE_ROW_PARAMETER ridge::row_check::Operands x, i64 row0,
               i64 row_end, i64 col0, i64 col_end, i64 segment0, i64 segment_end, i64 granularity,
               ridge::ops::right_codes::Magnitude* as_is, ridge::ops::right_codes::Magnitude* transposed) {
  ridge::code_check::largest_magnitudes(model, x, row0, row_end, col0, col_end, segment0, segment_end, granularity,
                                        as_is, transposed);
}
extern "C" __global__ void __launch_bounds__(256, 1)
    codes_largest(RIDGE_ROW_PARAMETER RIDGE_ROW_MODEL model, RIDGE_ROW_PARAMETER ridge::row_check::Operands x,
                  ridge::ops::right_codes::Magnitude* word) {
  ridge::code_check::largest_of_all(model, x, word);
}
extern "C" __global__ void __launch_bounds__(256, 1)
    codes_judge(RIDGE_ROW_PARAMETER RIDGE_ROW_MODEL model, RIDGE_ROW_PARAMETER ridge::row_check::Operands x, Matrix q,
                Matrix q_t, const ridge::ops::right_codes::Magnitude* as_is,
                const ridge::ops::right_codes::Magnitude* transposed,
                RIDGE_ROW_PARAMETER ridge::ops::right_codes::Definition d, Projection* result) {
  ridge::code_check::judge_codes(model, x, q, q_t, as_is, transposed, d, result);
}
extern "C" __global__ void __launch_bounds__(256, 1)
    codes_reference(RIDGE_ROW_PARAMETER RIDGE_ROW_MODEL model, RIDGE_ROW_PARAMETER ridge::row_check::Operands x,
                    i64 transposed, i64 first, i64 count, i64 part, i64 part_rows,
                    const ridge::ops::right_codes::Magnitude* groups,
                    RIDGE_ROW_PARAMETER ridge::ops::right_codes::Definition d, double* value, double* allowed,
                    double* variance) {
  ridge::code_check::reference_codes(model, x, transposed, first, count, part, part_rows, groups, d, value, allowed,
                                     variance);
}
#endif
