#include "report/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ridge::report {
namespace {

using Lines = std::vector<std::string_view>;

struct Edit {
  char sign;  // ' ', '-', '+'
  std::string_view line;
  std::size_t before, after;  // lines of each file in front of this one
};

Lines split(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Longest common subsequence by its table; beyond this size the middle is shown as replaced as a whole.
constexpr std::size_t kMaxCells = 4'000'000;

void diff_middle(std::span<const std::string_view> a, std::span<const std::string_view> b, std::vector<Edit>& edits,
                 std::size_t at_a, std::size_t at_b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::uint32_t> length;
  if ((a.size() + 1) * width <= kMaxCells) {
    length.assign((a.size() + 1) * width, 0);
    for (std::size_t i = a.size(); i-- > 0;) {
      for (std::size_t j = b.size(); j-- > 0;) {
        length[i * width + j] = a[i] == b[j] ? length[(i + 1) * width + j + 1] + 1
                                             : std::max(length[(i + 1) * width + j], length[i * width + j + 1]);
      }
    }
  }
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const bool both = i < a.size() && j < b.size();
    if (both && !length.empty() && a[i] == b[j]) {
      edits.push_back({' ', a[i], at_a + i, at_b + j});
      ++i, ++j;
    } else if (i < a.size() && (!both || length.empty() || length[(i + 1) * width + j] >= length[i * width + j + 1])) {
      edits.push_back({'-', a[i], at_a + i, at_b + j});
      ++i;
    } else {
      edits.push_back({'+', b[j], at_a + i, at_b + j});
      ++j;
    }
  }
}

std::vector<Edit> edits_between(const Lines& a, const Lines& b) {
  std::size_t head = 0, tail = 0;
  while (head < std::min(a.size(), b.size()) && a[head] == b[head]) ++head;
  while (tail < std::min(a.size(), b.size()) - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  std::vector<Edit> edits;
  for (std::size_t i = 0; i < head; ++i) edits.push_back({' ', a[i], i, i});
  diff_middle(std::span(a).subspan(head, a.size() - head - tail), std::span(b).subspan(head, b.size() - head - tail),
              edits, head, head);
  for (std::size_t i = 0; i < tail; ++i) {
    edits.push_back({' ', a[a.size() - tail + i], a.size() - tail + i, b.size() - tail + i});
  }
  return edits;
}

}  // namespace

std::string unified_diff(std::string_view path, std::string_view before, std::string_view after,
                         std::size_t max_lines) {
  if (before == after) return {};
  const Lines a = split(before), b = split(after);
  const std::vector<Edit> edits = edits_between(a, b);
  constexpr std::size_t kContext = 3;
  std::vector<bool> shown(edits.size(), false);
  for (std::size_t i = 0; i < edits.size(); ++i) {
    if (edits[i].sign == ' ') continue;
    const std::size_t first = i > kContext ? i - kContext : 0;
    for (std::size_t j = first; j < std::min(edits.size(), i + kContext + 1); ++j) shown[j] = true;
  }
  std::string text = fmt::format("--- {0}\n+++ {0}\n", path);
  std::size_t lines = 0, left_out = 0;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    if (!shown[i]) continue;
    if (lines >= max_lines) {
      ++left_out;
      continue;
    }
    if (i == 0 || !shown[i - 1]) text += fmt::format("@@ -{} +{} @@\n", edits[i].before + 1, edits[i].after + 1);
    text += fmt::format("{}{}\n", edits[i].sign, edits[i].line);
    ++lines;
  }
  if (left_out > 0) text += fmt::format("... {} more lines\n", left_out);
  return text;
}

std::string source_diff(std::span<const record::SourceFile> before, std::span<const record::SourceFile> after) {
  const auto text_of = [](std::span<const record::SourceFile> files, const std::string& path) {
    const auto found = std::find_if(files.begin(), files.end(), [&](const auto& file) { return file.path == path; });
    return found == files.end() ? std::string_view{} : std::string_view(found->text);
  };
  std::string diff;
  for (const auto& file : after) diff += unified_diff(file.path, text_of(before, file.path), file.text);
  for (const auto& file : before) {
    const bool kept =
        std::any_of(after.begin(), after.end(), [&](const auto& other) { return other.path == file.path; });
    if (!kept) diff += unified_diff(file.path, file.text, {});
  }
  return diff;
}

}  // namespace ridge::report
