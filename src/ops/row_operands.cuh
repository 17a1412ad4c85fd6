// What check kernels of row models read: the operands of a call as a table, and a row of them as a model sees it.
// Stands behind check_numbers.cuh and row_numbers.cuh; it has no include guard and includes nothing.
#ifndef RIDGE_CHECK_ON_HOST
#define RIDGE_ROW_PARAMETER const __grid_constant__
#else
#define RIDGE_ROW_PARAMETER const
#endif

namespace ridge::row_check {

using namespace ridge::ops::rows;

constexpr int kMostOperands = 16, kThreads = 256, kStrip = 32;

// ops/row_device_check.cpp
struct Operands {
  Matrix input[kMostOperands], output[kMostOperands];  // of a read_write one the old content and the new
  i64 reads[kMostOperands];                            // Reads
  Format format[kMostOperands];                        // of outputs
  i64 outputs[kMostOperands];                          // operands that are outputs, in their order
  i64 output_count, rows, columns;
};

// Threads that share a row: those of a warp or of the block.
struct Team {
  int rank, size;

  // The result of `join` over all of them, for all of them.
  template <class Join>
  __device__ double all(double value, Join join) const {
    for (int mask = 16; mask > 0; mask >>= 1) value = join(value, __shfl_xor_sync(~0u, value, mask));
    if (size <= 32) return value;
    __shared__ double parts[kThreads / 32];
    __syncthreads();
    if (rank % 32 == 0) parts[rank / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int i = 1; i < size / 32; ++i) value = join(value, parts[i]);
    return value;
  }
  __device__ double sum(double value) const {
    return all(value, [](double a, double b) { return a + b; });
  }
  __device__ double most(double value) const {
    return all(value, [](double a, double b) { return a > b || a != a ? a : b; });
  }
};

// An element by its place; the host sees to it that there are less than 2^32.
__device__ inline double load_at(const Matrix& x, i64 place) {
  if (x.rows == 1) return load(x, 0, place);
  const u32 row = static_cast<u32>(place) / static_cast<u32>(x.columns);
  return load(x, row, static_cast<u32>(place) - row * static_cast<u32>(x.columns));
}
__device__ inline double load_as(const Matrix& x, i64 reads, i64 row, i64 column) {
  if (reads == kRow) return load(x, row, column);
  return load_at(x, reads == kScalar ? row : column);
}

template <class T>
struct Kind {
  using Element = double;
};
template <>
struct Kind<Number> {
  using Element = Exact;
};

// A row as a model sees it.
template <class T>
struct Row {
  const Operands& operands;
  Team team;
  i64 at;

  __device__ typename Kind<T>::Element operator()(i64 operand, i64 column = 0) const {
    return typename Kind<T>::Element(load_as(operands.input[operand], operands.reads[operand], at, column));
  }
  __device__ i64 columns() const { return operands.columns; }
  __device__ i64 index() const { return at; }

  template <class Term>
  __device__ Sum add_up(const Term& term) const {
    Sum sum;
    for (i64 j = team.rank; j < operands.columns; j += team.size) sum.add(term(j));
    sum.value = team.sum(sum.value);
    sum.magnitude = team.sum(sum.magnitude);
    sum.squares = team.sum(sum.squares);
    sum.error = team.sum(sum.error);
    sum.variance = team.sum(sum.variance);
    return sum;
  }
  template <class Term>
  __device__ Number largest(const Term& term) const {
    Number most(-__longlong_as_double(0x7ff0000000000000ll));
    for (i64 j = team.rank; j < operands.columns; j += team.size) most = larger(term(j), most);
    return {team.most(most.value), team.most(most.error), team.most(most.variance)};
  }
};

}  // namespace ridge::row_check
