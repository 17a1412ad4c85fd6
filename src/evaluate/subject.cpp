#include "evaluate/subject.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "evaluate/arena.h"

namespace ridge::evaluate {
namespace {

TensorView view_of(const ridge_tensor& tensor) {
  TensorView view;
  view.data = tensor.data;
  view.dtype = static_cast<DType>(tensor.dtype);
  view.rank = tensor.rank;
  std::copy(std::begin(tensor.shape), std::end(tensor.shape), view.shape.begin());
  std::copy(std::begin(tensor.stride), std::end(tensor.stride), view.stride.begin());
  return view;
}

// The implementation as a kernel: the parameters of the call say which of the problems it is.
HostProcess::Kernel as_kernel(const ops::Implementation* implementation, std::vector<ops::Problem> problems) {
  return [implementation, problems = std::move(problems)](const ridge_call& call) -> std::int32_t {
    for (const ops::Problem& problem : problems) {
      if (!std::equal(problem.values.begin(), problem.values.end(), call.params, call.params + call.param_count))
        continue;
      std::array<TensorView, kMaxOperands> views;
      for (int i = 0; i < call.operand_count; ++i) views[static_cast<std::size_t>(i)] = view_of(call.operands[i]);
      const std::span<const TensorView> operands(views.data(), static_cast<std::size_t>(call.operand_count));
      std::array<record::Scalar, kMaxScalars> scalars;
      for (std::size_t i = 0; i < problem.scalars.size(); ++i) {
        scalars[i] = {problem.scalars[i].usual.type, std::bit_cast<std::uint64_t>(call.scalars[i])};
      }
      const Status status =
          implementation->run(problem, {operands, {scalars.data(), problem.scalars.size()}}, Stream::cpu(call.threads));
      if (!status) std::fprintf(stderr, "%s: %s\n", implementation->name.c_str(), status.error().text().c_str());
      return status ? 0 : 1;
    }
    return 2;
  };
}

}  // namespace

bool Subject::deterministic() const {
  if (implementation != nullptr) return implementation->deterministic;
  return candidate != nullptr && !candidate->sources.empty() &&
         candidate->sources[0].text.find("// ridge: deterministic") != std::string::npos;
}

Attempt<HostProcess> start(const Subject& subject, const std::vector<ops::Problem>& problems, const Harness& harness) {
  HostOptions options;
  options.program = harness.host_program;
  options.cpus = harness.placement.measured;
  options.defences = harness.defences;
  options.call_timeout = harness.protocol.call_timeout;
  options.memory_limit_bytes = static_cast<std::uint64_t>(harness.protocol.memory_limit_mib) << 20;
  for (const ops::Problem& problem : problems)
    options.region_bytes = std::max(options.region_bytes, layout_bytes(problem));
  if (subject.implementation != nullptr) {
    std::vector<ops::Problem> configured = problems;
    for (ops::Problem& problem : configured) problem.configuration = subject.configuration;
    return HostProcess::start_library(as_kernel(subject.implementation, std::move(configured)), options);
  }
  options.sanitizer_runtime = subject.sanitizer_runtime;
  return HostProcess::start_candidate(subject.artifact, options);
}

}  // namespace ridge::evaluate
