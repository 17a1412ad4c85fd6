// The little Python that definitions of tuning problems are written in.
#pragma once

#include <string>
#include <vector>

#include "record/search_space.h"
#include "ridge/result.h"

namespace ridge::record {

// "[1, 2, 4] + list(range(32, 129, 32))", "[2**i for i in range(0, 6)]", "['nn', 'nt']": the values.
Result<std::vector<ParameterValue>> python_values(const std::string& text);

// A condition as an expression (expression.h). An error says what is not read: a chained comparison, `//`, `in`.
Result<std::string> python_condition(const std::string& text);

}  // namespace ridge::record
