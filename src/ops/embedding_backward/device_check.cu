// Checks of the gradient of a table on the GPU: every element, always. check_numbers.cuh, row_numbers.cuh and
// element.cuh come before this. A block takes 256 columns of a row and looks for its tokens among all, which needs no
// scratch memory and shares nothing with a sort.
namespace ridge::embedding_check {

namespace rows = ridge::ops::rows;

constexpr u32 kTile = 1024;  // tokens that are looked at together

struct Ids {
  Matrix ids;
  i64 padding;

  __device__ inline bool names(i64 token, i64 row) const {
    return token < ids.columns && row != padding && load(ids, 0, token) == static_cast<double>(row);
  }
};

// Of this thread's column; by all threads of a block. `old` has no rows where nothing is added.
__device__ inline rows::Stored right(const Matrix& dy, const Ids& ids, const Matrix& old, const rows::Format& format,
                                     i64 row, i64 column) {
  __shared__ u32 tokens[kTile], found;
  rows::Sum sum;
  double terms = 0;
  for (i64 tile = 0; tile < ids.ids.columns; tile += kTile) {
    __syncthreads();
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    for (u32 i = threadIdx.x; i < kTile; i += blockDim.x) {
      if (ids.names(tile + i, row)) tokens[atomicAdd(&found, 1u)] = i;
    }
    __syncthreads();
    for (u32 i = 0; column < dy.columns && i < found; ++i) sum.add(rows::Number(load(dy, tile + tokens[i], column)));
    terms += found;
  }
  const bool added = old.rows > 0;
  const double before = added && column < dy.columns ? load(old, row, column) : 0.0;
  return ridge::ops::embedding_backward::element(format, sum, terms, added, before);
}

}  // namespace ridge::embedding_check

using namespace ridge::embedding_check;

extern "C" __global__ void embedding_elements(Matrix dy, Matrix ids, i64 padding, Matrix dw, Matrix old,
                                              rows::Format format, Projection* result) {
  double squares = 0, count = 0;
  const i64 column = blockIdx.y * static_cast<i64>(blockDim.x) + threadIdx.x;
  for (i64 row = blockIdx.x; row < dw.rows; row += gridDim.x) {
    const rows::Stored want = right(dy, {ids, padding}, old, format, row, column);
    if (column >= dw.columns) continue;
    const double got = load(dw, row, column);
    count += 1;
    if (same(got, want.value)) continue;
    squares += judged(result, got, want.value, want.allowed, want.ideal_square, row);
  }
  add_to(result, squares, count);
}

extern "C" __global__ void embedding_reference(Matrix dy, Matrix ids, i64 padding, Matrix old, rows::Format format,
                                               i64 first, i64 count, ElementArrays to) {
  const i64 column = blockIdx.y * static_cast<i64>(blockDim.x) + threadIdx.x;
  for (i64 i = blockIdx.x; i < count; i += gridDim.x) {
    const rows::Stored want = right(dy, {ids, padding}, old, format, first + i, column);
    if (column >= dy.columns) continue;
    const i64 at = i * dy.columns + column;
    to.put(at, {want.value, want.allowed, want.ideal_square, want.shift});
  }
}
