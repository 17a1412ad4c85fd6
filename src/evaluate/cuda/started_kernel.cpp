#include "evaluate/cuda/started_kernel.h"

#include "base/error.h"
#include "ops/described_kernel.h"
#include "record/kernel_start.h"

namespace ridge::evaluate::cuda {
namespace {

Result<std::vector<std::string>> macros_for(const record::KernelDescription& kernel, const record::PlanFacts& facts) {
  RIDGE_TRY(variables, record::plan_variables(*kernel.plan, facts));
  return record::macros_of(kernel, variables, facts.reals);
}

}  // namespace

Result<std::shared_ptr<const StartedKernel>> started_kernel(const record::Candidate& candidate,
                                                            const std::map<std::string, std::int64_t>& defines) {
  RIDGE_TRY(wanted, record::built_for(candidate));
  if (!wanted) return std::shared_ptr<const StartedKernel>();
  RIDGE_TRY(kernel, record::described_kernel_of(candidate));
  if (!kernel || !kernel->plan) {
    return with_hint(invalid("{} is built for \"{}\" and includes no kernel whose macros follow from a case",
                             candidate.sources.front().path, wanted->text()),
                     "include one of the library (\"ops/softmax/cuda_softmax.cu\"), or leave ridge-build out");
  }
  RIDGE_TRY(op, ops::find_operator(wanted->op));
  RIDGE_TRY(problem, op->bind(*wanted));
  record::PlanFacts facts = ops::plan_facts(problem);
  facts.values.insert(defines.begin(), defines.end());
  RIDGE_TRY(macros, macros_for(*kernel, facts));
  return std::make_shared<const StartedKernel>(
      StartedKernel{std::move(*kernel), problem.problem_case.text(), std::move(macros)});
}

ops::Refusal needs_another_build(const StartedKernel& started, const record::PlanFacts& facts) {
  const auto macros = macros_for(started.kernel, facts);
  if (!macros) return macros.error().message;
  for (std::size_t i = 0; i < macros->size(); ++i) {
    if ((*macros)[i] == started.macros[i]) continue;
    return fmt::format("it is built for {}, with {}, and this case needs {}", started.built_for, started.macros[i],
                       (*macros)[i]);
  }
  return std::nullopt;
}

}  // namespace ridge::evaluate::cuda
