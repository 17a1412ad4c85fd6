// Load of grouped operators: how many tokens each expert gets, by the parameter "load" of a case of ours
// (record/group_load.h), as "tokens=128/0/64/320", or behind the colon of a project's label, "label=skewed:128-0-64x2"
// (64 twice).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "record/case.h"

namespace ridge::campaign {

// Whether an operator spreads its work over groups, so that a gain must hold for uneven groups too: its cases have a
// load, or, of an operator that is not ours, its name says so.
bool is_grouped(const std::string& op, std::span<const record::Case> cases);

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
