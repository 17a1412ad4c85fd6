// Rows in the registers of a part of a warp, chosen from by its largest ranks (cuda_route.cu). Any stride and
// alignment; rows that start on 16 bytes and are whole multiples of them are loaded in chunks.
#include "ops/cuda/cuda_kernel.h"
#include "ops/route/route.h"

namespace ridge::ops::route {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/route/cuda_route.cu");
  return described;
}

}  // namespace

Implementation cuda_route() {
  return configured_cuda_kernel("cuda_route", "a part of a warp for each row: ranks in registers, scores in fp64",
                                kernel, no_bf16_conversions);
}

}  // namespace ridge::ops::route
