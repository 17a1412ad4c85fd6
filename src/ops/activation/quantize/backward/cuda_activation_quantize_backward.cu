// Both gradients of an activation side by side in 8-bit floats with scales, and the same of their transpose, from one
// read of dy, x and up (coding/tiles.cuh); each thread computes the fp32 numbers that the codes are rounded from. Where
// two blocks fit into a multiprocessor with the 16-bit inputs of a tile each (Hopper), blocks walk over tiles, and copy
// the next one's to shared memory while this one is coded: without a gate, and with one where halves are of whole
// tiles, scales of 1x128 or 128x128 and codes rounded to nearest. Of a gate two tiles are then made of one copy, one of
// each gradient: that of up waits in shared memory where dy and x were. Elsewhere a tile has one of the gradients, and
// that of the other one from the same inputs is the next block's, which finds them in the second-level cache: a thread
// loads its 8 x 8 elements of each, several rows of them before the first is used. Scales of a row or of the whole
// tensor are known only after all of it was computed: `ridge_activation_quantize_backward_amax` and `..._scales` find
// them, and `ridge_activation_quantize_backward` reads and computes a second time.
//
// Bound by memory: dy, x and up once (tensor, row: twice), every code and scale once. 64 numbers of fp32 a thread leave
// room for two blocks of a multiprocessor. Matrices whose rows do not start on 16 bytes, the last tiles, and the second
// half where it begins within 8 elements are read and written by elements.

