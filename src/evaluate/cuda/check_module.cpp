#include "evaluate/cuda/check_module.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/embedded.h"
#include "base/error.h"

namespace ridge::evaluate::cuda {

// In this order: numerics/bias_terms.h, operand.cuh, compare.cu, harness.cu.
std::span<const EmbeddedFile> harness_files();

std::string harness_source() {
  std::string source;
  for (const EmbeddedFile& file : harness_files()) source += file.text;
  return source;
}

Result<std::unique_ptr<CheckModule>> CheckModule::load(const device::cuda::Device& device, const std::string& cubin) {
  RIDGE_TRY(module, device::cuda::Module::load(device, cubin));
  return std::unique_ptr<CheckModule>(new CheckModule(std::move(module)));
}

Status CheckModule::run(const ops::CheckLaunch& launch, device::cuda::StreamHandle stream) {
  auto found = kernels_.find(launch.kernel);
  if (found == kernels_.end()) {
    RIDGE_TRY(kernel, module_.kernel(launch.kernel));
    found = kernels_.emplace(launch.kernel, std::move(kernel)).first;
  }
  std::vector<void*> arguments;
  for (const ops::CheckLaunch::Argument& argument : launch.arguments) {
    const auto* const words = std::get_if<std::vector<std::uint64_t>>(&argument);
    const auto address = [](const auto& value) { return static_cast<const void*>(&value); };
    arguments.push_back(const_cast<void*>(words != nullptr ? words->data() : std::visit(address, argument)));
  }
  device::cuda::LaunchShape shape;
  shape.grid = {launch.grid_x, launch.grid_y, 1};
  shape.block = {launch.block, 1, 1};
  const Status launched = found->second.launch(shape, arguments, stream);
  if (!launched) return in_context("check kernel " + launch.kernel, launched.error());
  return ok_status();
}

std::uint32_t blocks_for(std::int64_t count) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>((count + 255) / 256, 1, 132 * 16));
}

}  // namespace ridge::evaluate::cuda
