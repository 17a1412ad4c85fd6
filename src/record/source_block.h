// TOML that a source carries in a comment: /* <marker> ... */. Internal to this folder.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <toml++/toml.h>

#include "base/error.h"

namespace ridge::record {

// The text between the marker and the end of its comment, and the line of the source on which it starts.
struct SourceBlock {
  std::string_view marker, text;
  std::size_t line = 1;
};

inline Error block_error(std::string_view marker, std::size_t line, std::string what) {
  return with_hint(invalid("{}, line {}: {}", marker, line, what), "its keys are described in docs/candidates.md");
}

// A name that a value can be given to with -DNAME=VALUE: A-Z, 0-9 and _, a letter first.
bool is_macro_name(std::string_view name);

// The first block of that marker, or nothing; an error when its comment is not closed.
Result<std::optional<SourceBlock>> find_block(std::string_view source, std::string_view marker);

// Reads the keys of one table, each at most once, and complains about keys that were never asked for.
class BlockKeys {
 public:
  BlockKeys(const toml::table& table, const SourceBlock& block) : table_(table), block_(block) {}

  [[nodiscard]] std::size_t line_of(const toml::node& node) const { return block_.line + node.source().begin.line - 1; }
  [[nodiscard]] std::size_t line() const { return line_of(table_); }
  [[nodiscard]] const SourceBlock& block() const { return block_; }
  [[nodiscard]] Error error(std::size_t line, std::string what) const {
    return block_error(block_.marker, line, std::move(what));
  }
  [[nodiscard]] Error error_at(const toml::node& node, std::string what) const {
    return error(line_of(node), std::move(what));
  }
  [[nodiscard]] Error missing(std::string_view key) const {
    return error(line(), fmt::format("key \"{}\" is missing", key));
  }

  // Null when the key is absent.
  const toml::node* find(std::string_view key) {
    known_.emplace(key);
    return table_.get(key);
  }
  Status text(std::string_view key, std::string& out, bool required);
  Status boolean(std::string_view key, bool& out);
  Status integer(std::string_view key, std::int64_t& out, bool required);
  Status finish() const;

 private:
  const toml::table& table_;
  const SourceBlock& block_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace ridge::record
