// Edge cases of operators whose result is a coded matrix.
#pragma once

#include <string_view>
#include <vector>

#include "record/case.h"

namespace ridge::ops::coding {

// What the operator's own parameters are in these cases.
struct EdgeForms {
  std::string_view rules = {};   // in those of each rule and format
  std::string_view row = {};     // where the matrix alone is coded
  std::string_view column = {};  // where its transpose alone is
  std::string_view given = {};   // with a given largest magnitude, of each size
  std::string_view given_stochastic = {};
};
// Around the blocks of 32 and 128, and nothing at all; every granularity with every rule and format; either copy alone,
// random rounding, and a given largest magnitude.
std::vector<record::Case> edge_cases(std::string_view op, const EdgeForms& forms);

}  // namespace ridge::ops::coding
