// A step of one element, in fp32, for kernels that change weights.
#pragma once
#include "../../device/cuda/kernel/ptx.cuh"

namespace ridge::cuda {

// Constants of adamw.h, as a launch plan gives them.
struct StepNumbers {
  float decay, first, kept, second, step, root, eps;
};

// In the order of row_model.cuh's operations or with fewer roundings, so that its bounds hold. `g`: the gradient with
// its sign and factor.
__device__ __forceinline__ void step_element(const StepNumbers& n, float g, float& weight, float& mean, float& square) {
  mean = fmaf(g - mean, n.first, mean);
  square = fmaf(square, n.kept, g * g * n.second);
  weight = fmaf(weight, n.decay, -(n.step * mean / fmaf(sqrtf(square), n.root, n.eps)));
}

}  // namespace ridge::cuda
