// Load of grouped operators: how many tokens each expert gets, as a parameter "tokens=128/0/64/320" of a case, or
// behind the colon of a project's label, "label=skewed:128-0-64x2" (64 twice).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/case.h"

namespace ridge::campaign {

// Whether an operator spreads its work over groups, so that a gain must hold for uneven groups too.
bool is_grouped(const std::string& op);

struct Load {
  std::vector<std::int64_t> tokens;
  double largest_share = 0;  // of all tokens
  double variation = 0;      // standard deviation / mean
  std::int64_t empty = 0;    // groups without a token
  [[nodiscard]] bool known() const { return !tokens.empty(); }
  [[nodiscard]] bool uniform() const { return known() && variation < 0.05; }
  [[nodiscard]] bool skewed() const { return known() && variation >= 0.25; }
};
// Unknown (no tokens) when the case has neither, or it is not a list of whole numbers.
Load load_of(const record::Case& one);

}  // namespace ridge::campaign
