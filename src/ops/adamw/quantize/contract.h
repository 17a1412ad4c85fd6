// adamw_quantize: a step of adamw for one weight matrix, and the new weight in 8-bit floats with scales, and of its
// transpose, in the same pass: what the layer's forward and its input gradient read next.
//
//   param, exp_avg, exp_avg_sq, master   as adamw leaves them (ops/adamw/contract.h)
//   w = master, or param where there is none, as it is stored
//   scale(g) = rule(max over the finite elements w of group g of |w|)     q = round(clamp(w / scale(g), +-fmax))
//
// so that w ~ q * scale; ridge/scaling.h says which elements are a group, how scales lie in memory, and the rules. The
// codes are those that quantize gives of the stored w, bit for bit: what a state dict brings back has the codes that it
// had, and with a master they are one rounding from fp32, never from param.
//
// Shapes    param, grad, exp_avg, exp_avg_sq, master [rows, cols]; factor, skip [1]; q [rows, cols] with `scale` along
//           the columns; q_t [cols, rows] is what quantising w^T gives, with its own scales `scale_t`. Either pair may
//           be left out (rank 0), not both; so may master, factor and skip. Any size from 0.
// Dtypes    adamw's; q and q_t e4m3fn (fmax 448) or e5m2 (fmax 57344); scales f32, for kMx E8M0.
// Layout    Columns are contiguous (stride 1); rows may be any number of elements >= cols apart, each operand's its
//           own. Aliasing  Nothing may overlap anything else.
// Skip      A skip that is not 0 leaves param, exp_avg, exp_avg_sq and master as they are, whatever the gradient holds.
//           Codes and scales are written all the same, of the weight as it is: they need no earlier call to be right.
// Numerics  The step as adamw's, its codes as quantize's of the stored w.
// Random    As quantize's. Given  As quantize's: `amax` is what the one scale is made of, `found` the largest |w|.
// NaN, Inf  As adamw's and, of w, as quantize's.
// Same bits Always, whatever the number of threads.
// Cost      About 16 FLOP per element, and 2 per element and copy; every input and output once. (Scales over a whole
//           tensor or row are known only at its end: w is read once more, unless `amax` is given.)
// Streams   As gemm's.
// Backward  None.
// Errors    kInvalidArgument: as adamw's and quantize's.
#pragma once

#include <cstdint>

#include "ops/adamw/contract.h"
#include "ridge/result.h"
#include "ridge/scaling.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct AdamwQuantizeArgs {
  AdamwArgs update;         // its tensors are matrices
  TensorView q, scale;      // written; rank 0: not wanted
  TensorView q_t, scale_t;  // written; rank 0: not wanted
  Granularity granularity = Granularity::kBlock;
  ScaleRule rule = ScaleRule::kExact;
  const std::uint64_t* random = nullptr;  // {seed, offset}; null: round to nearest even
  const float* amax = nullptr;            // what the scale is made of; null: w's own largest magnitude
  float* found = nullptr;                 // written where amax is given: w's own largest magnitude
};

Status adamw_quantize(const AdamwQuantizeArgs& args, const Stream& stream);

namespace ops::adamw_quantize {
using Args = AdamwQuantizeArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
