// A matrix in 8-bit floats with scales, and the same of its transpose, from one read of it, in tiles of 128 x 128
// (coding/tiles.cuh): elements are loaded 16 bytes at a time and stay packed. Scales of a row or of the whole tensor
// are known only after all of it was read: `ridge_quantize_amax` and `ridge_quantize_scales` find them, and
// `ridge_quantize` reads the matrix a second time.
//
// Bound by memory: x once (tensor, row: twice), every code and scale once. Loses to a kernel that keeps long rows in
// registers (row scales) and to one that loads the next tile while it writes this one. Matrices whose rows do not
// start on 16 bytes, and the last tiles, are read and written by elements.

// clang-format off
/* ridge-kernel
op = "quantize"
# Two or four blocks of 256 threads share a multiprocessor, or one where random words take more.
max_registers = 255
sass = [{ opcode = "LDG" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_FORMAT = { value = "format", names = ["kE4m3", "kE5m2"] }
RIDGE_GRANULARITY = { value = "scaling", names = ["kTensor", "kRow", "kVector", "kBlock", "kMx"] }
RIDGE_COPIES = { value = "copies", names = ["kAsIs", "kTransposed", "kBoth"] }
RIDGE_STOCHASTIC = { value = "rounding" }
RIDGE_AMAX = { value = "amax" }
[configs]
default = { }
[variants]
vector_bf16_e4m3_both = { case = "quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=both" }
vector_bf16_e4m3 = { case = "quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=row" }
vector_bf16_e4m3_t = { case = "quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=column" }
vector_f32_e5m2_both = { case = "quantize scaling=1x128 dtype=f32 format=e5m2 copies=both" }
vector_f16_e4m3_both = { case = "quantize scaling=1x128 dtype=f16 format=e4m3fn copies=both" }
vector_bf16_e4m3_both_stochastic = { case = "quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=both rounding=stochastic" }
vector_f32_e5m2_both_stochastic = { case = "quantize scaling=1x128 dtype=f32 format=e5m2 copies=both rounding=stochastic" }
block_bf16_e4m3_both = { case = "quantize scaling=128x128 dtype=bf16 format=e4m3fn copies=both" }
mx_bf16_e4m3_both = { case = "quantize scaling=mx dtype=bf16 format=e4m3fn copies=both" }
tensor_bf16_e4m3_both = { case = "quantize scaling=tensor dtype=bf16 format=e4m3fn copies=both" }
tensor_bf16_e4m3_both_given = { case = "quantize scaling=tensor dtype=bf16 format=e4m3fn copies=both amax=given" }
tensor_f32_e5m2_given = { case = "quantize scaling=tensor dtype=f32 format=e5m2 copies=row amax=given" }
row_bf16_e4m3_both = { case = "quantize scaling=row dtype=bf16 format=e4m3fn copies=both" }
*/
/* ridge-launch
[[value]]
name = "plain"
expression = "copies != 1"
[[value]]
name = "transposed"
expression = "copies != 0"
[[value]]
name = "known_at_the_end"
expression = "scaling < 2"
[[value]]
name = "tile_cols"
expression = "ceil_div(cols, 128)"
[[needs]]
expression = "ceil_div(rows, 128) * tile_cols <= 2147483647"
reason = "a grid has at most 2147483647 tiles of 128 x 128"
# The memory of scales known at the end holds zeros, then largest magnitudes, then scales. The scale of a tensor is one
# for both copies, so its magnitude is collected once, with the first.
[[clear]]
operand = "scale"
bytes = "scale_shape0 * scale_bytes"
when = "known_at_the_end && plain"
[[clear]]
operand = "scale_t"
bytes = "scale_t_shape0 * scale_t_bytes"
when = "known_at_the_end && transposed && (scaling == 1 || plain == 0)"
[[clear]]
operand = "found"
bytes = "4"
when = "amax"
[[struct]]
name = "parameters"
members = [
  { operand = "x" }, { i64 = "x_stride0" }, { i64 = "x_align >= 16" },
  { operand = "q", when = "plain" }, { operand = "scale", when = "plain" },
  { operand = "q_t", when = "transposed" }, { operand = "scale_t", when = "transposed" }, { operand = "random", when = "rounding" },
  { i64 = "q_stride0", when = "plain" }, { i64 = "scale_stride0", when = "plain && scaling > 1" },
  { i64 = "q_t_stride0", when = "transposed" }, { i64 = "scale_t_stride0", when = "transposed && scaling > 1" },
  { i64 = "rows" }, { i64 = "cols" }, { u32 = "tile_cols" }, { u32 = "scale" },
  { u32 = "q_align >= 8", when = "plain" }, { u32 = "q_t_align >= 16", when = "transposed" },
  { operand = "amax", when = "amax" }, { operand = "found", when = "amax" },
]
[[kernel]]
symbol = "ridge_quantize_amax"
grid = ["ceil_div(rows, 128) * tile_cols"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_quantize_scales"
grid = ["ceil_div(scaling == 0 ? 1 : plain * rows + transposed * cols, 256)"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_quantize"
grid = ["ceil_div(rows, 128) * tile_cols"]
block = [256]
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../coding/elements.cuh"

namespace ridge::cuda {

struct Source {
  static constexpr Element kType = Element::RIDGE_TYPE_X, kInput = kType;
  static constexpr bool kReadBefore = false, kHalves = false;
  static constexpr u32 kInputs = 1;

  StoredMatrix x;
  i64 aligned;  // rows start on 16 bytes

  __device__ __forceinline__ const StoredMatrix& input(u32) const { return x; }
  __device__ __forceinline__ bool is_aligned(u32) const { return aligned != 0; }

  struct EightRows {
    i64 first, end;
  };
  __device__ __forceinline__ EightRows find_rows(i64 rows, i64 row) const { return {row, rows}; }
  __device__ __forceinline__ i64 row_of(const EightRows& at, u32 i) const { return at.first + i; }
  __device__ __forceinline__ i64 end_of(const EightRows& at, u32) const { return at.end; }
  __device__ __forceinline__ bool has_all(const EightRows& at) const { return at.first + kSide <= at.end; }

  template <class Read>
  __device__ __forceinline__ void make(const EightRows&, i64, const Read& read, Packed<kType>::Square& to) const {
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) read(0, i, to[i]);
  }
};

}  // namespace ridge::cuda

#include "../coding/tiles.cuh"

namespace ridge::cuda {

struct QuantizeParameters {
  Source source;
  TileParameters tile;
};

}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kBlocks)
    ridge_quantize(const ridge::cuda::QuantizeParameters p) {
  ridge::cuda::write_codes(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kWide ? 2 : 3)
    ridge_quantize_amax(const ridge::cuda::QuantizeParameters p) {
  ridge::cuda::collect_largest(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256) ridge_quantize_scales(const ridge::cuda::QuantizeParameters p) {
  ridge::cuda::make_scales(p.tile);
}
