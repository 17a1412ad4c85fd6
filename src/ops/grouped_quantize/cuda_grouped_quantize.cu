// Rows of groups in 8-bit floats with scales, each group padded to whole blocks, and the same of the transpose, from
// one read of them, in tiles of 128 x 128 of the padded matrix (coding/tiles.cuh). A warp holds 16 rows, which are of
// one group because groups begin at multiples of 16: its lanes go through the offsets, each through a thirty-second of
// the groups, and the one that is at the group of the rows says where that begins in m; rows of padding are zeros that
// were never loaded.
// Scales of a row or of the whole tensor are known only after all of it was read: `ridge_grouped_quantize_amax` and
// `ridge_grouped_quantize_scales` find them, and `ridge_grouped_quantize` reads the rows a second time. A row of the
// transpose has a scale for each group, which a tile is of one of: their largest magnitudes are gathered in scratch
// memory. What SwiGLU or its backward makes of the rows is computed in fp32 as their own kernels do and rounded to the
// dtype that it would be stored in, in registers. Blocks of SwiGLU of 16-bit rows walk over tiles, and copy the next
// one's inputs to shared memory meanwhile; of its gradients two tiles are made of one copy, where halves are of whole
// tiles. The gradients of the factors are sums along whole rows: a tile writes its part of 128 rows to scratch memory,
// and `ridge_grouped_quantize_dprobs` adds up the parts in their order. Rows that are found by index are loaded from
// where they lie: a token that several groups have is read by each, from the second-level cache where it fits.
//
// Bound by memory: rows once (tensor, row: twice), every code and scale up to the capacity once. The walk costs one
// prefix sum in the warp and two reads of every 32nd offset before the first load of a tile. What
// lies behind the last group is written by tiles that load nothing; where groups begin, by the first block; rows of no
// group by all blocks behind their tiles.