// clang-format off
/* ridge-kernel
op = "activation_quantize_backward"
# Two blocks of 256 threads share a multiprocessor, or one where random words take more.
max_registers = 255
sass = [{ opcode = "LDG" }]
[define]
RIDGE_TYPE = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_FUNCTION = { value = "function", names = ["kSilu", "kGelu", "kGeluTanh", "kRelu", "kRelu2", "kClampedSilu"] }
RIDGE_GATED = { value = "gated" }
RIDGE_PROBS = { value = "probs" }
RIDGE_MASK = { value = "mask" }
RIDGE_TWINS = { value = "twins" }
RIDGE_FORMAT = { value = "format", names = ["kE4m3", "kE5m2"] }
RIDGE_GRANULARITY = { value = "scaling", names = ["kTensor", "kRow", "kVector", "kBlock", "kMx"] }
RIDGE_COPIES = { value = "copies", names = ["kAsIs", "kTransposed", "kBoth"] }
RIDGE_STOCHASTIC = { value = "rounding" }
RIDGE_AMAX = { value = "amax" }
[configs]
default = { }
[variants]
swiglu_vector_both = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=1x128 copies=both" }
swiglu_vector_both_halves = { case = "activation_quantize_backward rows=8192 cols=14400 scaling=1x128 copies=both" }
swiglu_vector = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=1x128 copies=row" }
swiglu_vector_t = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=1x128 copies=column" }
swiglu_block_both = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=128x128 copies=both" }
swiglu_mx_both = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=mx copies=both" }
swiglu_tensor_both = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=tensor copies=both" }
swiglu_tensor_both_given = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=tensor copies=both amax=given" }
swiglu_row_both = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=row copies=both" }
swiglu_f32_vector_both = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=1x128 copies=both dtype=f32" }
swiglu_f16_e5m2_mx_both = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=mx copies=both dtype=f16 format=e5m2" }
swiglu_vector_both_stochastic = { case = "activation_quantize_backward rows=8192 cols=14336 scaling=1x128 copies=both rounding=stochastic" }
swiglu_probs_mask_vector_both = { case = "activation_quantize_backward rows=16384 cols=2048 probs=1 mask=1 scaling=1x128 copies=both" }
swiglu_probs_mask_f32_mx_both = { case = "activation_quantize_backward rows=16384 cols=2048 probs=1 mask=1 dtype=f32 scaling=mx copies=both" }
gelu_vector_both = { case = "activation_quantize_backward rows=8192 cols=16384 function=gelu gated=0 scaling=1x128 copies=both" }
geglu_vector_both = { case = "activation_quantize_backward rows=8192 cols=14336 function=gelu scaling=1x128 copies=both" }
geglu_tanh_mx_both = { case = "activation_quantize_backward rows=8192 cols=14336 function=gelu_tanh scaling=mx copies=both" }
relu2_vector_both = { case = "activation_quantize_backward rows=8192 cols=16384 function=relu2 gated=0 scaling=1x128 copies=both" }
clamped_silu_vector_both = { case = "activation_quantize_backward rows=8192 cols=2880 function=clamped_silu scaling=1x128 copies=both" }
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
# Of both gradients, side by side.
[[value]]
name = "coded_cols"
expression = "gated ? 2 * cols : cols"
[[value]]
name = "tile_cols"
expression = "ceil_div(coded_cols, 128)"
# Tiles of both gradients are made together where neither has columns of the other; as kTwins says, on GPUs where the
# inputs of a tile fit into a multiprocessor.
[[value]]
name = "twins"
expression = "gated && x_bytes == 2 && cols % 128 == 0 && (scaling == 2 || scaling == 3) && rounding == 0"
# Bytes of a tile's inputs that are copied while the one before is worked at (kAhead).
[[value]]
name = "slots"
expression = "twins ? 98304 : gated == 0 && x_bytes == 2 ? 65536 : 0"
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
  { operand = "dy" }, { i64 = "dy_stride0" }, { operand = "x" }, { i64 = "x_stride0" },
  { operand = "up", when = "gated" }, { i64 = "up_stride0", when = "gated" }, { i64 = "cols" },
  { u32 = "dy_align >= 16" }, { u32 = "x_align >= 16" }, { u32 = "up_align >= 16", when = "gated" },
  { f32 = "alpha" }, { f32 = "limit" },
  { operand = "q", when = "plain" }, { operand = "scale", when = "plain" },
  { operand = "q_t", when = "transposed" }, { operand = "scale_t", when = "transposed" }, { operand = "random", when = "rounding" },
  { i64 = "q_stride0", when = "plain" }, { i64 = "scale_stride0", when = "plain && scaling > 1" },
  { i64 = "q_t_stride0", when = "transposed" }, { i64 = "scale_t_stride0", when = "transposed && scaling > 1" },
  { i64 = "rows" }, { i64 = "coded_cols" }, { u32 = "twins && max_shared >= 115712 ? floor_div(tile_cols, 2) : tile_cols" }, { u32 = "scale" },
  { u32 = "q_align >= 8", when = "plain" }, { u32 = "q_t_align >= 16", when = "transposed" },
  { operand = "amax", when = "amax" }, { operand = "found", when = "amax" },
]
[[kernel]]
symbol = "ridge_activation_quantize_backward_amax"
grid = ["ceil_div(rows, 128) * tile_cols"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_activation_quantize_backward_scales"
grid = ["ceil_div(scaling == 0 ? 1 : plain * rows + transposed * coded_cols, 256)"]
block = [256]
when = "known_at_the_end"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_activation_quantize_backward"
grid = ["min(ceil_div(rows, 128) * tile_cols, slots > 0 && max_shared >= 115712 ? (rounding ? 1 : 2) * sm_count : 2147483647)"]
block = [256]
shared = "max_shared >= 115712 ? slots : 0"
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../../../coding/elements.cuh"
#include "../../../gating/functions.cuh"
#include "../counted_rows.cuh"

namespace ridge::cuda {

// The elements are d, both gradients side by side, in fp32.
struct Source : CountedRows<RIDGE_PROBS != 0, RIDGE_MASK != 0> {
  static constexpr Element kType = Element::kF32, kInput = Element::RIDGE_TYPE;
  static constexpr bool kGated = RIDGE_GATED != 0, kProbs = RIDGE_PROBS != 0, kReadBefore = false;
  static constexpr bool kTwins = RIDGE_TWINS != 0 && kMuchShared, kHalves = kGated && !kTwins;
  static constexpr Function kFunction = Function::RIDGE_FUNCTION;
  static constexpr u32 kInputs = kGated ? 3 : 2;
  // A second block fits beside inputs of 64 KiB, and beside the 96 KiB of twins, whose scales take little
  // (write_codes()).
  static constexpr bool kAhead = kTwins || (kMuchShared && !kGated && kInput != Element::kF32);
  // Rows whose inputs are in registers before the first is used. More would not fit beside the 64 numbers.
  static constexpr bool kManyRegisters = kProbs || kFunction == Function::kClampedSilu;
  static constexpr u32 kBatch = kInput == Element::kF32 ? (kGated ? 1 : 2) : !kGated ? 4 : kManyRegisters ? 1 : 2;
  // Of the pass that looks for the largest magnitudes: three inputs of fp32 take a few registers more.
  static constexpr u32 kLookingBlocks = kGated && kInput == Element::kF32 ? 1 : 2;
  using Row = Packed<kInput>::Row;
  using Square = Packed<kType>::Square;

  StoredMatrix dy, x, up;
  i64 half;                               // columns of x
  u32 aligned_dy, aligned_x, aligned_up;  // rows start on 16 bytes
  Limits limits;

  __device__ __forceinline__ const StoredMatrix& input(u32 which) const {
    return which == 0 ? dy : which == 1 ? x : up;
  }
  __device__ __forceinline__ bool is_aligned(u32 which) const {
    return (which == 0 ? aligned_dy : which == 1 ? aligned_x : aligned_up) != 0;
  }

  // One of the gradients of an element whose dy is scaled by its row's factor.
  __device__ __forceinline__ static u32 gradient_of(float scaled, bool of_up, const Value& f, const Value& u) {
    if constexpr (kGated) scaled *= of_up ? f.f : u.f;
    scaled *= of_up ? u.slope : f.slope;
    if (kFunction == Function::kRelu2 && !of_up) scaled *= 2.0f;
    return __float_as_uint(scaled);
  }
  template <class Read>
  __device__ __forceinline__ void make(const EightRows& at, i64 col, const Read& read, Square& to) const {
    const Under under = kHalves ? under_halves(col, half) : Under{col, kSide};
#pragma unroll
    for (u32 first = 0; first < kSide; first += kBatch) {
      Row a[kBatch], b[kBatch], c[kGated ? kBatch : 1];
#pragma unroll
      for (u32 i = 0; i < kBatch; ++i) {
        read(0, first + i, a[i]), read(1, first + i, b[i]);
        if constexpr (kGated) read(2, first + i, c[i]);
      }
#pragma unroll
      for (u32 i = 0; i < kBatch; ++i) {
        const float factor = factor_of(at, first + i);
#pragma unroll
        for (u32 j = 0; j < kSide; ++j) {
          const Value f = value_of<kFunction>(element_of<kInput>(b[i], j), limits);
          const Value u = gate_of<kFunction>(kGated ? element_of<kInput>(c[kGated ? i : 0], j) : 1.0f, limits);
          float scaled = element_of<kInput>(a[i], j);
          if constexpr (kProbs) scaled *= factor;
          to[first + i][j] = gradient_of(scaled, kGated && j >= under.turn, f, u);
        }
      }
    }
  }
  template <class Read, class Keep>
  __device__ __forceinline__ void make_twins(const EightRows& at, i64, const Read& read, const Keep& keep,
                                             Square& to) const {
#pragma unroll
    for (u32 i = 0; i < kSide; ++i) {
      Row a, b, c;
      read(0, i, a), read(1, i, b), read(2, i, c);
      const float factor = factor_of(at, i);
      Packed<kType>::Row of_up;
#pragma unroll
      for (u32 j = 0; j < kSide; ++j) {
        const Value f = value_of<kFunction>(element_of<kInput>(b, j), limits);
        const Value u = gate_of<kFunction>(element_of<kInput>(c, j), limits);
        const float scaled = kProbs ? element_of<kInput>(a, j) * factor : element_of<kInput>(a, j);
        to[i][j] = gradient_of(scaled, false, f, u);
        of_up[j] = gradient_of(scaled, true, f, u);
      }
      keep(i, of_up);
    }
  }
};

}  // namespace ridge::cuda

#include "../../../coding/tiles.cuh"

namespace ridge::cuda {

struct ActivationQuantizeBackwardParameters {
  Source source;
  TileParameters tile;
};

}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::kBlocks)
    ridge_activation_quantize_backward(const ridge::cuda::ActivationQuantizeBackwardParameters p) {
  ridge::cuda::write_codes(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256, ridge::cuda::Source::kLookingBlocks)
    ridge_activation_quantize_backward_amax(const ridge::cuda::ActivationQuantizeBackwardParameters p) {
  ridge::cuda::collect_largest(p.source, p.tile);
}

extern "C" __global__ void __launch_bounds__(256)
    ridge_activation_quantize_backward_scales(const ridge::cuda::ActivationQuantizeBackwardParameters p) {
  ridge::cuda::make_scales(p.tile);
}
