// A space of configurations as it is declared: parameters with their values, and the constraints between them. What can
// be asked of it (how many, which one is the n-th, what lies next to one) is src/search/space.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ridge::record {

// A number, or a word where `word` is not empty.
struct ParameterValue {
  double number = 0;
  std::string word;
  friend bool operator==(const ParameterValue&, const ParameterValue&) = default;
};
// "nt", "0.5", "16"
std::string to_text(const ParameterValue& value);

struct SearchParameter {
  std::string name;
  std::vector<ParameterValue> values;
  // An expression: where it does not hold, the parameter has no effect and only the value at `fallback` counts, so that
  // configurations that build the same code are one. Empty: it always has an effect.
  std::string needs = {};
  std::size_t fallback = 0;
};

struct SpaceDefinition {
  std::vector<SearchParameter> parameters;
  // Expressions (expression.h) over the names of parameters; words stand in quotes or bare.
  std::vector<std::string> constraints;
};

}  // namespace ridge::record
