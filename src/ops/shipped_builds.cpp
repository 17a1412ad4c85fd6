#include "ops/shipped_builds.h"

#include "base/error.h"
#include "ops/described_kernel.h"
#include "record/case.h"

namespace ridge::ops {
namespace {

// The numbers of a GPU that launch plans may name: those of an H100.
constexpr std::int64_t kMultiprocessors = 132, kSharedBytes = 232448, kL2Bytes = 50 << 20;

// What a launch plan may say of a case whose operands are dense.
Result<record::PlanFacts> dense_facts(const std::string& text) {
  RIDGE_TRY(problem_case, record::parse_case(text));
  RIDGE_TRY(op, find_operator(problem_case.op));
  RIDGE_TRY(problem, op->bind(problem_case));
  record::PlanFacts facts = plan_facts(problem);
  facts.values.insert({{"sm_count", kMultiprocessors}, {"max_shared", kSharedBytes}, {"l2_bytes", kL2Bytes}});
  return facts;
}

// A macro of the variant replaces the one of the same name.
void set_defines(const record::KernelVariant& variant, std::vector<std::string>& defines) {
  for (const auto& [name, value] : variant.defines) {
    std::erase_if(defines, [&](const std::string& define) { return define.starts_with(name + "="); });
    defines.push_back(name + "=" + value);
  }
}

std::string name_of(const DescribedKernel& kernel) {  // without "ops/" and ".cu"
  return kernel.source().substr(4, kernel.source().rfind('.') - 4);
}

std::string text_of(const record::KernelOpcode& wanted) {
  return wanted.kernel.empty() ? wanted.opcode : wanted.kernel + ":" + wanted.opcode;
}

// A build of a kernel that only a benchmark launches: the variant's macros alone.
record::ShippedBuild build_of_macros(const DescribedKernel& kernel, const record::KernelVariant& variant) {
  record::ShippedBuild build{
      name_of(kernel), variant.name, kernel.source(), {}, kernel.description().max_registers, {}};
  set_defines(variant, build.defines);
  for (const record::KernelOpcode& wanted : kernel.description().sass) build.sass.push_back(text_of(wanted));
  return build;
}

Status add_variant(const DescribedKernel& kernel, const record::KernelVariant& variant, record::ShippedBuilds& list) {
  if (!kernel.description().plan) {
    list.builds.push_back(build_of_macros(kernel, variant));
    return ok_status();
  }
  RIDGE_TRY(facts, dense_facts(variant.problem));
  if (const Refusal why = kernel.refuses(facts)) return invalid("the kernel refuses its case: {}", *why);
  std::vector<int> fitting = kernel.fitting(facts);
  if (fitting.empty()) return invalid("no configuration fits its case");
  if (!variant.every) fitting.resize(1);
  for (const int configuration : fitting) {
    RIDGE_CHECK_OK(kernel.resolve(configuration, facts));
    RIDGE_TRY(build, kernel.build(configuration, facts));
    RIDGE_TRY(numbers, kernel.variables(configuration, facts));
    set_defines(variant, build.defines);
    record::ShippedBuild one{
        name_of(kernel),
        kernel.description().configs[static_cast<std::size_t>(configuration)].name + "/" + variant.name,
        kernel.source(),
        std::move(build.defines),
        kernel.description().max_registers,
        {}};
    for (const record::KernelOpcode& wanted : kernel.description().sass) {
      RIDGE_TRY(holds, record::evaluate(wanted.when, numbers, facts.reals));
      if (holds != 0) one.sass.push_back(text_of(wanted));
    }
    list.builds.push_back(std::move(one));
  }
  return ok_status();
}

}  // namespace

Result<record::ShippedBuilds> shipped_builds() {
  record::ShippedBuilds list;
  for (const EmbeddedFile& file : device_sources()) {
    if (file.text.find("/* ridge-kernel") == std::string_view::npos) continue;
    Result<DescribedKernel> kernel = DescribedKernel::read(std::string(file.path), file.text);
    if (!kernel) return in_context(file.path, kernel.error());
    for (const record::KernelVariant& variant : kernel->description().variants) {
      if (Status added = add_variant(*kernel, variant, list); !added) {
        return in_context(fmt::format("{}, variant {}", file.path, variant.name), added.error());
      }
    }
  }
  return list;
}

}  // namespace ridge::ops