// clang-format off
/* ridge-kernel
op = "grouped_quantize"
# Two or four blocks of 256 threads share a multiprocessor, or one where random words take more.
max_registers = 255
sass = [{ opcode = "LDG" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WIDE_OFFSETS = { value = "offsets" }
RIDGE_OF = { value = "of", names = ["kRows", "kSwiglu", "kSwigluBackward"] }
RIDGE_PROBS = { value = "probs" }
RIDGE_OWN_ROWS = { value = "own_rows" }
RIDGE_DPROBS = { value = "dprobs" }
RIDGE_GATHER = { value = "gather" }
RIDGE_TWINS = { value = "twins" }
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
vector_bf16_e4m3_own = { case = "grouped_quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=both own_rows=1" }
vector_bf16_e4m3_gather = { case = "grouped_quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=both own_rows=1 gather=1 sources=64" }
vector_bf16_e5m2_gather = { case = "grouped_quantize scaling=1x128 dtype=bf16 format=e5m2 copies=both own_rows=1 gather=1 sources=64" }
vector_f32_e4m3_gather = { case = "grouped_quantize scaling=1x128 dtype=f32 format=e4m3fn copies=both own_rows=1 gather=1 sources=64" }
row_bf16_e4m3_both_gather = { case = "grouped_quantize scaling=row dtype=bf16 format=e4m3fn copies=both gather=1 sources=64" }
vector_bf16_e4m3_own_i64 = { case = "grouped_quantize scaling=1x128 dtype=bf16 format=e4m3fn copies=both own_rows=1 offsets=i64" }
vector_f32_e5m2_own = { case = "grouped_quantize scaling=1x128 dtype=f32 format=e5m2 copies=both own_rows=1" }
mx_bf16_e4m3_own = { case = "grouped_quantize scaling=mx dtype=bf16 format=e4m3fn copies=both own_rows=1" }
swiglu_bf16_e4m3_own = { case = "grouped_quantize of=swiglu probs=1 dtype=bf16 format=e4m3fn copies=both own_rows=1" }
swiglu_bf16_e4m3_own_i64 = { case = "grouped_quantize of=swiglu probs=1 dtype=bf16 format=e4m3fn copies=both own_rows=1 offsets=i64" }
swiglu_bf16_e4m3_own_plain = { case = "grouped_quantize of=swiglu dtype=bf16 format=e4m3fn copies=both own_rows=1" }
swiglu_f16_e4m3_both = { case = "grouped_quantize of=swiglu dtype=f16 format=e4m3fn copies=both" }
swiglu_f32_e4m3_own = { case = "grouped_quantize of=swiglu probs=1 dtype=f32 format=e4m3fn copies=both own_rows=1" }
swiglu_f32_e5m2_both_stochastic = { case = "grouped_quantize of=swiglu probs=1 dtype=f32 format=e5m2 copies=both rounding=stochastic" }
swiglu_bf16_row_both = { case = "grouped_quantize of=swiglu probs=1 dtype=bf16 scaling=row copies=both" }
swiglu_f32_row_both = { case = "grouped_quantize of=swiglu probs=1 dtype=f32 scaling=row copies=both" }
swiglu_bf16_tensor_both = { case = "grouped_quantize of=swiglu dtype=bf16 scaling=tensor copies=both align=16" }
gradient_bf16_e4m3_own = { case = "grouped_quantize of=swiglu_backward probs=1 dtype=bf16 format=e4m3fn copies=both own_rows=1" }
gradient_bf16_e5m2_own = { case = "grouped_quantize of=swiglu_backward probs=1 dtype=bf16 format=e5m2 copies=both own_rows=1" }
gradients_bf16_e4m3_own = { case = "grouped_quantize of=swiglu_backward probs=1 dprobs=1 dtype=bf16 format=e4m3fn copies=both own_rows=1" }
gradients_bf16_e5m2_own = { case = "grouped_quantize of=swiglu_backward probs=1 dprobs=1 dtype=bf16 format=e5m2 copies=both own_rows=1" }
gradients_bf16_e4m3_own_i64 = { case = "grouped_quantize of=swiglu_backward probs=1 dprobs=1 dtype=bf16 format=e4m3fn copies=both own_rows=1 offsets=i64" }
gradients_f16_e4m3_own_halves = { case = "grouped_quantize of=swiglu_backward probs=1 dprobs=1 dtype=f16 format=e4m3fn copies=both own_rows=1 cols=192" }
gradients_f32_e4m3_own = { case = "grouped_quantize of=swiglu_backward probs=1 dprobs=1 dtype=f32 format=e4m3fn copies=both own_rows=1" }
gradient_bf16_e4m3_own_i64 = { case = "grouped_quantize of=swiglu_backward probs=1 dtype=bf16 format=e4m3fn copies=both own_rows=1 offsets=i64" }
gradient_f16_e4m3_both = { case = "grouped_quantize of=swiglu_backward dtype=f16 format=e4m3fn copies=both" }
gradient_f32_e4m3_own = { case = "grouped_quantize of=swiglu_backward probs=1 dtype=f32 format=e4m3fn copies=both own_rows=1" }
gradient_f32_e5m2_both_stochastic = { case = "grouped_quantize of=swiglu_backward probs=1 dtype=f32 format=e5m2 copies=both rounding=stochastic" }
gradient_bf16_row_both = { case = "grouped_quantize of=swiglu_backward probs=1 dtype=bf16 scaling=row copies=both" }
gradient_f32_row_both = { case = "grouped_quantize of=swiglu_backward probs=1 dtype=f32 scaling=row copies=both" }
gradient_bf16_block_both = { case = "grouped_quantize of=swiglu_backward dtype=bf16 scaling=128x128 copies=both" }
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
# Of a matrix that x is both halves of.
[[value]]
name = "half"
expression = "of == 1 ? cols : of == 2 ? floor_div(cols, 2) : 0"
[[value]]
name = "tile_cols"
expression = "ceil_div(cols, 128)"
# Tiles of both gradients are made together where neither has columns of the other; as kTwins says, on GPUs where the
# inputs of a tile fit into a multiprocessor.
[[value]]
name = "twins"
expression = "of == 2 && x_bytes == 2 && cols % 256 == 0 && (scaling == 2 || scaling == 3) && rounding == 0"
# Bytes of a tile's inputs that are copied while the one before is worked at (kAhead).
[[value]]
name = "slots"
expression = "twins ? 98304 : of == 1 && x_bytes == 2 ? 65536 : 0"
[[needs]]
expression = "capacity <= 2147483647"
reason = "rows of groups and their padding are counted in 31 bits"
[[needs]]
expression = "sources <= 2147483647"
reason = "rows of x that are found by index are counted in 31 bits"
[[needs]]
expression = "ceil_div(capacity, 128) * tile_cols <= 2147483647"
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
when = "scaling == 0 && plain == 0"
[[clear]]
operand = "found"
bytes = "4"
when = "amax"
[[workspace]]
name = "largest"
bytes = "4 * group_scales"
zero = true
# Of the gradient of each row's factor, one of each tile of the first half of y.
[[workspace]]
name = "parts"
bytes = "4 * dprobs * rows * ceil_div(half, 128)"
[[struct]]
name = "parameters"
members = [
  { operand = "x" }, { i64 = "x_stride0" }, { operand = "index", when = "gather" }, { operand = "dy", when = "of == 2" }, { i64 = "dy_stride0", when = "of == 2" },
  { operand = "probs", when = "probs" }, { operand = "offsets" }, { operand = "padded" },
  { u32 = "rows" }, { u32 = "groups" }, { i64 = "align" }, { i64 = "half" }, { i64 = "sources" },
  { u32 = "x_align >= 16 && half * x_bytes % 16 == 0" }, { u32 = "dy_align >= 16", when = "of == 2" }, { workspace = "largest" },
  { workspace = "parts" }, { operand = "dprobs", when = "dprobs" },
  { operand = "q", when = "plain" }, { operand = "scale", when = "plain" },
  { operand = "q_t", when = "transposed" }, { operand = "scale_t", when = "transposed" }, { operand = "random", when = "rounding" },
  { i64 = "q_stride0", when = "plain" }, { i64 = "scale_stride0", when = "plain && scaling > 1" },
  { i64 = "q_t_stride0", when = "transposed" }, { i64 = "scale_t_stride0", when = "transposed && scaling > 0" },
  { i64 = "capacity" }, { i64 = "cols" }, { u32 = "twins && max_shared >= 115712 ? floor_div(tile_cols, 2) : tile_cols" }, { u32 = "scale" },
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
[[kernel]]
symbol = "ridge_grouped_quantize"
grid = ["max(min(ceil_div(capacity, 128) * tile_cols, slots > 0 && max_shared >= 115712 ? (rounding ? 1 : 2) * sm_count : 2147483647), 1)"]
block = [256]
shared = "max_shared >= 115712 ? slots : 0"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_grouped_quantize_dprobs"
grid = ["ceil_div(rows, 256)"]
block = [256]
when = "dprobs"
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../coding/elements.cuh"
#include "../gating/functions.cuh"
#include "row_groups.cuh"

namespace ridge::cuda {

enum class Of { kRows, kSwiglu, kSwigluBackward };  // GroupedQuantizeOf

// What the elements are made of.
struct Source {
  static constexpr Element kType = Element::RIDGE_TYPE_X, kInput = kType;
  static constexpr Of kOf = Of::RIDGE_OF;
  static constexpr bool kProbs = RIDGE_PROBS != 0, kDprobs = RIDGE_DPROBS != 0, kReadBefore = false;
  static constexpr bool kTwins = RIDGE_TWINS != 0 && kMuchShared;
  static constexpr bool kGradients = kOf == Of::kSwigluBackward, kHalves = kGradients && !kTwins;
  static constexpr u32 kInputs = kOf == Of::kRows ? 1 : kGradients ? 3 : 2;
  // Two blocks of a multiprocessor fit by their registers, and their inputs into its shared memory.
  static constexpr bool kAhead = kTwins || (kMuchShared && kOf == Of::kSwiglu && kType != Element::kF32);
  // Rows whose inputs are in registers at a time.
  static constexpr u32 kBatch = kType == Element::kF32 ? 1 : kHalves ? 2 : 4;
  static constexpr bool kGather = RIDGE_GATHER != 0;
  static constexpr u32 kNoRow = ~0u;
  static constexpr i64 kPartColumns = 128;  // of a tile
  static constexpr u32 kSums = 4;           // rows whose sums are in registers at a time
  using Pack = Packed<kType>;
  using Row = Pack::Row;

  StoredMatrix x;
  const u32* index;  // negative ones are beyond all rows
  StoredMatrix dy;
  const float* probs;
  RowGroups<RIDGE_WIDE_OFFSETS != 0> groups;
  i64 half;                 // columns of each of the halves of x
  i64 sources;              // rows of x that are found by index
  u32 aligned, aligned_dy;  // rows, and halves of them, start on 16 bytes
  u32* largest;             // magnitudes of columns of each group, [groups, columns]
  float* parts;             // of the gradients of factors, [tiles across a half, rows of m]
  float* dprobs;

  __device__ __forceinline__ StoredMatrix input(u32 which) const {
    if (which == 2) return dy;
    return {static_cast<const u8*>(x.data) + (which == 0 ? 0 : half * (4 / Pack::kPerWord)), x.stride};
  }
  __device__ __forceinline__ bool is_aligned(u32 which) const { return (which == 2 ? aligned_dy : aligned) != 0; }

  // Of eight rows of the padded matrix.
  struct EightRows {
    u32 first, end;  // where those of m begin, and where their group ends
    float factor;    // what one of them, by the lane, is multiplied with
    u32 source;      // with kGather: which row of x one of them is, by the lane
    bool all;        // with kGather: each of the eight is a row of x
  };
  __device__ __forceinline__ EightRows find_rows(i64, i64 row) const {
    const auto from = groups.rows_of(static_cast<u32>(row));
    EightRows at{from.first, from.end, 0.0f, kNoRow, false};
    const u32 mine = at.first + threadIdx.x % kSide;
    if (kProbs && mine < at.end) at.factor = __ldg(probs + mine);
    if constexpr (kGather) {
      if (mine < at.end) at.source = __ldg(index + mine);
      const u32 there = __ballot_sync(~0u, at.source < sources);
      at.all = (there >> (threadIdx.x % kWarpThreads / kSide * kSide) & 0xFFu) == 0xFFu;
    }
    return at;
  }
  // By whole warps: copies ahead ask for rows in branches.
  static_assert(!kGather || !kAhead);
  __device__ __forceinline__ i64 row_of(const EightRows& at, u32 i) const {
    if constexpr (kGather) return of_row(at.source, i);
    return static_cast<i64>(at.first) + i;
  }
  __device__ __forceinline__ i64 end_of(const EightRows& at, u32) const { return kGather ? sources : at.end; }
  __device__ __forceinline__ bool has_all(const EightRows& at) const {
    return kGather ? at.all : static_cast<i64>(at.first) + kSide <= at.end;
  }
  // By whole warps.
  __device__ __forceinline__ static float factor_of(const EightRows& at, u32 i) {
    return kProbs ? of_row(at.factor, i) : 1.0f;
  }

  __device__ __forceinline__ static void store(const float (&y)[kSide], Row& to) {
#pragma unroll
    for (u32 w = 0; w < Pack::kWords; ++w) {
      if constexpr (kType == Element::kF32) to[w] = __float_as_uint(y[w]);
      if constexpr (kType == Element::kBf16) to[w] = pack_bf16(y[2 * w], y[2 * w + 1]);
      if constexpr (kType == Element::kF16) to[w] = pack_f16(y[2 * w], y[2 * w + 1]);
    }
  }
  // Both gradients of an element, and its term in that of its row's factor.
  struct Gradients {
    float of_gate, of_up, of_factor;
  };
  __device__ __forceinline__ static Gradients gradients_of(float gate, float up, float dy, float factor) {
    const Value f = value_of<Function::kSilu>(gate, Limits{});
    const float scaled = kProbs ? dy * factor : dy;
    return {scaled * up * f.slope, scaled * f.f, dy * f.f * up};
  }
  // Writes what the tile has of the gradients of the factors of rows `first` .. `first` + kSums, from the sums of a
  // thread's eight columns; by whole warps, half of one for eight rows.
  __device__ __forceinline__ void write_parts(const EightRows& at, i64 col, u32 first, float (&sums)[kSums]) const {
#pragma unroll
    for (u32 reach = kSums / 2; reach > 0; reach /= 2) {  // the lane keeps half of its rows, and gives the others away
      const bool upper = (threadIdx.x & reach) != 0;
#pragma unroll
      for (u32 i = 0; i < reach; ++i) {
        const float kept = upper ? sums[i + reach] : sums[i], given = upper ? sums[i] : sums[i + reach];
        sums[i] = kept + __shfl_xor_sync(~0u, given, reach);
      }
    }
    float sum = sums[0];
#pragma unroll
    for (u32 reach = kSums; reach <= kSide; reach *= 2) sum += __shfl_xor_sync(~0u, sum, reach);
    const u32 lane = threadIdx.x % (2 * kSide), row = at.first + first + lane;
    const i64 tile = col / kPartColumns;
    if (lane < kSums && row < at.end && tile * kPartColumns < half) parts[tile * groups.rows + row] = sum;
  }
  // Of rows of gate, up and dy; where a row is none they are zeros, and 0 is made of them.
  __device__ __forceinline__ static void make_row(const Row& gate, const Row& up, const Row& dy, float factor,
                                                  const Under& under, Row& to, float& of_factor) {
    float y[kSide];
#pragma unroll
    for (u32 j = 0; j < kSide; ++j) {
      const float a = element_of<kType>(gate, j), b = element_of<kType>(up, j);
      if constexpr (kHalves) {
        const Gradients both = gradients_of(a, b, element_of<kType>(dy, j), factor);
        y[j] = j >= under.turn ? both.of_up : both.of_gate;
        if constexpr (kDprobs) of_factor += j >= under.turn ? 0.0f : both.of_factor;
      } else {
        y[j] = value_of<Function::kSilu>(a, Limits{}).f * b;
        if constexpr (kProbs) y[j] *= factor;
      }
    }
    store(y, to);
  }
  __device__ __forceinline__ static void make_twin_rows(const Row& gate, const Row& up, const Row& dy, float factor,
                                                        Row& of_gate, Row& of_up, float& of_factor) {
    float a[kSide], b[kSide];
#pragma unroll
    for (u32 j = 0; j < kSide; ++j) {
      const Gradients both =
          gradients_of(element_of<kType>(gate, j), element_of<kType>(up, j), element_of<kType>(dy, j), factor);
      a[j] = both.of_gate, b[j] = both.of_up;
      if constexpr (kDprobs) of_factor += both.of_factor;
    }
    store(a, of_gate), store(b, of_up);
  }
  template <class Read, class Keep>
  __device__ __forceinline__ void make_twins(const EightRows& at, i64 col, const Read& read, const Keep& keep,
                                             Pack::Square& to) const {
    float of_factors[kSums];
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) {
      Row gate, up, dy, of_up;
      read(0, i, gate), read(1, i, up), read(2, i, dy);
      of_factors[i % kSums] = 0;
      make_twin_rows(gate, up, dy, factor_of(at, i), to[i], of_up, of_factors[i % kSums]);
      keep(i, of_up);
      if (kDprobs && i % kSums == kSums - 1) write_parts(at, col, i + 1 - kSums, of_factors);
    }
  }
  template <class Read>
  __device__ __forceinline__ void make(const EightRows& at, i64 col, const Read& read, Pack::Square& to) const {
    if constexpr (kOf == Of::kRows) {
#pragma unroll
      for (u32 i = 0; i < kSide; ++i) read(0, i, to[i]);
      return;
    }
    const Under under = kHalves ? under_halves(col, half) : Under{col, kSide};
    float of_factors[kSums];
#pragma unroll
    for (u32 first = 0; first < kSide; first += kBatch) {
      Row a[kBatch], b[kBatch], c[kHalves ? kBatch : 1];
#pragma unroll
      for (u32 i = 0; i < kBatch; ++i) {
        read(0, first + i, a[i]), read(1, first + i, b[i]);
        if constexpr (kHalves) read(2, first + i, c[i]);
      }
#pragma unroll
      for (u32 i = 0; i < kBatch; ++i) {
        const u32 row = first + i;
        of_factors[row % kSums] = 0;
        make_row(a[i], b[i], c[kHalves ? i : 0], factor_of(at, row), under, to[row], of_factors[row % kSums]);
        if (kDprobs && row % kSums == kSums - 1) write_parts(at, col, row + 1 - kSums, of_factors);
      }
    }
  }
#if RIDGE_OWN_ROWS
  // A tile is of one group, of which `before` of its rows lie in front of these; or of none.
  __device__ __forceinline__ Lines lines(const EightRows& at, u32 before) const {
    return {at.end == 0 ? 0 : at.first - before, at.end};
  }
#endif
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

// What is made of rows takes registers beside the elements, whether its inputs are copied ahead or not.
constexpr u32 kBlocksOfSource = Source::kOf == Of::kRows || kStochastic ? kBlocks : 2;
constexpr u32 kLookingBlocks = Source::kOf == Of::kRows ? (kWide ? 2 : 3) : 2;

// Writes zeros to the rows of q that are of no group; a warp looks at every row of its own once.
__device__ __forceinline__ void write_rest(const GroupedQuantizeParameters& p) {
  const u32 rows = p.source.groups.rows;
  u32 row = blockIdx.x * kWarps + threadIdx.x / kWarpThreads;
  if (row >= rows) return;
  const auto inside = p.source.groups.rows_of_all();
  for (; row < rows; row += gridDim.x * kWarps) {
    if (row < inside.first || row >= inside.end) write_zeros(p.tile, row);
  }
}

__device__ __forceinline__ void grouped_quantize(const GroupedQuantizeParameters& p) {
  if (blockIdx.x == 0 && threadIdx.x < kGroupLanes) p.source.groups.write_padded();
  write_codes(p.source, p.tile);
  if constexpr (RIDGE_OWN_ROWS != 0) write_rest(p);
}

// Adds up the parts of the gradient of a row's factor; one thread has a row.
__device__ __forceinline__ void write_dprobs(const Source& source) {
  const u32 rows = source.groups.rows, row = blockIdx.x * kThreads + threadIdx.x;
  const auto inside = source.groups.rows_of_all();
  if (row >= rows) return;
  float sum = 0;
  if (row >= inside.first && row < inside.end) {
    const i64 tiles = (source.half + Source::kPartColumns - 1) / Source::kPartColumns;
#pragma unroll 8
    for (i64 tile = 0; tile < tiles; ++tile) sum += source.parts[tile * rows + row];
  }
  source.dprobs[row] = sum;
}

}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kBlocksOfSource)
    ridge_grouped_quantize(const ridge::cuda::GroupedQuantizeParameters p) {
  ridge::cuda::grouped_quantize(p);
}

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kLookingBlocks)
    ridge_grouped_quantize_amax(const ridge::cuda::GroupedQuantizeParameters p) {
  ridge::cuda::collect_largest(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256)
    ridge_grouped_quantize_scales(const ridge::cuda::GroupedQuantizeParameters p) {
  ridge::cuda::make_scales(p.tile, p.source);
}

#if RIDGE_DPROBS
extern "C" __global__ void __launch_bounds__(256)
    ridge_grouped_quantize_dprobs(const ridge::cuda::GroupedQuantizeParameters p) {
  ridge::cuda::write_dprobs(p.source);
}
#endif
