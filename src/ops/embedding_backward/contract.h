// embedding_backward: the gradient of a table of rows from those of the rows that were taken from it.
//
//   dw[v, :] = sum over the tokens t with ids[t] = v, in their order, of dy[t, :]          (+ dw[v, :] with accumulate)
//
// A row that no token names is 0, or stays with accumulate. Tokens whose id is padding_idx count for nothing, so that
// the row of that number is one of these.
//
// The ids are sorted inside of the call. Sorted ids as an operand would be two more passes over ids and places of each
// token, and the caller's sort would have to be a stable one for the same bits; here that is scratch memory of two
// numbers for each token and each row, which stays in a cache.
//
// Shapes    dy [tokens, cols]; ids [tokens]; dw [vocabulary, cols]. tokens from 0, vocabulary and cols from 1.
// Dtypes    dy one of f32, bf16, f16; ids i64 or i32; dw that of dy, or f32; f32 with accumulate.
// Layout    Columns are contiguous; rows may be any number of elements >= cols apart. Aliasing  dw overlaps nothing
//           else of the call.
// Numerics  Sums in fp32, one term after the other; dw is rounded once. With accumulate the sum is added to dw. A sum
//           of n terms may be off by 8 * 2^-24 sqrt(n) of their magnitudes.
// NaN, Inf  As the sums have them, in the rows that they are of.
// Same bits Always, whatever the number of threads.
// Cost      One addition for each element of dy. dy once, and dw once: with accumulate its rows that are named are read
//           and written, and the others not touched.
// Streams   As gemm's.
// Errors    kInvalidArgument: rank, dtype, shape, stride, null or overlapping memory, with the values. On a processor
//           an id that is neither padding_idx nor from 0 to vocabulary - 1: the error names token and value, and
//           nothing is written. On a GPU, where a call returns before it runs, such a token counts for nothing, and
//           nothing is read or written by it.
#pragma once

#include <cstdint>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {

struct EmbeddingBackwardArgs {
  TensorView dy;
  TensorView ids;
  TensorView dw;                  // written; with accumulate read, too
  std::int64_t padding_idx = -1;  // a scalar of the call; negative: none
  bool accumulate = false;
};

Status embedding_backward(const EmbeddingBackwardArgs& args, const Stream& stream);

namespace ops::embedding_backward {
using Args = EmbeddingBackwardArgs;  // what add_op generates the entry point from
}

}  // namespace ridge
