#include "layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace ridge::cli {
namespace {

constexpr std::string_view kGap = "  ";
constexpr std::size_t kNarrowestText = 20;  // a column of text is not wrapped below this

using Row = std::vector<std::string>;

// Where the character or colour sequence that begins at `at` ends; `columns` is what it occupies.
std::size_t next_symbol(std::string_view text, std::size_t at, std::size_t& columns) {
  columns = 0;
  if (text.substr(at, 2) == "\033[") {
    const std::size_t end = text.find('m', at);
    return end == std::string_view::npos ? text.size() : end + 1;
  }
  columns = 1;
  ++at;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) ++at;
  return at;
}

bool is_number(std::string_view cell) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  if (cell.empty()) return false;
  return digit(cell[0]) || ((cell[0] == '-' || cell[0] == '+') && cell.size() > 1 && digit(cell[1]));
}

std::string padded(const std::string& cell, std::size_t width, bool right) {
  const std::string blank(width - std::min(width, display_width(cell)), ' ');
  return right ? blank + cell : cell + blank;
}

class Table {
 public:
  Table(Row header, std::vector<Row> rows) : header_(std::move(header)), rows_(std::move(rows)) { measure(); }

  // The columns that say the same in every row, in one line; they leave the table.
  std::string take_constants() {
    std::string text;
    if (rows_.size() < 2) return text;
    for (std::size_t i = header_.size(); i-- > 1;) {
      const auto same = [&](const Row& row) { return i < row.size() && row[i] == rows_[0][i]; };
      if (i >= rows_[0].size() || rows_[0][i].empty() || !std::all_of(rows_.begin(), rows_.end(), same)) continue;
      text = fmt::format("{} {}{}{}", header_[i], rows_[0][i], text.empty() ? "" : ", ", text);
      remove(i);
    }
    return text;
  }

  // The names of the columns that had to go.
  std::vector<std::string> leave_out(const std::vector<std::string>& expendable, std::size_t limit) {
    std::vector<std::string> gone;
    for (const std::string& name : expendable) {
      if (total() <= limit) break;
      const auto found = std::find(header_.begin(), header_.end(), name);
      if (found == header_.end()) continue;
      remove(static_cast<std::size_t>(found - header_.begin()));
      gone.push_back(name);
    }
    return gone;
  }

  void shrink(std::size_t limit) {
    while (total() > limit) {
      std::size_t widest = header_.size();
      for (std::size_t i = 0; i < widths_.size(); ++i) {
        if (right_[i] || widths_[i] <= kNarrowestText) continue;
        if (widest == header_.size() || widths_[i] > widths_[widest]) widest = i;
      }
      if (widest == header_.size()) return;
      const std::size_t excess = total() - limit;
      const std::size_t room = widths_[widest] > excess ? widths_[widest] - excess : 0;
      widths_[widest] = std::max(kNarrowestText, room);
    }
  }

  [[nodiscard]] std::string text() const {
    std::string all = lines_of(header_);
    for (const Row& row : rows_) all += lines_of(row);
    return all;
  }

 private:
  void measure() {
    widths_.clear();
    right_.assign(header_.size(), false);
    for (std::size_t i = 0; i < header_.size(); ++i) {
      std::size_t width = display_width(header_[i]);
      bool known = false;
      for (const Row& row : rows_) {
        if (i >= row.size()) continue;
        width = std::max(width, display_width(row[i]));
        // A column is aligned by its first filled cell; rows of failures are short.
        if (!known && !row[i].empty()) right_[i] = is_number(row[i]);
        known = known || !row[i].empty();
      }
      widths_.push_back(width);
    }
  }

  void remove(std::size_t column) {
    const auto erase = [column](Row& row) {
      if (column < row.size()) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
    };
    erase(header_);
    for (Row& row : rows_) erase(row);
    measure();
  }

  [[nodiscard]] std::size_t total() const {
    std::size_t sum = widths_.empty() ? 0 : kGap.size() * (widths_.size() - 1);
    for (const std::size_t width : widths_) sum += width;
    return sum;
  }

  [[nodiscard]] std::string lines_of(const Row& row) const {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      // The last cell of a row of failures may be longer than its column: nothing stands beside it.
      const bool fits = i >= row.size() || display_width(row[i]) <= widths_[i];
      cells.push_back(i >= row.size() ? Row{""} : fits ? Row{row[i]} : wrap(row[i], widths_[i]));
      height = std::max(height, cells.back().size());
    }
    std::string all;
    for (std::size_t line = 0; line < height; ++line) {
      std::string text;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::string cell = line < cells[i].size() ? cells[i][line] : std::string();
        text += (i == 0 ? "" : std::string(kGap)) + padded(cell, widths_[i], right_[i]);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      all += text + "\n";
    }
    return all;
  }

  Row header_;
  std::vector<Row> rows_;
  std::vector<std::size_t> widths_;
  std::vector<bool> right_;
};

Row words_of(const std::string& text) {
  Row words;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(' ', at)) != std::string::npos) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t total = 0, columns = 0;
  for (std::size_t at = 0; at < text.size(); total += columns) at = next_symbol(text, at, columns);
  return total;
}

std::string cut_to(std::string_view text, std::size_t width) {
  if (width == 0 || display_width(text) <= width) return std::string(text);
  std::size_t at = 0, total = 0, columns = 0;
  while (at < text.size()) {
    const std::size_t next = next_symbol(text, at, columns);
    if (total + columns >= width) break;
    total += columns;
    at = next;
  }
  return std::string(text.substr(0, at)) + "…";
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  if (width == 0 || display_width(text) <= width) return {std::string(text)};
  std::vector<std::string> lines;
  for (const std::string& word : words_of(std::string(text))) {
    if (!lines.empty() && display_width(lines.back()) + 1 + display_width(word) <= width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string all;
  for (const std::string& line : wrap(text, width)) {
    if (!all.empty()) all += "\n" + std::string(indent, ' ');
    all += line;
  }
  return all;
}

SplitLabels split_labels(const std::vector<std::string>& labels) {
  SplitLabels split;
  std::vector<Row> all;
  for (const std::string& label : labels) all.push_back(words_of(label));
  const auto shared = [&](const std::string& word) {
    return std::all_of(all.begin(), all.end(),
                       [&](const Row& words) { return std::find(words.begin(), words.end(), word) != words.end(); });
  };
  for (const Row& words : all) {
    std::string rest, common;
    for (const std::string& word : words) {
      std::string& into = shared(word) ? common : rest;
      into += (into.empty() ? "" : " ") + word;
    }
    split.common = common;
    split.varying.push_back(rest);
  }
  return split;
}

std::string lay_out_table(std::vector<std::string> header, std::vector<std::vector<std::string>> rows,
                          const TableLayout& layout) {
  Table table(std::move(header), std::move(rows));
  std::string above = layout.factor_constants ? table.take_constants() : std::string();
  if (!above.empty()) above = fmt::format("All rows: {}\n", wrapped(above, layout.width, 2));
  if (layout.width == 0) return above + table.text();
  const std::vector<std::string> gone = table.leave_out(layout.expendable, layout.width);
  table.shrink(layout.width);
  std::string below;
  for (const std::string& name : gone) below += (below.empty() ? "Left out to fit the terminal: " : ", ") + name;
  return above + table.text() + (below.empty() ? "" : wrapped(below, layout.width, 2) + "\n");
}

}  // namespace ridge::cli
