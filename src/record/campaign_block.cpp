#include "record/campaign_block.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/malformed.h"
#include "record/case.h"
#include "record/source_block.h"

namespace ridge::record {
namespace {

constexpr std::string_view kCampaignMarker = "ridge-campaign";

Status read_cases(BlockKeys& keys, const std::string& op, std::vector<std::string>& cases) {
  const toml::node* node = keys.find("cases");
  if (node == nullptr) return keys.missing("cases");
  const toml::array* array = node->as_array();
  if (array == nullptr || array->empty()) return keys.error_at(*node, "\"cases\" must be a list of at least one case");
  for (const toml::node& item : *array) {
    if (!item.is_string()) return keys.error_at(item, "a case is a text such as \"m=4096 n=4096 k=4096\"");
    std::string words = **item.as_string();
    if (auto one = parse_case(op + " " + words); !one) return keys.error_at(item, one.error().message);
    cases.push_back(std::move(words));
  }
  return ok_status();
}

Result<std::optional<CampaignBlock>> read_block(const toml::table& root, const SourceBlock& source) {
  BlockKeys keys(root, source);
  CampaignBlock block;
  RIDGE_CHECK_OK(keys.text("op", block.op, true));
  RIDGE_CHECK_OK(read_cases(keys, block.op, block.cases));
  if (const toml::node* start = keys.find("start")) {
    if (!start->is_table()) return keys.error_at(*start, "\"start\" must be a table { NAME = VALUE }");
    for (const auto& [name, value] : *start->as_table()) {
      if (!value.is_integer()) return keys.error_at(value, fmt::format("{} must be an integer", name.str()));
      block.start[std::string(name.str())] = **value.as_integer();
    }
  }
  if (const toml::node* fixed = keys.find("fixed")) {
    if (!fixed->is_array()) return keys.error_at(*fixed, "\"fixed\" must be a list of tunables");
    for (const toml::node& name : *fixed->as_array()) {
      if (!name.is_string()) return keys.error_at(name, "\"fixed\" must be a list of tunables");
      block.fixed_tunables.push_back(**name.as_string());
    }
  }
  RIDGE_CHECK_OK(keys.finish());
  return std::optional(std::move(block));
}

}  // namespace

std::vector<std::string> CampaignBlock::fixed() const {
  std::vector<std::string> kept;
  for (const std::string& words : cases) {
    const auto one = parse_case(op + " " + words);
    if (!one) continue;
    std::vector<std::string> both;
    for (const Param& param : one->params) {
      std::string text = param.name + "=" + param.value;
      if (&words == &cases.front() || std::find(kept.begin(), kept.end(), text) != kept.end())
        both.push_back(std::move(text));
    }
    kept = std::move(both);
  }
  return kept;
}

Result<std::optional<CampaignBlock>> parse_campaign_block(std::string_view source) {
  RIDGE_TRY(found, find_block(source, kCampaignMarker));
  if (!found) return std::optional<CampaignBlock>();
  try {
    const toml::table root = toml::parse(found->text);
    return read_block(root, *found);
  } catch (const toml::parse_error& failure) {
    const auto line = failure.source().begin.line;
    return block_error(kCampaignMarker, found->line + line - 1, toml_problem(found->text, line, failure.description()));
  }
}

Result<std::string> text_with_start(std::string_view source, const std::map<std::string, std::int64_t>& values) {
  RIDGE_TRY(block, parse_campaign_block(source));
  RIDGE_TRY(found, find_block(source, kCampaignMarker));
  if (!block || !found) return invalid("the source has no {} comment", kCampaignMarker);
  for (const auto& [name, value] : values) block->start[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : block->start) entries.push_back(fmt::format("{} = {}", name, value));
  const std::string line = fmt::format("start = {{ {} }}\n", fmt::join(entries, ", "));
  const toml::table root = toml::parse(found->text);  // it was read above
  const toml::node* old = root.get("start");
  if (old != nullptr && !old->as_table()->is_inline()) {
    return with_hint(invalid("{}: [start] is a table of several lines", kCampaignMarker),
                     "write start = { NAME = VALUE } on one line");
  }
  // A new line goes before that of the first key, which ends no table.
  auto first = (old != nullptr ? *old : *root.get("op")).source().begin.line;
  for (const auto& [key, node] : root) {
    if (old == nullptr) first = std::min(first, key.source().begin.line);
  }
  const auto begin_of = [&](toml::source_index number) {
    auto at = static_cast<std::size_t>(found->text.data() - source.data());
    for (toml::source_index line_number = 1; line_number < number; ++line_number) at = source.find('\n', at) + 1;
    return at;
  };
  std::string text(source);
  const std::size_t from = begin_of(first);
  text.replace(from, old != nullptr ? begin_of(old->source().end.line + 1) - from : 0, line);
  RIDGE_CHECK_OK(parse_campaign_block(text));
  return text;
}

}  // namespace ridge::record
