#include "ops/cuda/cuda_kernel.h"

#include <algorithm>
#include <unordered_map>

#include "ops/cuda/planned_call.h"
#include "ops/cuda/prepared_calls.h"
#include "ops/workspace.h"
#include "record/architecture.h"

namespace ridge::ops {
namespace {

namespace gpu = device::cuda;

// Where none fits, 0: its needs say why.
int chosen(const DescribedKernel& kernel, const Problem& problem, const record::PlanFacts& facts, Prefers prefers) {
  if (kernel.fits(problem.configuration, facts)) return problem.configuration;
  if (prefers != nullptr) {
    const auto& configs = kernel.description().configs;
    const auto found = std::ranges::find(configs, prefers(problem), &record::KernelConfig::name);
    const int preferred = static_cast<int>(found - configs.begin());
    if (kernel.fits(preferred, facts)) return preferred;
  }
  const std::vector<int> fitting = kernel.fitting(facts);
  return fitting.empty() ? 0 : fitting[0];
}

bool nothing_to_write(const Problem& problem, const Arguments& arguments) {
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    if (problem.operands[i].output && arguments[i].element_count() != 0) return false;
  }
  return true;
}

Status run(const DescribedKernel& kernel, Prefers prefers, const Problem& problem, const Arguments& arguments,
           const Stream& stream) {
  static thread_local std::unordered_map<const DescribedKernel*, PreparedCalls<PlannedCall>> calls;
  if (nothing_to_write(problem, arguments)) return ok_status();
  RIDGE_TRY(ready, calls[&kernel].get(problem, arguments, stream, [&](const gpu::Device& device) {
    record::PlanFacts facts = plan_facts(problem, arguments);
    const int configuration = chosen(kernel, problem, facts, prefers);
    return PlannedCall::prepare(kernel, configuration, std::move(facts), device, multiprocessors_of(stream, device));
  }));
  const std::size_t needed = ready->workspace_bytes();
  if (arguments.workspace.size() >= needed) return ready->launch(arguments, gpu::handle_of(stream));
  RIDGE_TRY(memory, Workspace::take(needed, stream));
  Arguments with = arguments;
  with.workspace = {static_cast<std::byte*>(memory.data()), needed};
  return ready->launch(with, gpu::handle_of(stream));
}

std::vector<KernelBuild> builds(const DescribedKernel& kernel, Prefers prefers, const Problem& problem) {
  const record::PlanFacts facts = plan_facts(problem);
  Result<KernelBuild> build = kernel.build(chosen(kernel, problem, facts, prefers), facts);
  return build ? std::vector{std::move(*build)} : std::vector<KernelBuild>();
}

}  // namespace

Implementation cuda_kernel(std::string name, std::string summary, const DescribedKernel& (*kernel)(),
                           Refusal (*refuses)(const DeviceInfo&), Prefers prefers) {
  Implementation own;
  own.name = std::move(name);
  own.summary = std::move(summary);
  own.backend = Backend::kCuda;
  own.supports = [=](const Problem& problem, const DeviceInfo& device) -> Refusal {
    if (Refusal why = refuses(device)) return why;
    return kernel().refuses(plan_facts(problem));
  };
  own.run = [=](const Problem& problem, const Arguments& arguments, const Stream& stream) {
    return run(kernel(), prefers, problem, arguments, stream);
  };
  own.kernels = [=](const Problem& problem, const DeviceInfo&) { return builds(kernel(), prefers, problem); };
  return own;
}

Implementation configured_cuda_kernel(std::string name, std::string summary, const DescribedKernel& (*kernel)(),
                                      Refusal (*refuses)(const DeviceInfo&), Prefers prefers) {
  Implementation own = cuda_kernel(std::move(name), std::move(summary), kernel, refuses, prefers);
  own.deterministic = true;
  kernel().describe(own);
  own.promising = [=](const Problem& problem, const DeviceInfo&) { return kernel().fitting(plan_facts(problem)); };
  return own;
}

Refusal no_eight_bit_floats(const DeviceInfo& device) {
  if (record::at_least(device.arch, "sm_89")) return std::nullopt;
  return fmt::format("{} ({}) has no 8-bit floats", device.name, device.arch);
}

Refusal no_bf16_conversions(const DeviceInfo& device) {
  if (record::at_least(device.arch, "sm_80")) return std::nullopt;
  return fmt::format("{} ({}) has no conversions to bf16", device.name, device.arch);
}

Refusal no_bulk_copies(const DeviceInfo& device) {
  if (record::at_least(device.arch, "sm_90")) return std::nullopt;
  return fmt::format("{} ({}) has no bulk copies to shared memory", device.name, device.arch);
}

}  // namespace ridge::ops
