#include "record/case.h"

#include <charconv>

#include "base/error.h"

namespace ridge::record {

std::string Case::get(std::string_view name, std::string_view fallback) const {
  for (const Param& param : params) {
    if (param.name == name) return param.value;
  }
  return std::string(fallback);
}

Result<std::int64_t> Case::integer(std::string_view name) const {
  const std::string value = get(name);
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || failure != std::errc() || end != value.data() + value.size()) {
    return invalid("{}: {}=\"{}\" is not an integer", op, name, value);
  }
  return number;
}

void Case::set(std::string_view name, std::string value) {
  for (Param& param : params) {
    if (param.name == name) {
      param.value = std::move(value);
      return;
    }
  }
  params.push_back({std::string(name), std::move(value)});
}

std::string Case::text() const { return params.empty() ? op : op + " " + label(); }

std::string Case::label() const {
  std::string label;
  for (const Param& param : params) {
    if (!label.empty()) label += ' ';
    label += param.name + "=" + param.value;
  }
  return label;
}

Result<Case> parse_case(std::string_view text) {
  Case result;
  std::size_t position = 0;
  while (position < text.size()) {
    const std::size_t start = text.find_first_not_of(" \t", position);
    if (start == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \t", start), text.size());
    const std::string_view word = text.substr(start, end - start);
    position = end;
    if (result.op.empty()) {
      result.op = word;
      continue;
    }
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == word.size()) {
      return with_hint(invalid("\"{}\" is not of the form name=value", word), "write for instance m=512");
    }
    const std::string_view name = word.substr(0, equals);
    if (!result.get(name).empty()) return invalid("parameter {} is given twice in \"{}\"", name, text);
    result.params.push_back({std::string(name), std::string(word.substr(equals + 1))});
  }
  if (result.op.empty()) return invalid("the case is empty; write for instance: gemm m=512 n=512 k=512");
  return result;
}

}  // namespace ridge::record
