#include "record/source_block.h"

#include <algorithm>

namespace ridge::record {

bool is_macro_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name[0] >= 'A' && name[0] <= 'Z' && std::ranges::all_of(name, plain);
}

Result<std::optional<SourceBlock>> find_block(std::string_view source, std::string_view marker) {
  for (std::size_t at = source.find("/*"); at != std::string_view::npos; at = source.find("/*", at + 2)) {
    const std::size_t word = source.find_first_not_of(" \t\r\n*", at + 2);
    if (word == std::string_view::npos || !source.substr(word).starts_with(marker)) continue;
    const std::size_t begin = word + marker.size();
    const std::size_t end = source.find("*/", begin);
    const auto line = 1 + static_cast<std::size_t>(std::ranges::count(source.substr(0, begin), '\n'));
    if (end == std::string_view::npos) return block_error(marker, line, "the comment is not closed");
    return std::optional<SourceBlock>(SourceBlock{marker, source.substr(begin, end - begin), line});
  }
  return std::optional<SourceBlock>();
}

Status BlockKeys::text(std::string_view key, std::string& out, bool required) {
  const toml::node* node = find(key);
  if (node == nullptr) return required ? Status(missing(key)) : ok_status();
  if (!node->is_string()) return error_at(*node, fmt::format("\"{}\" must be a string", key));
  out = **node->as_string();
  return ok_status();
}

Status BlockKeys::boolean(std::string_view key, bool& out) {
  const toml::node* node = find(key);
  if (node == nullptr) return ok_status();
  if (!node->is_boolean()) return error_at(*node, fmt::format("\"{}\" must be true or false", key));
  out = **node->as_boolean();
  return ok_status();
}

Status BlockKeys::integer(std::string_view key, std::int64_t& out, bool required) {
  const toml::node* node = find(key);
  if (node == nullptr) return required ? Status(missing(key)) : ok_status();
  if (!node->is_integer()) return error_at(*node, fmt::format("\"{}\" must be an integer", key));
  out = **node->as_integer();
  return ok_status();
}

Status BlockKeys::finish() const {
  for (const auto& [key, node] : table_) {
    if (!known_.contains(key.str())) return error_at(node, fmt::format("unknown key \"{}\"", key.str()));
  }
  return ok_status();
}

}  // namespace ridge::record
