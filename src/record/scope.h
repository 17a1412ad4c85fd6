// What a candidate says that it computes, written in a comment of its source. Cases outside are "not claimed".
//
//   /* ridge-scope
//   dtype = ["f32"]              # a parameter of the operator, and the values of it that are claimed
//   layout = ["nn", "nt"]
//   accumulate = [0]
//   [[needs]]                    # what sizes must be, as in a launch plan; a named value counts as its index
//   expression = "k % 8 == 0"
//   reason = "rows of A are read 8 elements at a time"
//   */
//
// A parameter that is not mentioned is claimed with all its values; a source without the comment claims everything.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/candidate.h"
#include "record/case.h"
#include "record/expression.h"
#include "ridge/result.h"

namespace ridge::record {

struct Scope {
  std::map<std::string, std::vector<std::string>> values;  // of parameters, by name
  std::vector<Constraint> needs;

  // Why a case is outside, as a sentence; nothing when it is inside. A parameter that the case leaves out is not looked
  // at, and without `variables` no expression is.
  [[nodiscard]] Result<std::optional<std::string>> excludes(const Case& problem_case, const Variables& variables,
                                                            const Reals& reals = {}) const;
};

// Nothing when the source declares none. An error names the line and the key.
Result<std::optional<Scope>> parse_scope(std::string_view source);
// Of sources[0].
Result<std::optional<Scope>> scope_of(const Candidate& candidate);

}  // namespace ridge::record
