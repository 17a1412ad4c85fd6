// Grouped products of 8-bit floats on Hopper's matrix units (cuda_groups_fp8.cu), without a copy of the offsets to the
// host.
#include "ops/cuda/cuda_kernel.h"
#include "ops/grouped_gemm_fp8/grouped_gemm_fp8.h"
#include "ops/matmul/cuda/calls.h"

namespace ridge::ops::grouped_gemm_fp8 {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/grouped_gemm_fp8/cuda_groups_fp8.cu");
  return described;
}

// With scales of blocks the fastest of all forward and within 2 % along sums on an H100, whatever the load
// (bench/results/nvidia-h100-80gb-hbm3/grouped-fp8-configs.csv).
std::string_view prefers(const Problem&) { return "promote_128x256"; }

}  // namespace

Implementation cuda_groups_fp8() {
  return configured_cuda_kernel("cuda_groups_fp8",
                                "own kernel on Hopper's matrix units, persistent over the tiles of all groups", kernel,
                                matmul::no_wgmma, prefers);
}

}  // namespace ridge::ops::grouped_gemm_fp8
