// The activation of a matrix in 8-bit floats with scales, and the same of its transpose, from one read of its inputs
// (coding/tiles.cuh). A block walks over tiles: each thread copies the 8 x 8 elements of x and of up that it will need
// for the next tile into shared memory while this tile is coded, and computes the fp32 numbers that codes are rounded
// from as it reads them. Two inputs of fp32 would leave room for one block of a multiprocessor: a block loads those of
// one tile. Scales of a row or of the whole tensor are known only after all of it was computed:
// `ridge_activation_quantize_amax` and `ridge_activation_quantize_scales` find them, and `ridge_activation_quantize`
// reads and computes a second time.
//
// Bound by memory: x and up once (tensor, row: twice), every code and scale once; and nearly by instructions, of which
// SwiGLU takes 16 of 30 an element. 64 numbers of fp32 a thread leave room for two blocks of a multiprocessor. Matrices
// whose rows do not start on 16 bytes, and the last tiles, are read and written by elements.

// clang-format off
/* ridge-kernel
op = "activation_quantize"
# Two blocks of 256 threads share a multiprocessor, or one where random words take more.
max_registers = 255
sass = [{ opcode = "LDG" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_FUNCTION = { value = "function", names = ["kSilu", "kGelu", "kGeluTanh", "kRelu", "kRelu2", "kClampedSilu"] }
RIDGE_GATED = { value = "gated" }
RIDGE_PROBS = { value = "probs" }
RIDGE_MASK = { value = "mask" }
RIDGE_FORMAT = { value = "format", names = ["kE4m3", "kE5m2"] }
RIDGE_GRANULARITY = { value = "scaling", names = ["kTensor", "kRow", "kVector", "kBlock", "kMx"] }
RIDGE_COPIES = { value = "copies", names = ["kAsIs", "kTransposed", "kBoth"] }
RIDGE_STOCHASTIC = { value = "rounding" }
RIDGE_AMAX = { value = "amax" }
[configs]
default = { }
[variants]
swiglu_vector_both = { case = "activation_quantize rows=8192 cols=14336 scaling=1x128 copies=both" }
swiglu_vector = { case = "activation_quantize rows=8192 cols=14336 scaling=1x128 copies=row" }
swiglu_vector_t = { case = "activation_quantize rows=8192 cols=14336 scaling=1x128 copies=column" }
swiglu_block_both = { case = "activation_quantize rows=8192 cols=14336 scaling=128x128 copies=both" }
swiglu_mx_both = { case = "activation_quantize rows=8192 cols=14336 scaling=mx copies=both" }
swiglu_tensor_both = { case = "activation_quantize rows=8192 cols=14336 scaling=tensor copies=both" }
swiglu_tensor_both_given = { case = "activation_quantize rows=8192 cols=14336 scaling=tensor copies=both amax=given" }
swiglu_row_both = { case = "activation_quantize rows=8192 cols=14336 scaling=row copies=both" }
swiglu_f32_vector_both = { case = "activation_quantize rows=8192 cols=14336 scaling=1x128 copies=both dtype=f32" }
swiglu_f16_e5m2_mx_both = { case = "activation_quantize rows=8192 cols=14336 scaling=mx copies=both dtype=f16 format=e5m2" }
swiglu_vector_both_stochastic = { case = "activation_quantize rows=8192 cols=14336 scaling=1x128 copies=both rounding=stochastic" }
swiglu_f32_vector_both_stochastic = { case = "activation_quantize rows=8192 cols=14336 scaling=1x128 copies=both dtype=f32 format=e5m2 rounding=stochastic" }
swiglu_probs_mask_vector_both = { case = "activation_quantize rows=16384 cols=2048 probs=1 mask=1 scaling=1x128 copies=both" }
swiglu_probs_mask_f32_mx_both = { case = "activation_quantize rows=16384 cols=2048 probs=1 mask=1 dtype=f32 scaling=mx copies=both" }
gelu_vector_both = { case = "activation_quantize rows=8192 cols=16384 function=gelu gated=0 scaling=1x128 copies=both" }
geglu_vector_both = { case = "activation_quantize rows=8192 cols=14336 function=gelu scaling=1x128 copies=both" }
geglu_tanh_mx_both = { case = "activation_quantize rows=8192 cols=14336 function=gelu_tanh scaling=mx copies=both" }
relu2_vector_both = { case = "activation_quantize rows=8192 cols=16384 function=relu2 gated=0 scaling=1x128 copies=both" }
reglu_block_both = { case = "activation_quantize rows=8192 cols=14336 function=relu scaling=128x128 copies=both" }
clamped_silu_vector_both = { case = "activation_quantize rows=8192 cols=2880 function=clamped_silu scaling=1x128 copies=both" }
silu_f32_tensor_given = { case = "activation_quantize rows=8192 cols=16384 gated=0 dtype=f32 scaling=tensor amax=given" }
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
# Bytes of a tile's inputs, which are copied ahead where they leave room for two blocks of a multiprocessor (kAhead).
[[value]]
name = "slots"
expression = "gated && x_bytes == 4 ? 0 : 16384 * x_bytes * (1 + gated)"
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
  { operand = "probs", when = "probs" }, { operand = "mask", when = "mask" },
  { operand = "x" }, { i64 = "x_stride0" }, { operand = "up", when = "gated" }, { i64 = "up_stride0", when = "gated" },
  { u32 = "x_align >= 16" }, { u32 = "up_align >= 16", when = "gated" }, { f32 = "alpha" }, { f32 = "limit" },
  { operand = "q", when = "plain" }, { operand = "scale", when = "plain" },
  { operand = "q_t", when = "transposed" }, { operand = "scale_t", when = "transposed" }, { operand = "random", when = "rounding" },
  { i64 = "q_stride0", when = "plain" }, { i64 = "scale_stride0", when = "plain && scaling > 1" },
  { i64 = "q_t_stride0", when = "transposed" }, { i64 = "scale_t_stride0", when = "transposed && scaling > 1" },
  { i64 = "rows" }, { i64 = "cols" }, { u32 = "tile_cols" }, { u32 = "scale" },
  { u32 = "q_align >= 8", when = "plain" }, { u32 = "q_t_align >= 16", when = "transposed" },
  { operand = "amax", when = "amax" }, { operand = "found", when = "amax" },
]
[[kernel]]
symbol = "ridge_activation_quantize_amax"
grid = ["ceil_div(rows, 128) * tile_cols"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_activation_quantize_scales"
grid = ["ceil_div(scaling == 0 ? 1 : plain * rows + transposed * cols, 256)"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_activation_quantize"
grid = ["min(ceil_div(rows, 128) * tile_cols, slots > 0 && max_shared >= 115712 ? (rounding ? 1 : 2) * sm_count : 2147483647)"]
block = [256]
shared = "max_shared >= 115712 ? slots : 0"
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../../coding/elements.cuh"
#include "../../gating/functions.cuh"
#include "counted_rows.cuh"

namespace ridge::cuda {

// The elements are y, in fp32.
struct Source : CountedRows<RIDGE_PROBS != 0, RIDGE_MASK != 0> {
  static constexpr Element kType = Element::kF32, kInput = Element::RIDGE_TYPE;
  static constexpr bool kReadBefore = false, kHalves = false;
  static constexpr Function kFunction = Function::RIDGE_FUNCTION;
  static constexpr bool kGated = RIDGE_GATED != 0, kProbs = RIDGE_PROBS != 0;
  static constexpr u32 kInputs = kGated ? 2 : 1;
  // Inputs of more than 64 KiB would leave no room for a second block.
  static constexpr bool kAhead = kMuchShared && kInputs * kSide * kSlotBytes<kInput> <= 65536;
  // Rows whose inputs are in registers at a time: 64 words at most.
  static constexpr u32 kBatch = kGated && kInput == Element::kF32 ? 2 : kSide;
  using Input = Packed<kInput>::Row;

  StoredMatrix x, up;
  u32 aligned_x, aligned_up;  // rows start on 16 bytes
  Limits limits;

  __device__ __forceinline__ const StoredMatrix& input(u32 which) const { return which == 0 ? x : up; }
  __device__ __forceinline__ bool is_aligned(u32 which) const { return (which == 0 ? aligned_x : aligned_up) != 0; }

  template <class Read>
  __device__ __forceinline__ void make(const EightRows& at, i64, const Read& read, Packed<kType>::Square& to) const {
#pragma unroll
    for (u32 first = 0; first < kSide; first += kBatch) {
      Input a[kBatch], b[kGated ? kBatch : 1];
#pragma unroll
      for (u32 i = 0; i < kBatch; ++i) {
        read(0, first + i, a[i]);
        if constexpr (kGated) read(1, first + i, b[i]);
      }
#pragma unroll
      for (u32 i = 0; i < kBatch; ++i) {
        const float factor = factor_of(at, first + i);
#pragma unroll
        for (u32 j = 0; j < kSide; ++j) {
          float y = value_of<kFunction>(element_of<kInput>(a[i], j), limits).f;
          if constexpr (kGated) y *= gate_of<kFunction>(element_of<kInput>(b[i], j), limits).f;
          if constexpr (kProbs) y *= factor;
          to[first + i][j] = __float_as_uint(y);
        }
      }
    }
  }
};

}  // namespace ridge::cuda

#include "../../coding/tiles.cuh"

namespace ridge::cuda {

struct ActivationQuantizeParameters {
  Source source;
  TileParameters tile;
};

}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kBlocks)
    ridge_activation_quantize(const ridge::cuda::ActivationQuantizeParameters p) {
  ridge::cuda::write_codes(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256, 2)
    ridge_activation_quantize_amax(const ridge::cuda::ActivationQuantizeParameters p) {
  ridge::cuda::collect_largest(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256)
    ridge_activation_quantize_scales(const ridge::cuda::ActivationQuantizeParameters p) {
  ridge::cuda::make_scales(p.tile);
}
