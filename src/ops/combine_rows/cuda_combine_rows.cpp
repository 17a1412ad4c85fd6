// Sources from memory into registers, a row of y from there (cuda_combine_rows.cu). Any stride and alignment; slower
// where rows of x or y do not start on 16 bytes.
#include "ops/combine_rows/combine_rows.h"
#include "ops/cuda/cuda_kernel.h"

namespace ridge::ops::combine_rows {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/combine_rows/cuda_combine_rows.cu");
  return described;
}

}  // namespace

Implementation cuda_combine_rows() {
  return configured_cuda_kernel("cuda_combine_rows", "sources of a row side by side in registers, added up in order",
                                kernel, no_bf16_conversions);
}

}  // namespace ridge::ops::combine_rows
