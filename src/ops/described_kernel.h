// A kernel of the library as the comments of its own source describe it (record/kernel_description.h): which
// configurations a case may take, what each is compiled with, and how it is launched.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/embedded.h"
#include "ops/op.h"
#include "record/expression.h"
#include "record/kernel_description.h"

namespace ridge::ops {

// Device sources of the operators, named from src/: "ops/matmul/cuda_wgmma.cu". And those of a program that brings
// operators of its own (ops/op.h), whose generated list adds them before it describes the first.
std::span<const EmbeddedFile> device_sources();
void add_device_sources(std::span<const EmbeddedFile> files);

class DescribedKernel {
 public:
  static Result<DescribedKernel> read(std::string source, std::string_view text);

  [[nodiscard]] const record::KernelDescription& description() const { return description_; }
  [[nodiscard]] const std::string& source() const { return source_; }
  // Writes what an implementation says of its configurations: source, version, names, and where each is from.
  void describe(Implementation& implementation) const;

  // `facts` describe the case: its numbers, and its operands where they are known. Null where some configuration may
  // fit; else the reason of the first need that does not hold and the values it names.
  [[nodiscard]] Refusal refuses(const record::PlanFacts& facts) const;
  [[nodiscard]] bool fits(int configuration, const record::PlanFacts& facts) const;
  // Those that fit, in their order.
  [[nodiscard]] std::vector<int> fitting(const record::PlanFacts& facts) const;

  [[nodiscard]] Result<KernelBuild> build(int configuration, const record::PlanFacts& facts) const;
  [[nodiscard]] Result<record::ResolvedPlan> resolve(int configuration, const record::PlanFacts& facts) const;
  // Every number that the launch plan names, with those of a configuration.
  [[nodiscard]] Result<record::Variables> variables(int configuration, const record::PlanFacts& facts) const;

 private:
  // The numbers of a case that its needs allow.
  [[nodiscard]] std::optional<record::Variables> taken(const record::PlanFacts& facts) const;
  [[nodiscard]] bool fits_in(int configuration, record::Variables& variables, const record::Reals& reals) const;
  [[nodiscard]] record::PlanFacts configured(int configuration, record::PlanFacts facts) const;

  std::string source_;
  record::KernelDescription description_;
  // Values and needs that name no tunable, also not through another value; and the others.
  record::LaunchPlan case_part_, config_part_;
};

// What launch plans may name of a call but the numbers of its device and the values of tunables: parameters, scalars,
// what the operator adds (Operator::plan_values), and the operands' dtypes, shapes, strides and alignments.
record::PlanFacts plan_facts(const Problem& problem, std::span<const TensorView> operands);
// The same before a call: of dense operands, with the alignments that the problem knows.
record::PlanFacts plan_facts(const Problem& problem);
std::vector<record::PlanOperand> plan_operands(const Problem& problem, std::span<const TensorView> operands);

// The kernel of a source inside the library; read by the first call. Throws std::logic_error where its description is
// wrong, which a test of every source keeps out.
const DescribedKernel& described_kernel(const std::string& source);

}  // namespace ridge::ops
