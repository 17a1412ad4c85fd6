#include "record/tunables.h"

#include <algorithm>
#include <set>
#include <string>

#include <fmt/ranges.h>

#include "base/malformed.h"
#include "record/campaign_block.h"
#include "record/category.h"
#include "record/source_block.h"

namespace ridge::record {
namespace {

constexpr std::string_view kTunablesMarker = "ridge-tunables";

Status integers(BlockKeys& keys, std::string_view key, std::vector<std::int64_t>& out) {
  const toml::node* node = keys.find(key);
  if (node == nullptr) return keys.missing(key);
  const toml::array* array = node->as_array();
  if (array == nullptr || array->empty()) {
    return keys.error_at(*node, fmt::format("\"{}\" must be a list of integers", key));
  }
  for (const toml::node& item : *array) {
    if (!item.is_integer()) {
      return keys.error_at(item, fmt::format("\"{}\" holds something else than integers", key));
    }
    out.push_back(**item.as_integer());
  }
  return ok_status();
}

Result<Tunable> read_tunable(BlockKeys& keys) {
  Tunable tunable;
  RIDGE_CHECK_OK(keys.text("name", tunable.name, true));
  RIDGE_CHECK_OK(integers(keys, "values", tunable.values));
  RIDGE_CHECK_OK(keys.integer("default", tunable.default_value, true));
  RIDGE_CHECK_OK(keys.text("kind", tunable.kind, false));
  RIDGE_CHECK_OK(keys.text("category", tunable.category, false));
  RIDGE_CHECK_OK(keys.text("title", tunable.title, true));
  RIDGE_CHECK_OK(keys.text("effect", tunable.effect, false));
  RIDGE_CHECK_OK(keys.text("needs", tunable.needs, false));
  RIDGE_CHECK_OK(keys.text("model", tunable.model, false));
  RIDGE_CHECK_OK(keys.text("group", tunable.group, false));
  RIDGE_CHECK_OK(keys.finish());
  if (!is_macro_name(tunable.name)) {
    return keys.error(keys.line(), fmt::format("\"{}\" is not a macro name (A-Z, 0-9, _)", tunable.name));
  }
  if (tunable.kind != "parameter" && tunable.kind != "structure") {
    return keys.error(keys.line(),
                      fmt::format("{}: kind \"{}\" is neither parameter nor structure", tunable.name, tunable.kind));
  }
  if (std::ranges::find(kCategories, tunable.category) == std::end(kCategories)) {
    return keys.error(keys.line(), fmt::format("{}: category \"{}\" is not one of {}", tunable.name, tunable.category,
                                               fmt::join(kCategories, ", ")));
  }
  if (std::ranges::find(tunable.values, tunable.default_value) == tunable.values.end()) {
    return keys.error(keys.line(),
                      fmt::format("{}: default {} is not among its values", tunable.name, tunable.default_value));
  }
  if (std::set(tunable.values.begin(), tunable.values.end()).size() != tunable.values.size()) {
    return keys.error(keys.line(), fmt::format("{}: a value is listed twice", tunable.name));
  }
  return tunable;
}

Result<Constraint> read_constraint(BlockKeys& keys) {
  Constraint constraint;
  RIDGE_CHECK_OK(keys.text("expression", constraint.expression, true));
  RIDGE_CHECK_OK(keys.text("reason", constraint.reason, true));
  RIDGE_CHECK_OK(keys.finish());
  return constraint;
}

Result<TuneSpace> read_space(const toml::table& root, const SourceBlock& block) {
  TuneSpace space;
  std::set<std::string> names;
  for (const auto& [key, node] : root) {
    const std::size_t line = block.line + node.source().begin.line - 1;
    const toml::array* tables = node.as_array();
    const bool tunables = key.str() == "tunable", constraints = key.str() == "constraint";
    if ((!tunables && !constraints) || tables == nullptr) {
      return block_error(kTunablesMarker, line,
                         fmt::format("\"{}\" is neither [[tunable]] nor [[constraint]]", key.str()));
    }
    for (const toml::node& item : *tables) {
      if (!item.is_table())
        return block_error(kTunablesMarker, line,
                           fmt::format("\"{}\" must be written as [[{}]]", key.str(), key.str()));
      BlockKeys keys(*item.as_table(), block);
      if (tunables) {
        RIDGE_TRY(tunable, read_tunable(keys));
        if (!names.insert(tunable.name).second) {
          return keys.error(keys.line(), fmt::format("{} is declared twice", tunable.name));
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

Result<Tunable*> tunable_of(TuneSpace& space, const std::string& name) {
  const auto found = std::ranges::find(space.tunables, name, &Tunable::name);
  if (found == space.tunables.end()) return invalid("ridge-campaign: {} is no tunable of the source", name);
  return &*found;
}

// Sets the defaults that a campaign starts from and leaves tunables that it does not vary one value.
Status begin_as(const CampaignBlock& block, TuneSpace& space) {
  for (const auto& [name, value] : block.start) {
    RIDGE_TRY(tunable, tunable_of(space, name));
    if (std::ranges::find(tunable->values, value) == tunable->values.end()) {
      return invalid("ridge-campaign: {} = {} is not among its values: {}", name, value,
                     fmt::join(tunable->values, ", "));
    }
    tunable->default_value = value;
  }
  for (const std::string& name : block.fixed_tunables) {
    RIDGE_TRY(tunable, tunable_of(space, name));
    tunable->values = {tunable->default_value};
  }
  return ok_status();
}

}  // namespace

Result<TuneSpace> parse_tunables(std::string_view source) {
  RIDGE_TRY(block, find_block(source, kTunablesMarker));
  if (!block) return TuneSpace{};
  try {
    const toml::table root = toml::parse(block->text);
    return read_space(root, *block);
  } catch (const toml::parse_error& failure) {
    const auto line = failure.source().begin.line;
    return block_error(kTunablesMarker, block->line + line - 1, toml_problem(block->text, line, failure.description()));
  }
}

Result<TuneSpace> tune_space(const Candidate& candidate) {
  if (candidate.sources.empty()) return invalid("candidate \"{}\" has no source", candidate.name);
  TuneSpace space;
  for (const SourceFile& source : candidate.sources) {
    Result<TuneSpace> declared = parse_tunables(source.text);
    if (!declared) return in_context(source.path, declared.error());
    space = std::move(*declared);
    if (!space.tunables.empty()) break;
  }
  const Result<std::optional<CampaignBlock>> block = parse_campaign_block(candidate.sources[0].text);
  if (!block) return in_context(candidate.sources[0].path, block.error());
  if (*block) RIDGE_CHECK_OK(begin_as(**block, space));
  return space;
}

}  // namespace ridge::record
