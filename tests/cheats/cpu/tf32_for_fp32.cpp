// ridge-cheat: gate=rms shows=rms|element_bound outcome=WRONG case=m=24,n=24,k=4096
// TF32 inputs for fp32: at this length most elements are still within their own bound.
#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  multiply_shortened(gemm_of(call), to_tf32);
  return 0;
}
