#include "ops/described_kernel.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "base/error.h"
#include "ops/arguments.h"
#include "record/kernel_start.h"

namespace ridge::ops {

std::span<const EmbeddedFile> library_sources();  // embedded by CMakeLists.txt

namespace {

using record::PlanFacts;
using record::Variables;

Result<bool> names_any(const std::string& expression, const std::set<std::string>& names) {
  RIDGE_TRY(used, record::expression_variables(expression));
  return std::ranges::any_of(used, [&](const std::string& name) { return names.contains(name); });
}

}  // namespace

Result<DescribedKernel> DescribedKernel::read(std::string source, std::string_view text) {
  RIDGE_TRY(description, record::parse_kernel(text));
  if (!description) return invalid("{} has no ridge-kernel comment", source);
  DescribedKernel kernel;
  kernel.source_ = std::move(source);
  kernel.description_ = std::move(*description);
  std::set<std::string> of_configuration;
  for (const record::Tunable& tunable : kernel.description_.space.tunables) of_configuration.insert(tunable.name);
  if (!kernel.description_.plan) return kernel;  // of no operator yet: launched by its benchmark
  for (const record::PlanValue& value : kernel.description_.plan->values) {
    RIDGE_TRY(depends, names_any(value.expression, of_configuration));
    if (depends) of_configuration.insert(value.name);
    (depends ? kernel.config_part_ : kernel.case_part_).values.push_back(value);
  }
  for (const record::Constraint& needs : kernel.description_.plan->needs) {
    RIDGE_TRY(depends, names_any(needs.expression, of_configuration));
    (depends ? kernel.config_part_ : kernel.case_part_).needs.push_back(needs);
  }
  return kernel;
}

void DescribedKernel::describe(Implementation& implementation) const {
  implementation.source = source_;
  implementation.version = [version = record::configurations_version(description_)] { return version; };
  for (const record::KernelConfig& config : description_.configs) {
    implementation.configurations.push_back(config.name);
    implementation.promoted.push_back(config.promoted);
  }
}

Refusal DescribedKernel::refuses(const PlanFacts& facts) const {
  Result<Variables> variables = record::plan_variables(case_part_, facts);
  if (!variables) return variables.error().message;
  const Result<const record::Constraint*> needs = record::unmet(case_part_, *variables, facts.reals);
  if (!needs) return needs.error().message;
  if (*needs == nullptr) return std::nullopt;
  return fmt::format("{}:{}", (*needs)->reason, record::named_numbers((*needs)->expression, *variables, facts.reals));
}

std::optional<Variables> DescribedKernel::taken(const PlanFacts& facts) const {
  Result<Variables> variables = record::plan_variables(case_part_, facts);
  if (!variables) return std::nullopt;
  const auto needs = record::unmet(case_part_, *variables, facts.reals);
  if (!needs || *needs != nullptr) return std::nullopt;
  return std::move(*variables);
}

bool DescribedKernel::fits_in(int configuration, Variables& variables, const record::Reals& reals) const {
  const auto& config = description_.configs[static_cast<std::size_t>(configuration)];
  for (const record::Tunable& tunable : description_.space.tunables) {
    const auto given = config.values.find(tunable.name);
    variables[tunable.name] = given == config.values.end() ? tunable.default_value : given->second;
  }
  if (!record::set_values(config_part_, variables, reals)) return false;
  const auto needs = record::unmet(config_part_, variables, reals);
  return needs && *needs == nullptr;
}

bool DescribedKernel::fits(int configuration, const PlanFacts& facts) const {
  if (configuration < 0 || configuration >= static_cast<int>(description_.configs.size())) return false;
  std::optional<Variables> variables = taken(facts);
  return variables && fits_in(configuration, *variables, facts.reals);
}

std::vector<int> DescribedKernel::fitting(const PlanFacts& facts) const {
  std::vector<int> found;
  std::optional<Variables> variables = taken(facts);
  for (int i = 0; variables && i < static_cast<int>(description_.configs.size()); ++i) {
    if (fits_in(i, *variables, facts.reals)) found.push_back(i);
  }
  return found;
}

PlanFacts DescribedKernel::configured(int configuration, PlanFacts facts) const {
  const auto& config = description_.configs[static_cast<std::size_t>(configuration)];
  for (const auto& [name, value] : description_.complete(config.values)) facts.values[name] = value;
  return facts;
}

Result<Variables> DescribedKernel::variables(int configuration, const PlanFacts& facts) const {
  return record::plan_variables(*description_.plan, configured(configuration, facts));
}

Result<KernelBuild> DescribedKernel::build(int configuration, const PlanFacts& facts) const {
  RIDGE_TRY(known, variables(configuration, facts));
  KernelBuild build{source_, {}};
  for (const record::Tunable& tunable : description_.space.tunables) {
    build.defines.push_back(fmt::format("{}={}", tunable.name, known.at(tunable.name)));
  }
  RIDGE_TRY(macros, record::macros_of(description_, known, facts.reals));
  build.defines.insert(build.defines.end(), std::make_move_iterator(macros.begin()),
                       std::make_move_iterator(macros.end()));
  return build;
}

Result<record::ResolvedPlan> DescribedKernel::resolve(int configuration, const PlanFacts& facts) const {
  return record::resolve(*description_.plan, configured(configuration, facts));
}

PlanFacts plan_facts(const Problem& problem, std::span<const TensorView> operands) {
  PlanFacts facts;
  for (const auto& [name, value] : problem.wholes()) facts.values[name] = value;
  facts.reals = problem.reals();
  for (const record::ScalarInfo& scalar : problem.scalars) {
    facts.reals.erase(scalar.name);
    facts.scalars.push_back({scalar.name, scalar.usual.number()});
  }
  if (const auto op = find_operator(problem.problem_case.op); op && (*op)->plan_values) {
    (*op)->plan_values(problem, operands, facts.values);
  }
  facts.operands = plan_operands(problem, operands);
  return facts;
}

PlanFacts plan_facts(const Problem& problem) {
  std::vector<TensorView> views;
  for (const OperandSpec& spec : problem.operands) views.push_back(dense_view(spec, nullptr));
  PlanFacts facts = plan_facts(problem, views);
  for (std::size_t i = 0; i < views.size(); ++i) facts.operands[i].alignment = operand_alignment(problem, i);
  return facts;
}

std::vector<record::PlanOperand> plan_operands(const Problem& problem, std::span<const TensorView> operands) {
  std::vector<record::PlanOperand> made;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto rank = static_cast<std::size_t>(operands[i].rank);
    made.push_back({problem.operands[i].name,
                    operands[i].dtype,
                    {operands[i].shape.begin(), operands[i].shape.begin() + rank},
                    {operands[i].stride.begin(), operands[i].stride.begin() + rank},
                    view_alignment(operands[i])});
  }
  return made;
}

namespace {

std::vector<EmbeddedFile>& all_sources() {
  static std::vector<EmbeddedFile> files = [] {
    const auto library = library_sources();
    return std::vector(library.begin(), library.end());
  }();
  return files;
}

}  // namespace

std::span<const EmbeddedFile> device_sources() { return all_sources(); }

void add_device_sources(std::span<const EmbeddedFile> files) {
  std::vector<EmbeddedFile>& all = all_sources();
  all.insert(all.end(), files.begin(), files.end());
}

const DescribedKernel& described_kernel(const std::string& source) {
  static std::mutex mutex;
  static std::map<std::string, DescribedKernel> known;
  const std::scoped_lock lock(mutex);
  if (const auto found = known.find(source); found != known.end()) return found->second;
  const auto files = device_sources();
  const auto file = std::ranges::find(files, source, &EmbeddedFile::path);
  const std::string_view text = file == files.end() ? std::string_view() : file->text;
  Result<DescribedKernel> kernel = DescribedKernel::read(source, text);
  if (!kernel) throw std::logic_error(fmt::format("{}: {}", source, kernel.error().text()));
  return known.emplace(source, std::move(*kernel)).first->second;
}

}  // namespace ridge::ops
