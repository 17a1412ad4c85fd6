#include "record/tunables.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include <toml++/toml.h>

#include "base/error.h"

namespace ridge::record {
namespace {

constexpr std::string_view kMarker = "ridge-tunables";

Error at(std::size_t line, std::string what) {
  return with_hint(invalid("ridge-tunables, line {}: {}", line, what),
                   "the keys of [[tunable]] and [[constraint]] are described in docs/proposers.md");
}

// The text between the marker and the end of its comment, and the line of the source on which it starts.
struct Block {
  std::string_view text;
  std::size_t line = 1;
};

Result<std::optional<Block>> find_block(std::string_view source) {
  std::size_t position = 0;
  while ((position = source.find("/*", position)) != std::string_view::npos) {
    const std::size_t word = source.find_first_not_of(" \t\r\n*", position + 2);
    if (word != std::string_view::npos && source.substr(word).starts_with(kMarker)) {
      const std::size_t begin = word + kMarker.size();
      const std::size_t end = source.find("*/", begin);
      const auto line = 1 + static_cast<std::size_t>(std::ranges::count(source.substr(0, begin), '\n'));
      if (end == std::string_view::npos) return at(line, "the comment is not closed");
      return std::optional<Block>(Block{source.substr(begin, end - begin), line});
    }
    position += 2;
  }
  return std::optional<Block>();
}

// Reads the keys of one table, each at most once, and complains about what nobody asked for.
class Keys {
 public:
  Keys(const toml::table& table, std::size_t first_line) : table_(table), first_line_(first_line) {}

  [[nodiscard]] std::size_t line_of(const toml::node& node) const { return first_line_ + node.source().begin.line - 1; }
  [[nodiscard]] std::size_t line() const { return line_of(table_); }

  Status text(std::string_view key, std::string& out, bool required) {
    const toml::node* node = find(key);
    if (node == nullptr) return required ? Status(missing(key)) : ok_status();
    if (!node->is_string()) return at(line_of(*node), fmt::format("\"{}\" must be a string", key));
    out = **node->as_string();
    return ok_status();
  }
  Status integer(std::string_view key, std::int64_t& out) {
    const toml::node* node = find(key);
    if (node == nullptr) return missing(key);
    if (!node->is_integer()) return at(line_of(*node), fmt::format("\"{}\" must be an integer", key));
    out = **node->as_integer();
    return ok_status();
  }
  Status integers(std::string_view key, std::vector<std::int64_t>& out) {
    const toml::node* node = find(key);
    if (node == nullptr) return missing(key);
    const toml::array* array = node->as_array();
    if (array == nullptr || array->empty()) {
      return at(line_of(*node), fmt::format("\"{}\" must be a list of integers", key));
    }
    for (const toml::node& item : *array) {
      if (!item.is_integer()) return at(line_of(item), fmt::format("\"{}\" holds something else than integers", key));
      out.push_back(**item.as_integer());
    }
    return ok_status();
  }
  Status finish() const {
    for (const auto& [key, node] : table_) {
      if (!known_.contains(key.str())) return at(line_of(node), fmt::format("unknown key \"{}\"", key.str()));
    }
    return ok_status();
  }

 private:
  const toml::node* find(std::string_view key) {
    known_.emplace(key);
    return table_.get(key);
  }
  [[nodiscard]] Error missing(std::string_view key) const {
    return at(line(), fmt::format("key \"{}\" is missing", key));
  }

  const toml::table& table_;
  std::size_t first_line_;
  std::set<std::string, std::less<>> known_;
};

bool is_macro_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name[0] >= 'A' && name[0] <= 'Z' && std::ranges::all_of(name, plain);
}

Result<Tunable> read_tunable(Keys keys) {
  Tunable tunable;
  RIDGE_CHECK_OK(keys.text("name", tunable.name, true));
  RIDGE_CHECK_OK(keys.integers("values", tunable.values));
  RIDGE_CHECK_OK(keys.integer("default", tunable.default_value));
  RIDGE_CHECK_OK(keys.text("kind", tunable.kind, false));
  RIDGE_CHECK_OK(keys.text("category", tunable.category, false));
  RIDGE_CHECK_OK(keys.text("title", tunable.title, true));
  RIDGE_CHECK_OK(keys.text("effect", tunable.effect, false));
  RIDGE_CHECK_OK(keys.text("needs", tunable.needs, false));
  RIDGE_CHECK_OK(keys.text("model", tunable.model, false));
  RIDGE_CHECK_OK(keys.text("group", tunable.group, false));
  RIDGE_CHECK_OK(keys.finish());
  if (!is_macro_name(tunable.name)) {
    return at(keys.line(), fmt::format("\"{}\" is not a macro name (A-Z, 0-9, _)", tunable.name));
  }
  if (tunable.kind != "parameter" && tunable.kind != "structure") {
    return at(keys.line(),
              fmt::format("{}: kind \"{}\" is neither parameter nor structure", tunable.name, tunable.kind));
  }
  if (std::ranges::find(tunable.values, tunable.default_value) == tunable.values.end()) {
    return at(keys.line(), fmt::format("{}: default {} is not among its values", tunable.name, tunable.default_value));
  }
  if (std::set(tunable.values.begin(), tunable.values.end()).size() != tunable.values.size()) {
    return at(keys.line(), fmt::format("{}: a value is listed twice", tunable.name));
  }
  return tunable;
}

Result<Constraint> read_constraint(Keys keys) {
  Constraint constraint;
  RIDGE_CHECK_OK(keys.text("expression", constraint.expression, true));
  RIDGE_CHECK_OK(keys.text("reason", constraint.reason, true));
  RIDGE_CHECK_OK(keys.finish());
  return constraint;
}

Result<TuneSpace> read_space(const toml::table& root, std::size_t first_line) {
  TuneSpace space;
  std::set<std::string> names;
  for (const auto& [key, node] : root) {
    const std::size_t line = first_line + node.source().begin.line - 1;
    const toml::array* tables = node.as_array();
    const bool tunables = key.str() == "tunable", constraints = key.str() == "constraint";
    if ((!tunables && !constraints) || tables == nullptr) {
      return at(line, fmt::format("\"{}\" is neither [[tunable]] nor [[constraint]]", key.str()));
    }
    for (const toml::node& item : *tables) {
      if (!item.is_table()) return at(line, fmt::format("\"{}\" must be written as [[{}]]", key.str(), key.str()));
      Keys keys(*item.as_table(), first_line);
      if (tunables) {
        RIDGE_TRY(tunable, read_tunable(keys));
        if (!names.insert(tunable.name).second) {
          return at(keys.line(), fmt::format("{} is declared twice", tunable.name));
        }
        space.tunables.push_back(std::move(tunable));
      } else {
        RIDGE_TRY(constraint, read_constraint(keys));
        space.constraints.push_back(std::move(constraint));
      }
    }
  }
  return space;
}

}  // namespace

Result<TuneSpace> parse_tunables(std::string_view source) {
  RIDGE_TRY(block, find_block(source));
  if (!block) return TuneSpace{};
  try {
    const toml::table root = toml::parse(block->text);
    return read_space(root, block->line);
  } catch (const toml::parse_error& failure) {
    return at(block->line + failure.source().begin.line - 1, std::string(failure.description()));
  }
}

Result<TuneSpace> tune_space(const Candidate& candidate) {
  if (candidate.sources.empty()) return invalid("candidate \"{}\" has no source", candidate.name);
  Result<TuneSpace> space = parse_tunables(candidate.sources[0].text);
  if (!space) return in_context(candidate.sources[0].path, space.error());
  return space;
}

}  // namespace ridge::record
