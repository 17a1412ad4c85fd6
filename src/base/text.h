// Cutting text into parts: blanks off both ends, fields between separators, cells of a CSV line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge {

inline constexpr std::string_view kBlanks = " \t\r\n";

// The text without the characters of `blanks` at both ends; it refers to the same memory.
std::string_view trimmed(std::string_view text, std::string_view blanks = kBlanks);

// What lies between the separators, empty parts included: "a,,b" has three, "" has one.
std::vector<std::string> split(std::string_view text, char separator);

// The cells of one line of CSV (RFC 4180): a cell may stand in quotes, in which a doubled quote is one.
std::vector<std::string> csv_cells(std::string_view line);
// A text as one cell: in quotes where it holds a comma, a quote or a line break.
std::string csv_cell(const std::string& text);

}  // namespace ridge
