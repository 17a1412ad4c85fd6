// What is wrong with a text that a parser of another library refuses, in our words: the line as it stands, and what may
// stand there. The libraries' own texts name their grammar's rules, and change with their versions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ridge {

// Of line `line` (from 1): "\"threads = = 2\": expected NAME = VALUE, [TABLE] or # and a comment".
// `described` is what the library said, which tells a repeated key and a missing end from the rest.
std::string toml_problem(std::string_view text, std::size_t line, std::string_view described);
std::string yaml_problem(std::string_view text, std::size_t line, std::string_view described);

}  // namespace ridge
