#include "service/shape_file.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "record/case_list.h"

namespace ridge::service {
namespace {

// Lines of one operator, without its name.
struct Lines {
  std::string op;
  std::vector<std::string> words;
};

Result<std::vector<Lines>> read_lines(const std::string& path, const std::string& op) {
  RIDGE_TRY(text, read_file(path));
  std::vector<Lines> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    line = line.substr(0, line.find('#'));
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (line.empty()) continue;
    std::string owner = op;
    const std::string first = line.substr(0, line.find(' '));
    if (first.find('=') == std::string::npos) {
      owner = first;
      line.erase(0, std::min(line.size(), first.size() + 1));
    }
    if (op != kAllOperators && owner != op) continue;
    if (owner == kAllOperators) {
      return with_hint(invalid("{}: \"{}\" names no operator", path, line),
                       "begin the line with one, or name one for all lines");
    }
    auto at = std::find_if(all.begin(), all.end(), [&](const Lines& one) { return one.op == owner; });
    if (at == all.end()) at = all.insert(all.end(), Lines{owner, {}});
    // One word alone would be multiplied with the other lines.
    at->words.push_back(line.find(' ') == std::string::npos ? line + " " : line);
  }
  if (!all.empty()) return all;
  return with_hint(invalid("{} holds no case{}", path, op == kAllOperators ? "" : " of " + op),
                   "write one a line: m=4096 n=4096 k=4096");
}

}  // namespace

Result<std::vector<AskedCases>> asked_cases(const std::string& op, const std::vector<std::string>& words,
                                            const std::string& file) {
  std::vector<Lines> all = {{op, {}}};
  if (!file.empty()) {
    RIDGE_TRY(lines, read_lines(file, op));
    all = std::move(lines);
  } else if (op == kAllOperators) {
    return with_hint(invalid("\"{}\" needs a list", op), "add --shapes data/shapes/training.txt, or name an operator");
  }
  std::vector<AskedCases> asked;
  for (Lines& one : all) {
    one.words.insert(one.words.end(), words.begin(), words.end());
    AskedCases& into = asked.emplace_back(AskedCases{one.op, {record::Case{one.op, {}}}});
    if (one.words.empty()) continue;
    RIDGE_TRY(cases, record::expand_cases(one.op, one.words));
    into.cases = std::move(cases);
  }
  return asked;
}

}  // namespace ridge::service
