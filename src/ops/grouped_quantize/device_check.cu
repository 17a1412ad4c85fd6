// The check of where groups begin in y, on the GPU. Behind check_numbers.cuh, row_numbers.cuh, row_operands.cuh and
// row_model.cuh. Every parameter is 8 bytes or a Matrix.
namespace ridge::grouped_check {

__device__ inline i64 padded_at(const Matrix& offsets, i64 rows, i64 align, i64 at) {
  using ops::grouped_quantize::GroupStep;
  GroupStep group = GroupStep::before(load(offsets, 0, 0), rows);
  for (i64 g = 1; g <= at; ++g) group.next(load(offsets, 0, g), rows, align);
  return group.last;
}

}  // namespace ridge::grouped_check

extern "C" __global__ void grouped_padded(Matrix padded, Matrix offsets, i64 rows, i64 align, Projection* result) {
  for (i64 at = threadIdx.x; at < offsets.columns; at += blockDim.x) {
    const double right = static_cast<double>(ridge::grouped_check::padded_at(offsets, rows, align, at));
    if (load(padded, 0, at) != right) note_worst(result, 1e30, at);
  }
}

extern "C" __global__ void grouped_padded_reference(Matrix offsets, i64 rows, i64 align, ElementArrays to) {
  for (i64 at = threadIdx.x; at < offsets.columns; at += blockDim.x) {
    to.put(at, {static_cast<double>(ridge::grouped_check::padded_at(offsets, rows, align, at)), 0, 0, 0});
  }
}
