// The GPU as the worker knows it without initialising CUDA in its own process, and whether it works.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "device/cuda/backend.h"
#include "evaluate/cuda/check_module.h"
#include "ops/op.h"
#include "toolchain/build.h"

namespace ridge::evaluate::cuda {

// Asked in a process that ends. Errors: no driver, no GPU, or a device that does not answer.
Result<device::cuda::GpuInfo> ask_gpu(int index);

// Runs a kernel with a known answer on every multiprocessor, in a process of its own; nothing when the device works.
std::optional<std::string> device_trouble(int index, const CheckImages& images);

// The harness's own kernels and an operator's checks, compiled for that GPU, or from the cache.
Result<std::shared_ptr<const CheckImages>> check_images(const ops::Operator& op, const std::string& arch,
                                                        const toolchain::BuildOptions& options);

// Functions of the device's run-time library that a kernel has no use for: it may not print, allocate, or launch. The
// first one that the machine code refers to.
std::optional<std::string> device_call(std::string_view cubin);

}  // namespace ridge::evaluate::cuda
