// Implementations that are a described kernel for GPUs and nothing else.
#pragma once

#include <string>
#include <string_view>

#include "ops/described_kernel.h"
#include "ops/op.h"

namespace ridge::ops {

// The name of the configuration that a problem runs best in, as far as measurements tell.
using Prefers = std::string_view (*)(const Problem&);

// Takes what the needs of the kernel's launch plan allow on GPUs that `refuses` lets through, and runs the
// configuration that a problem names where it fits, else the one that `prefers` names, else the first that does. A call
// whose outputs have no element does nothing. `kernel` answers the same object whenever it is asked.
Implementation cuda_kernel(std::string name, std::string summary, const DescribedKernel& (*kernel)(),
                           Refusal (*refuses)(const DeviceInfo&), Prefers prefers = nullptr);
// The same of a kernel whose configurations a tuned table may name, and that gives equal calls equal bits.
Implementation configured_cuda_kernel(std::string name, std::string summary, const DescribedKernel& (*kernel)(),
                                      Refusal (*refuses)(const DeviceInfo&), Prefers prefers = nullptr);

// Why a GPU cannot convert 8-bit floats: that came with Ada.
Refusal no_eight_bit_floats(const DeviceInfo& device);
// Why a GPU has no conversions to bf16: those came with Ampere.
Refusal no_bf16_conversions(const DeviceInfo& device);
// Why a GPU has no bulk copies to shared memory: those came with Hopper.
Refusal no_bulk_copies(const DeviceInfo& device);

}  // namespace ridge::ops
