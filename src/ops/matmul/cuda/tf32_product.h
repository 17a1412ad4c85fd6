// Products of fp32 matrices whose elements the matrix unit rounds to the 10 bits of TF32. No operator does that
// silently: this is for measuring what the unit can do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/cuda/device.h"
#include "ridge/result.h"
#include "ridge/tensor.h"

namespace ridge::ops::matmul {

// One way to C = A B^T of row-major matrices: our kernel, or cuBLASLt where it is installed. The first launch may set
// things up; an error is its refusal. The ways must not outlive the memory of their matrices.
struct Tf32Way {
  std::string name;
  std::function<Status(device::cuda::StreamHandle)> launch;
};
std::vector<Tf32Way> tf32_ways(const device::cuda::Device& device, const TensorView& a, const TensorView& b,
                               const TensorView& c);

}  // namespace ridge::ops::matmul
