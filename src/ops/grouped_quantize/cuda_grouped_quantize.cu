// Rows of groups in 8-bit floats with scales, each group padded to whole blocks, and the same of the transpose, from
// one read of them, in tiles of 128 x 128 of the padded matrix (coding/tiles.cuh). A warp holds 16 rows, which are of
// one group because groups begin at multiples of 16: it goes through the offsets, 32 groups at a time, until it is at
// the group of its rows, and loads from where that begins in x; rows of padding are zeros that were never loaded.
// Scales of a row or of the whole tensor are known only after all of it was read: `ridge_grouped_quantize_amax` and
// `ridge_grouped_quantize_scales` find them, and `ridge_grouped_quantize` reads the rows a second time. A row of the
// transpose has a scale for each group, which a tile is of one of: their largest magnitudes are gathered in scratch
// memory.
//
// Bound by memory: rows once (tensor, row: twice), every code and scale up to the capacity once. The walk costs two
// prefix sums in the warp for every 32 groups before the first load of a tile: loses with many hundreds of groups. What
// lies behind the last group is written by tiles that load nothing; where groups begin, by a block of its own.

// clang-format off
/* ridge-kernel
op = "grouped_quantize"
# Two or four blocks of 256 threads share a multiprocessor, or one where random words take more.
max_registers = 192
sass = [{ opcode = "LDG" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WIDE_OFFSETS = { value = "offsets" }
RIDGE_FORMAT = { value = "format", names = ["kE4m3", "kE5m2"] }
RIDGE_GRANULARITY = { value = "scaling", names = ["kTensor", "kRow", "kVector", "kBlock", "kMx"] }
RIDGE_COPIES = { value = "copies", names = ["kAsIs", "kTransposed", "kBoth"] }
RIDGE_STOCHASTIC = { value = "rounding" }
RIDGE_AMAX = { value = "amax" }
[configs]
default = { }
[variants]
vector_bf16_e4m3_both = { case = "grouped_quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=both" }
vector_bf16_e4m3_both_i64 = { case = "grouped_quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=both offsets=i64" }
vector_bf16_e4m3 = { case = "grouped_quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=row align=16" }
vector_bf16_e4m3_t = { case = "grouped_quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=column" }
vector_f32_e5m2_both = { case = "grouped_quantize scaling=1x128 dtype=f32 format=e5m2 copies=both" }
vector_f16_e4m3_both = { case = "grouped_quantize scaling=1x128 dtype=f16 format=e4m3fn copies=both" }
vector_bf16_e5m2_both_stochastic = { case = "grouped_quantize scaling=1x128 dtype=bf16 format=e5m2 copies=both rounding=stochastic" }
vector_f32_e5m2_both_stochastic = { case = "grouped_quantize scaling=1x128 dtype=f32 format=e5m2 copies=both rounding=stochastic" }
block_bf16_e4m3_both = { case = "grouped_quantize scaling=128x128 dtype=bf16 format=e4m3fn copies=both" }
mx_bf16_e4m3_both = { case = "grouped_quantize scaling=mx dtype=bf16 format=e4m3fn copies=both align=32" }
tensor_bf16_e4m3_both = { case = "grouped_quantize scaling=tensor dtype=bf16 format=e4m3fn copies=both align=16" }
tensor_bf16_e4m3_both_given = { case = "grouped_quantize scaling=tensor dtype=bf16 format=e4m3fn copies=both amax=given align=16" }
row_bf16_e4m3 = { case = "grouped_quantize scaling=row dtype=bf16 format=e4m3fn align=16" }
row_bf16_e4m3_t = { case = "grouped_quantize scaling=row dtype=bf16 format=e4m3fn copies=column" }
row_bf16_e4m3_both = { case = "grouped_quantize scaling=row dtype=bf16 format=e4m3fn copies=both" }
row_bf16_e4m3_both_i64 = { case = "grouped_quantize scaling=row dtype=bf16 format=e4m3fn copies=both offsets=i64" }
row_f32_e4m3_both = { case = "grouped_quantize scaling=row dtype=f32 format=e4m3fn copies=both" }
row_f16_e5m2_t = { case = "grouped_quantize scaling=row dtype=f16 format=e5m2 copies=column" }
row_bf16_e5m2_t_stochastic = { case = "grouped_quantize scaling=row dtype=bf16 format=e5m2 copies=column rounding=stochastic" }
row_f32_e5m2_both_stochastic = { case = "grouped_quantize scaling=row dtype=f32 format=e5m2 copies=both rounding=stochastic" }
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
# Of the rows of the transpose, a scale for each group.
[[value]]
name = "group_scales"
expression = "scaling == 1 && transposed ? groups * cols : 0"
[[value]]
name = "capacity"
expression = "floor_div(rows + groups * (align - 1), align) * align"
[[value]]
name = "tile_cols"
expression = "ceil_div(cols, 128)"
[[needs]]
expression = "capacity <= 2147483647"
reason = "rows of groups and their padding are counted in 31 bits"
[[needs]]
expression = "ceil_div(capacity, 128) * tile_cols < 2147483647"
reason = "a grid has less than 2147483647 tiles of 128 x 128"
# The memory of scales known at the end holds zeros, then largest magnitudes, then scales. The scale of a tensor is one
# for both copies, so its magnitude is collected once, with the first.
[[clear]]
operand = "scale"
bytes = "scale_shape0 * scale_bytes"
when = "known_at_the_end && plain"
[[clear]]
operand = "scale_t"
bytes = "scale_t_shape0 * scale_t_bytes"
when = "scaling == 0 && plain == 0"
[[clear]]
operand = "found"
bytes = "4"
when = "amax"
[[workspace]]
name = "largest"
bytes = "4 * group_scales"
zero = true
[[struct]]
name = "parameters"
members = [
  { operand = "x" }, { i64 = "x_stride0" }, { operand = "offsets" }, { operand = "padded" },
  { u32 = "rows" }, { u32 = "groups" }, { i64 = "align" }, { i64 = "x_align >= 16" }, { workspace = "largest" },
  { operand = "q", when = "plain" }, { operand = "scale", when = "plain" },
  { operand = "q_t", when = "transposed" }, { operand = "scale_t", when = "transposed" }, { operand = "random", when = "rounding" },
  { i64 = "q_stride0", when = "plain" }, { i64 = "scale_stride0", when = "plain && scaling > 1" },
  { i64 = "q_t_stride0", when = "transposed" }, { i64 = "scale_t_stride0", when = "transposed && scaling > 0" },
  { i64 = "capacity" }, { i64 = "cols" }, { u32 = "tile_cols" }, { u32 = "scale" },
  { u32 = "q_align >= 8", when = "plain" }, { u32 = "q_t_align >= 16", when = "transposed" },
  { operand = "amax", when = "amax" }, { operand = "found", when = "amax" },
]
[[kernel]]
symbol = "ridge_grouped_quantize_amax"
grid = ["ceil_div(capacity, 128) * tile_cols"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_grouped_quantize_scales"
grid = ["ceil_div(scaling == 0 ? 1 : plain * capacity + group_scales, 256)"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
# A block more than there are tiles, for where groups begin.
[[kernel]]
symbol = "ridge_grouped_quantize"
grid = ["ceil_div(capacity, 128) * tile_cols + 1"]
block = [256]
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../coding/elements.cuh"
#include "row_groups.cuh"

namespace ridge::cuda {

struct Source {
  static constexpr Element kType = Element::RIDGE_TYPE_X;
  static constexpr bool kReadBefore = false, kHalves = false;
  StoredMatrix x;
  RowGroups<RIDGE_WIDE_OFFSETS != 0> groups;
  i64 aligned;   // rows start on 16 bytes
  u32* largest;  // magnitudes of columns of each group, [groups, columns]

  __device__ __forceinline__ void load(i64, i64 cols, i64 row, i64 col, Packed<kType>::Square& to) const {
    const auto from = groups.rows_of(static_cast<u32>(row));
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) {
      load_eight<kType>(x, aligned != 0, from.end, cols, static_cast<i64>(from.first) + i, col, to[i]);
    }
  }
  __device__ __forceinline__ u32 segments() const { return groups.count; }
  __device__ __forceinline__ u32 segment_of(i64 row) const { return groups.group_of(static_cast<u32>(row)); }
};

}  // namespace ridge::cuda

#include "../coding/tiles.cuh"

namespace ridge::cuda {

struct GroupedQuantizeParameters {
  Source source;
  TileParameters tile;
};

// One block more than there are tiles, counted as write_codes() counts them.
__device__ __forceinline__ bool behind_the_tiles() { return blockIdx.x == (kGiven ? 0 : gridDim.x - 1); }

}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kBlocks)
    ridge_grouped_quantize(const ridge::cuda::GroupedQuantizeParameters p) {
  if (ridge::cuda::behind_the_tiles()) {
    if (threadIdx.x < ridge::cuda::kGroupLanes) p.source.groups.write_padded();
    return;
  }
  ridge::cuda::write_codes(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kWide ? 2 : 3)
    ridge_grouped_quantize_amax(const ridge::cuda::GroupedQuantizeParameters p) {
  ridge::cuda::collect_largest(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256)
    ridge_grouped_quantize_scales(const ridge::cuda::GroupedQuantizeParameters p) {
  ridge::cuda::make_scales(p.tile, p.source);
}
