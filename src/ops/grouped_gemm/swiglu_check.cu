// Checks of SwiGLU beside grouped products on the GPU, in fp64: y, element by element, against the C that is there,
// which grouped_check.cu holds to its sums. Behind check_numbers.cuh, row_numbers.cuh and gating/definition.cuh.
namespace ridge::swiglu_check {

using namespace ridge::check_numbers;
namespace rows = ridge::ops::rows;

struct SwigluCall {
  Matrix c, y, probs, offsets;  // probs without data: 1
  i64 groups;
  rows::Format format;  // of y
};

// y of a row and column, and whether any number that is not finite is right: an infinite up times a silu of which fp32
// may have 0. Rows of no group are 0.
struct Expected {
  rows::Number y;
  bool open = false;
};
__device__ inline Expected expected(const SwigluCall& call, i64 row, i64 column) {
  const bool own =
      row >= static_cast<i64>(load(call.offsets, 0, 0)) && row < static_cast<i64>(load(call.offsets, 0, call.groups));
  if (!own) return {rows::Number(0.0)};
  const ops::activation::Definition f{ops::activation::Definition::kSilu, 0, 0};
  const rows::Exact gate(load(call.c, row, column)), up(load(call.c, row, column + call.y.columns));
  const rows::Number silu = f.value(rows::Number(gate));
  const rows::Number y = call.probs.data == nullptr ? silu * up : silu * up * rows::Exact(load(call.probs, 0, row));
  return {y, !rows::is_finite(y.value) && fabs(silu.value) <= silu.error};
}

// Every row of y; a warp for each.
extern "C" __global__ void __launch_bounds__(256, 1) swiglu_judge(SwigluCall call, Projection* result) {
  double squares = 0, seen = 0;
  for (i64 row = blockIdx.x * 8ll + threadIdx.x / 32; row < call.y.rows; row += gridDim.x * 8ll) {
    for (i64 column = threadIdx.x % 32; column < call.y.columns; column += 32) {
      const double found = load(call.y, row, column);
      const rows::Number want = expected(call, row, column).y;
      rows::Stored right;
      const double ratio = rows::error_ratio(call.format, found, want, right);
      if (!rows::is_finite(found)) {  // products of f16 may rightly be infinite
        if (ratio != 0) atomicAdd(&result->not_finite, 1ull);
        continue;
      }
      if (ratio > 0.5 || ratio != ratio) note_worst(result, ratio == ratio ? fmin(ratio, 1e30) : 1e30, row);
      squares += rows::normal_square(call.format, found, want);
      seen += 1;
    }
  }
  add_to(result, squares, seen);
}

// Rows first_row .. first_row + count of y.
extern "C" __global__ void __launch_bounds__(256, 1)
    swiglu_reference(SwigluCall call, i64 first_row, i64 count, ElementArrays to) {
  const i64 columns = call.y.columns;
  for (i64 at = blockIdx.x * 256ll + threadIdx.x; at < count * columns; at += gridDim.x * 256ll) {
    const Expected found = expected(call, first_row + at / columns, at % columns);
    const rows::Stored want = rows::stored(call.format, found.y);
    to.put(at, {want.value, found.open ? -1.0 : want.allowed, want.ideal_square, want.shift});
  }
}

}  // namespace ridge::swiglu_check
