// Checks of dequantised codes on the GPU: every element, always. check_numbers.cuh comes before this.
namespace ridge::dequantize_check {

__device__ inline Rounded right(const Matrix& q, const Matrix& scale, i64 granularity, i64 type, i64 row, i64 col) {
  const double product = load(q, row, col) * scale_at(scale, granularity, row, col);
  return rounded_once(type, product, type == kF32 ? 0.0 : 0x1p-24);  // the fp32 product is rounded once more
}

}  // namespace ridge::dequantize_check

using namespace ridge::dequantize_check;

extern "C" __global__ void dequantize_elements(Matrix q, Matrix scale, i64 granularity, Matrix y, Projection* result) {
  double squares = 0, count = 0;
  const i64 total = y.rows * y.columns;
  for (i64 first = blockIdx.x * static_cast<i64>(blockDim.x); first < total;
       first += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 i = first + threadIdx.x;
    if (i >= total) continue;
    const i64 row = i / y.columns, col = i % y.columns;
    const double got = load(y, row, col);
    count += 1;
    // What is nearest to the product is right, however far the next one is.
    const double product = load(q, row, col) * scale_at(scale, granularity, row, col);
    if (got == round_to(y.type, product)) continue;
    const Rounded want = right(q, scale, granularity, y.type, row, col);
    squares += judged(result, got, want.value, want.allowed, want.variance, row);
  }
  add_to(result, squares, count);
}

extern "C" __global__ void dequantize_reference(Matrix q, Matrix scale, i64 granularity, i64 type, i64 first, i64 count,
                                                ElementArrays to) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count * q.columns;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    const Rounded want = right(q, scale, granularity, type, first + i / q.columns, i % q.columns);
    to.put(i, {want.value, want.allowed, want.variance, want.allowed});  // equal codes are rounded the same way
  }
}
