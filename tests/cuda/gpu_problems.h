// The cases that every operator is held to on a GPU, and how one of them is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda/stream.h"
#include "ops/harness.h"

namespace ridge::testing {

// The operator's own edge cases, and sizes around the tiles of its kernels.
std::vector<ops::Problem> gpu_problems(const ops::Operator& op);
// Runs a case in memory with guards around it and holds the results to the reference: what is wrong, or nothing. `ran`
// is left as it is where the implementation refuses the case. With `multiprocessors` in a share of them.
std::string check_on_gpu(const ops::Operator& op, const ops::Implementation& implementation, ops::Problem problem,
                         const Layout& layout, std::uint64_t seed, const device::cuda::Stream& stream, bool& ran,
                         int multiprocessors = 0);

}  // namespace ridge::testing
