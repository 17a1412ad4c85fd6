#include "ops/cpu_kernel.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "base/error.h"
#include "record/kernel_description.h"
#include "record/scope.h"

namespace ridge::ops {
namespace {

struct CpuKernel {
  std::string name;
  record::KernelDescription description;
  std::optional<record::Scope> scope;
  std::vector<KernelEntry> entries;        // in the order of the description
  std::unique_ptr<std::mutex[]> one_call;  // by configuration
};

std::vector<int> fitting(const CpuKernel& kernel, const DeviceInfo& device) {
  std::vector<int> found;
  for (std::size_t i = 0; i < kernel.entries.size(); ++i) {
    if (record::has_instructions(kernel.description.configs[i].instructions, device.features)) {
      found.push_back(static_cast<int>(i));
    }
  }
  return found;
}

Refusal supports(const CpuKernel& kernel, const Problem& problem, const DeviceInfo& device) {
  if (kernel.scope) {
    const auto outside = kernel.scope->excludes(problem.problem_case, problem.wholes(), problem.reals());
    if (!outside) return outside.error().text();
    if (*outside) return **outside;
  }
  if (fitting(kernel, device).empty()) {
    return fmt::format("none of its {} configurations is for the instructions of this processor",
                       kernel.entries.size());
  }
  return std::nullopt;
}

ridge_tensor tensor_of(const TensorView& view) {
  ridge_tensor tensor{};
  tensor.data = view.data;
  tensor.dtype = static_cast<std::int32_t>(view.dtype);
  tensor.rank = view.rank;
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    tensor.shape[i] = view.shape[i];
    tensor.stride[i] = view.stride[i];
  }
  return tensor;
}

Status run(const CpuKernel& kernel, const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const std::vector<int> known = fitting(kernel, device_info(stream));
  const bool named = std::find(known.begin(), known.end(), problem.configuration) != known.end();
  const auto which = static_cast<std::size_t>(named ? problem.configuration : known.at(0));
  const std::span<const TensorView> operands = arguments.operands;
  std::array<ridge_tensor, kWarmOperands> few;
  std::vector<ridge_tensor> many(operands.size() > few.size() ? operands.size() : 0);
  ridge_tensor* const tensors = many.empty() ? few.data() : many.data();
  for (std::size_t i = 0; i < operands.size(); ++i) tensors[i] = tensor_of(operands[i]);
  ShortList<ridge_scalar, kWarmScalars> scalars;
  for (std::size_t i = 0; i < problem.scalars.size(); ++i) {
    ridge_scalar scalar;
    scalar.u64 = arguments.scalar(problem, i).bits;
    scalars.push_back(scalar);
  }
  const ridge_call call{RIDGE_CANDIDATE_VERSION,
                        stream.threads,
                        static_cast<std::int32_t>(operands.size()),
                        static_cast<std::int32_t>(problem.values.size()),
                        tensors,
                        problem.values.data(),
                        scalars.data(),
                        static_cast<std::int32_t>(scalars.size()),
                        0};
  const std::scoped_lock alone(kernel.one_call[which]);
  const int declined = kernel.entries[which].call(&call);
  if (declined == 0) return ok_status();
  return with_hint(make_error(ErrorCode::kUnsupported, "{}: {} in configuration {} declined the call with {}",
                              problem.problem_case.text(), kernel.name, kernel.entries[which].name, declined),
                   "memory may have run out; force another implementation");
}

}  // namespace

Implementation cpu_kernel(std::string_view name, std::string_view source, std::span<const KernelEntry> entries) {
  auto description = record::parse_kernel(source);
  auto scope = record::parse_scope(source);
  const auto version = record::kernel_version(source);
  check(description.ok() && *description && scope.ok() && version.ok(), "the build took a kernel that cannot be read");
  auto kernel = std::make_shared<CpuKernel>();
  kernel->name = name;
  kernel->description = std::move(**description);
  kernel->scope = std::move(*scope);
  kernel->entries.assign(entries.begin(), entries.end());
  kernel->one_call = std::make_unique<std::mutex[]>(entries.size());
  check(entries.size() == kernel->description.configs.size(), "the build read other configurations than the library");

  Implementation one;
  one.name = name;
  one.summary = fmt::format("a campaign's kernel in {} configurations", entries.size());
  one.rank = static_cast<int>(kernel->description.rank);
  one.supports = [kernel](const Problem& problem, const DeviceInfo& device) {
    return supports(*kernel, problem, device);
  };
  one.run = [kernel](const Problem& problem, const Arguments& arguments, const Stream& stream) {
    return run(*kernel, problem, arguments, stream);
  };
  one.version = [version = *version] { return version; };
  one.promising = [kernel](const Problem&, const DeviceInfo& device) { return fitting(*kernel, device); };
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const record::KernelConfig& config = kernel->description.configs[i];
    check(config.name == entries[i].name, "the build read other configurations than the library");
    one.configurations.push_back(config.name);
    one.promoted.push_back(config.promoted);
  }
  return one;
}

}  // namespace ridge::ops
