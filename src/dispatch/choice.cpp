#include "dispatch/choice.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace ridge::dispatch {

std::string Choice::name() const {
  if (configuration < 0) return implementation->name;
  return implementation->name + "/" + implementation->configurations[static_cast<std::size_t>(configuration)];
}

Result<Choice> parse_choice(const ops::Operator& op, std::string_view name) {
  const std::size_t slash = name.find('/');
  RIDGE_TRY(implementation, ops::find_implementation(op, name.substr(0, slash)));
  if (slash == std::string_view::npos) return Choice{implementation, -1};
  const std::vector<std::string>& known = implementation->configurations;
  const auto found = std::find(known.begin(), known.end(), name.substr(slash + 1));
  if (found != known.end()) return Choice{implementation, static_cast<int>(found - known.begin())};
  return with_hint(
      invalid("{} of {} has no configuration \"{}\"", implementation->name, op.name, name.substr(slash + 1)),
      known.empty() ? "it has none" : fmt::format("it has {}", fmt::join(known, ", ")));
}

ops::Refusal why_not(const Choice& choice, const ops::Problem& problem, const ops::DeviceInfo& device) {
  if (auto why = ops::why_not(*choice.implementation, problem, device)) return why;
  if (choice.configuration < 0) return std::nullopt;
  const std::vector<int> fitting = choice.implementation->promising(problem, device);
  if (std::find(fitting.begin(), fitting.end(), choice.configuration) != fitting.end()) return std::nullopt;
  std::vector<std::string> names;
  for (const int one : fitting) names.push_back(choice.implementation->configurations[static_cast<std::size_t>(one)]);
  return fmt::format("configuration {} does not fit this call; those that do: {}",
                     choice.implementation->configurations[static_cast<std::size_t>(choice.configuration)],
                     fmt::join(names, ", "));
}

ops::Problem configured(const ops::Problem& problem, const Choice& choice) {
  ops::Problem placed = problem;
  placed.configuration = choice.configuration;
  return placed;
}

}  // namespace ridge::dispatch
