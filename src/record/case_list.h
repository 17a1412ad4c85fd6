// Cases written on a command line.
#pragma once

#include <string>
#include <vector>

#include "record/case.h"

namespace ridge::record {

// Words of one command line as cases of `op`. Each word is name=value; a value may be a list, "m=256,512", and the
// result is every combination, the last word varying fastest.
Result<std::vector<Case>> expand_cases(const std::string& op, const std::vector<std::string>& words);

}  // namespace ridge::record
