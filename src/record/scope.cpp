#include "record/scope.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/malformed.h"
#include "record/source_block.h"
#include "ridge/dtype.h"

namespace ridge::record {
namespace {

constexpr std::string_view kScopeMarker = "ridge-scope";

// "fp32" is f32.
bool same_value(std::string_view one, std::string_view other) {
  if (one == other) return true;
  const auto a = parse_dtype(one), b = parse_dtype(other);
  return a && b && *a == *b;
}

Result<Constraint> read_need(const toml::node& item, const SourceBlock& source) {
  Constraint need;
  BlockKeys keys(*item.as_table(), source);
  RIDGE_CHECK_OK(keys.text("expression", need.expression, true));
  RIDGE_CHECK_OK(keys.text("reason", need.reason, true));
  RIDGE_CHECK_OK(keys.finish());
  if (const auto names = expression_variables(need.expression); !names) {
    return keys.error(keys.line(), names.error().message);
  }
  return need;
}

Status read_values(const BlockKeys& keys, std::string_view name, const toml::node& node, Scope& scope) {
  const toml::array* const list = node.as_array();
  if (list == nullptr || list->empty()) {
    return keys.error_at(node, fmt::format("\"{}\" must be a list of the values that are claimed", name));
  }
  std::vector<std::string>& values = scope.values[std::string(name)];
  for (const toml::node& item : *list) {
    if (item.is_string()) {
      values.push_back(**item.as_string());
    } else if (item.is_integer()) {
      values.push_back(std::to_string(**item.as_integer()));
    } else {
      return keys.error_at(item, fmt::format("\"{}\" holds something else than texts and integers", name));
    }
  }
  return ok_status();
}

Result<std::optional<Scope>> read_scope(const toml::table& root, const SourceBlock& source) {
  const BlockKeys keys(root, source);
  Scope scope;
  for (const auto& [key, node] : root) {
    if (key.str() != "needs") {
      RIDGE_CHECK_OK(read_values(keys, key.str(), node, scope));
      continue;
    }
    if (!node.is_array_of_tables()) return keys.error_at(node, "\"needs\" must be tables: [[needs]]");
    for (const toml::node& item : *node.as_array()) {
      RIDGE_TRY(need, read_need(item, source));
      scope.needs.push_back(std::move(need));
    }
  }
  return std::optional(std::move(scope));
}

}  // namespace

Result<std::optional<std::string>> Scope::excludes(const Case& problem_case, const Variables& variables,
                                                   const Reals& reals) const {
  for (const auto& [name, claimed] : values) {
    const std::string value = problem_case.get(name);
    const auto is_it = [&](const std::string& one) { return same_value(one, value); };
    if (value.empty() || std::ranges::any_of(claimed, is_it)) continue;
    return std::optional(fmt::format("{}={} is outside its scope ({})", name, value, fmt::join(claimed, ", ")));
  }
  for (const Constraint& need : needs) {
    if (variables.empty()) break;
    RIDGE_TRY(holds, evaluate(need.expression, variables, reals));
    if (holds == 0) return std::optional(fmt::format("{}: {}", need.expression, need.reason));
  }
  return std::optional<std::string>();
}

Result<std::optional<Scope>> parse_scope(std::string_view source) {
  RIDGE_TRY(found, find_block(source, kScopeMarker));
  if (!found) return std::optional<Scope>();
  try {
    const toml::table root = toml::parse(found->text);
    return read_scope(root, *found);
  } catch (const toml::parse_error& failure) {
    const auto line = failure.source().begin.line;
    return block_error(kScopeMarker, found->line + line - 1, toml_problem(found->text, line, failure.description()));
  }
}

Result<std::optional<Scope>> scope_of(const Candidate& candidate) {
  if (candidate.sources.empty()) return std::optional<Scope>();
  return parse_scope(candidate.sources[0].text);
}

}  // namespace ridge::record
