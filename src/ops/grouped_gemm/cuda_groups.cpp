// Grouped products on Hopper's matrix units (cuda_groups.cu), without a copy of the offsets to the host.
#include "ops/cuda/cuda_kernel.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/cuda/calls.h"

namespace ridge::ops::grouped_gemm {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/grouped_gemm/cuda_groups.cu");
  return described;
}

// On an H100 (bench/results/nvidia-h100-80gb-hbm3/grouped.csv): along sums turns at whole tiles hide what is stored,
// along rows two blocks that share columns of B lose the least on skewed loads, but for groups of two tiles or fewer,
// where each is better off alone (a campaign's record has 1.15 to 1.16 at 64 groups of 256 rows).
// Rows that are found by index are found in the load, but along sums, where every stage has rows of its own, and where
// so many tiles read each row that a copy costs less (H200, bench/results/nvidia-h200/grouped-gathered.csv).
// Where SwiGLU is made of sums, or its gradients, turns at whole tiles hide that (grouped-swiglu.csv there); threads
// that find rows in the load do not keep up with them.
std::string_view prefers(const Problem& problem) {
  const Shape s = shape_of(problem);
  if (s.epilogue == kSwigluBackward) return "pp_128x128_g16";
  if (s.epilogue == kSwiglu && s.gather == kNone) return "pp_128x128";
  if (s.epilogue == kSwiglu) return s.n > 8192 ? "copied_128x128" : "block_n256_slab_buffers2";
  if (s.along_sums) return s.gather == kNone ? "pp_128x192" : "copied_128x192";
  if (s.gather != kNone && s.n > 8192) return "copied_128x256_m2";
  return s.rows <= 256 * s.groups ? "block_n256_slab_buffers2" : "coop_128x256_m2";
}

}  // namespace

Implementation cuda_groups() {
  return configured_cuda_kernel("cuda_groups",
                                "own kernel on Hopper's matrix units, persistent over the tiles of all groups", kernel,
                                matmul::no_wgmma, prefers);
}

}  // namespace ridge::ops::grouped_gemm
