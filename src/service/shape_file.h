// Cases of one or several operators, from words of a person and from a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "record/case.h"
#include "ridge/result.h"

namespace ridge::service {

inline constexpr std::string_view kAllOperators = "all";

struct AskedCases {
  std::string op;
  std::vector<record::Case> cases;
};

// The cases of `op`, or of every operator that the file names where it is "all". A line of the file is a case or every
// combination of the values it lists (record/case_list.h), and begins with its operator or belongs to `op`; # begins a
// comment. The words are added to every line. Without words and file: one case without parameters, which stands for the
// operator's own.
Result<std::vector<AskedCases>> asked_cases(const std::string& op, const std::vector<std::string>& words,
                                            const std::string& file);

}  // namespace ridge::service
