// Text in columns: the width that a terminal shows, wrapping, tables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::cli {

// Code points, without colour sequences.
std::size_t display_width(std::string_view text);

// At most `width` columns, the last of them "…" where something was cut. 0: as it is.
std::string cut_to(std::string_view text, std::size_t width);

// Lines of at most `width` columns, broken at spaces; a longer word stays whole. 0: one line.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

// Lines of `wrap` after each other, all but the first indented.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

// Labels such as "m=64 n=8 dtype=f32": the words that all of them share, and what is left of each.
struct SplitLabels {
  std::string common;
  std::vector<std::string> varying;
};
SplitLabels split_labels(const std::vector<std::string>& labels);

struct TableLayout {
  std::size_t width = 0;                // that the table has to fit; 0: any
  std::vector<std::string> expendable;  // columns that are left out where the width does not suffice, the first first
  bool factor_constants = false;        // a column with one value in all rows becomes a line above the table
};

// Columns padded to their widest cell; numbers (cells that start with a digit or sign) are right-aligned. Where it is
// too wide, expendable columns are left out (a line below names them), then the widest column of text is wrapped.
std::string lay_out_table(std::vector<std::string> header, std::vector<std::vector<std::string>> rows,
                          const TableLayout& layout);

}  // namespace ridge::cli
