// C[m,n] = A[m,k] * B[n,k]^T of 8-bit floats (E4M3) with scales, A's per 1 x 128 and B's per 128 x 128, C in bf16:
// Ridgeline's own kernel, which comes with the candidate; what can be varied about it, and how it is launched, is
// declared there. Sums of 128 products move from the matrix unit to fp32 registers, so the tile shares the register
// file with a second set of sums: how the two are cut is what decides.

// clang-format off
/* ridge-campaign
op = "gemm_fp8"
cases = [
  "m=1024 n=4096 k=4096 scaling=block",
  "m=1024 n=6144 k=4096 scaling=block",
  "m=1024 n=2112 k=7168 scaling=block",
  "m=2048 n=4096 k=4096 scaling=block",
]
start = { RIDGE_INSTRUCTION_N = 128 }
fixed = ["RIDGE_PINGPONG", "RIDGE_SPLIT_K"]
*/
/* ridge-launch
[[needs]]
expression = "type_a == 3 && type_b == 3 && type_c == 0 && a_mn_major == 0 && b_mn_major == 0 && accumulate == 0 && scales == 3 && direct_store == 0"
reason = "this build is of e4m3fn in layout nt with block scales and promoted sums, and rows of a bf16 C that start on 16 bytes"
*/
// clang-format on

#define RIDGE_TYPE_A kE4m3
#define RIDGE_TYPE_B kE4m3
#define RIDGE_SCALING kBlock

#include "ops/matmul/cuda_wgmma.cu"
