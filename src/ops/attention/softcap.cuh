// The softcap of attention's kernels, cap tanh(s / cap) of a score s. Their scores over the cap are tangents.
#pragma once

#include "../../device/cuda/kernel/ptx.cuh"

namespace ridge::cuda {

// tanh(x) of 2 log2(e) x, to some units of 2^-24: the instruction for it has 11 bits, and the contract counts a tangent
// as made of numbers near 1. Of infinities it is 1 and -1.
__device__ __forceinline__ float tangent_of_power(float power) {
  return fmaf(-2.0f, reciprocal(1.0f + exp2_approx(power)), 1.0f);
}

// The derivative of the tangent, from it; where masks have -infinity for it, 0.
__device__ __forceinline__ float slope_at(float tangent) {
  const float inside = fmaxf(tangent, -1.0f);
  return fmaf(-inside, inside, 1.0f);
}

}  // namespace ridge::cuda
