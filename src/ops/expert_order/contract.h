// expert_order: the choices of a router sorted by expert, which is what moves the rows of a mixture of experts: where
// the rows of each expert begin, which choice each sorted row is, and which sorted row each choice is.
//
//   A choice is a place t * top + k of experts[t, k]. Those of one expert follow on each other in the order of their
//   places, those of expert e from row offsets[e] on; offsets[e + 1] is offsets[e] and their number, rounded up to a
//   multiple of `align`.
//
//   choices[r] = t * top + k  and  tokens[r] = t  of the choice in sorted row r; -1 where there is none: behind the
//                             rows of an expert, up to a multiple of `align`, and behind the last expert
//   rows[t, k] = r            and -1 where experts[t, k] is none: negative, or from `experts` on
//
// tokens and rows are what combine_rows takes as `from`, to the experts and back; offsets what grouped_gemm takes.
//
// Shapes    experts and rows [tokens, top]; offsets [experts + 1]; tokens and choices [places], places being
//           tokens * top + experts * (align - 1) rounded down to a multiple of align: as many as there can be. tokens
//           from 0; experts from 1 to 4096; top from 1; align from 1 to 1024. places is below 2^31.
// Dtypes    i32.
// Layout    Columns of matrices are contiguous; rows may be any number of elements apart, at least as many as they
//           have. Vectors are contiguous. Aliasing: an output overlaps nothing else of the call.
// Numerics  Whole numbers: there is one right result.
// Same bits Always, whatever the number of threads.
// Cost      One operation for each choice. experts once, every output once.
// Streams   As gemm's. Nothing is read by the host.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, an align that is none, with the
//           values.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct ExpertOrderArgs {
  TensorView experts;
  TensorView offsets;  // written, as are the others
  TensorView tokens;
  TensorView rows;
  TensorView choices;
  std::int64_t align = 1;
};

Status expert_order(const ExpertOrderArgs& args, const Stream& stream);

namespace ops::expert_order {
using Args = ExpertOrderArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
