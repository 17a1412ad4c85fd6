// C[m,n] = A[m,k] * B[n,k]^T in bf16 with fp32 sums on Hopper's matrix units: Ridgeline's own kernel, which comes with
// the candidate; what can be varied about it, and how it is launched, is declared there. A campaign starts from a tile
// of 128 x 128 without clusters; which tile, cluster, schedule and walk are fastest depends on the shapes.

// clang-format off
/* ridge-campaign
op = "gemm"
cases = [
  "m=1024 n=4096 k=4096 dtype=bf16 layout=nt",
  "m=1024 n=6144 k=4096 dtype=bf16 layout=nt",
  "m=1024 n=2112 k=7168 dtype=bf16 layout=nt",
  "m=2048 n=4096 k=4096 dtype=bf16 layout=nt",
]
fixed = ["RIDGE_INSTRUCTION_N", "RIDGE_PARTS"]
*/
/* ridge-launch
[[needs]]
expression = "type_a == 0 && type_c == 0 && a_mn_major == 0 && b_mn_major == 0 && accumulate == 0 && bias == 0 && activation == 0 && residual == 0 && direct_store == 0"
reason = "this build is of the plain product of bf16 in layout nt whose rows of C start on 16 bytes"
*/
// clang-format on

#include "ops/matmul/cuda_wgmma.cu"
