#include "record/python_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "record/expression.h"

namespace ridge::record {
namespace {

constexpr std::size_t kMostRange = 65'535;

// The parts between separators that stand in no bracket and no quote.
std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  int depth = 0;
  char quote = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (c == separator && depth == 0) {
      parts.emplace_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  parts.emplace_back(trimmed(text.substr(begin)));
  return parts;
}

bool is_wrapped(const std::string& text, std::string_view before, char after) {
  return text.size() > before.size() && text.starts_with(before) && text.back() == after;
}
std::string inside(const std::string& text, std::size_t before) {
  return std::string(trimmed(std::string_view(text).substr(before, text.size() - before - 1)));
}

Result<double> python_number(std::string text, const Reals& known) {
  for (std::size_t at = text.find("**"); at != std::string::npos; at = text.find("**")) text.replace(at, 2, "^");
  RIDGE_TRY(value, evaluate_real(text, {}, known));
  if (!std::isfinite(value)) return invalid("{} is no number", text);
  return value;
}

Result<ParameterValue> python_value(const std::string& text, const Reals& known) {
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front()) {
    return ParameterValue{0, text.substr(1, text.size() - 2)};
  }
  if (text == "True" || text == "False") return ParameterValue{text == "True" ? 1.0 : 0.0, {}};
  RIDGE_TRY(number, python_number(text, known));
  return ParameterValue{number, {}};
}

Result<std::vector<ParameterValue>> range_of(const std::string& arguments) {
  std::vector<double> numbers;
  for (const std::string& part : parts_of(arguments, ',')) {
    RIDGE_TRY(number, python_number(part, {}));
    numbers.push_back(number);
  }
  if (numbers.size() == 1) numbers.insert(numbers.begin(), 0.0);
  const double step = numbers.size() > 2 ? numbers[2] : 1;
  if (numbers.size() > 3 || step == 0) return invalid("range({}) is no range", arguments);
  if ((numbers[1] - numbers[0]) / step > static_cast<double>(kMostRange)) {
    return invalid("range({}) has more than {} values", arguments, kMostRange);
  }
  std::vector<ParameterValue> values;
  for (double x = numbers[0]; step > 0 ? x < numbers[1] : x > numbers[1]; x += step) values.push_back({x, {}});
  return values;
}

Result<std::vector<ParameterValue>> list_of(const std::string& text) {
  if (is_wrapped(text, "list(", ')')) return list_of(inside(text, 5));
  if (is_wrapped(text, "range(", ')')) return range_of(inside(text, 6));
  if (!is_wrapped(text, "[", ']')) return invalid("\"{}\" is no list of values", text);
  const std::string items = inside(text, 1);
  std::vector<ParameterValue> values;
  const std::size_t loop = items.find(" for "), in = items.find(" in ", loop == std::string::npos ? 0 : loop);
  if (loop != std::string::npos && in != std::string::npos) {
    RIDGE_TRY(over, list_of(std::string(trimmed(std::string_view(items).substr(in + 4)))));
    const std::string name(trimmed(std::string_view(items).substr(loop + 5, in - loop - 5)));
    for (const ParameterValue& one : over) {
      RIDGE_TRY(value,
                python_value(std::string(trimmed(std::string_view(items).substr(0, loop))), {{name, one.number}}));
      values.push_back(value);
    }
    return values;
  }
  for (const std::string& item : parts_of(items, ',')) {
    if (item.empty()) continue;  // after a last comma
    RIDGE_TRY(value, python_value(item, {}));
    values.push_back(value);
  }
  return values;
}

bool is_word_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

}  // namespace

Result<std::vector<ParameterValue>> python_values(const std::string& text) {
  std::vector<ParameterValue> values;
  for (const std::string& term : parts_of(text, '+')) {
    auto part = list_of(term);
    if (!part) return in_context(fmt::format("values \"{}\"", text), part.error());
    values.insert(values.end(), part->begin(), part->end());
  }
  return values;
}

Result<std::string> python_condition(const std::string& text) {
  const auto refused = [&](const char* what) {
    return with_hint(invalid("condition \"{}\": {} is not read", text, what),
                     "write it with comparisons, and, or, not");
  };
  std::string plain;
  std::vector<int> comparisons = {0};  // by open bracket, since the last and, or, comma
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\'' || c == '"') {
      const std::size_t end = text.find(c, i + 1);
      if (end == std::string::npos) return refused("a quote that is not closed");
      plain += text.substr(i, end - i + 1);
      i = end + 1;
    } else if (is_word_part(c)) {
      std::size_t end = i;
      while (end < text.size() && is_word_part(text[end])) ++end;
      const std::string word = text.substr(i, end - i);
      const std::size_t next = text.find_first_not_of(" \t\r\n", end);
      if (word == "in" || word == "is" || word == "if" || word == "lambda") return refused(("`" + word + "`").c_str());
      if (word == "not" && (next == std::string::npos || text[next] != '(')) return refused("`not` without brackets");
      if (word == "and" || word == "or") comparisons.back() = 0;
      plain += word == "and"     ? "&&"
               : word == "or"    ? "||"
               : word == "not"   ? "0=="
               : word == "True"  ? "1"
               : word == "False" ? "0"
                                 : word;
      i = end;
    } else {
      const std::string two = text.substr(i, 2);
      if (two == "//") return refused("`//`");
      const bool compares = two == "<=" || two == ">=" || two == "==" || two == "!=" || c == '<' || c == '>';
      if (compares && ++comparisons.back() > 1) return refused("a chained comparison");
      if (c == '(') comparisons.push_back(0);
      if (c == ')' && comparisons.size() > 1) comparisons.pop_back();
      if (c == ',') comparisons.back() = 0;
      const bool wide = two == "**" || (compares && c != two.back() && two.back() == '=') || two == "==";
      plain += two == "**" ? "^" : wide ? two : std::string(1, c);
      i += wide ? 2 : 1;
    }
  }
  RIDGE_CHECK_OK([&]() -> Status {
    const auto names = expression_variables(plain);
    return names || plain.find('\'') != std::string::npos || plain.find('"') != std::string::npos
               ? ok_status()
               : Status(names.error());  // quoted words are no expression yet; the space reads them
  }());
  return plain;
}

}  // namespace ridge::record
