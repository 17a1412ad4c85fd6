#include "record/reference.h"

#include <algorithm>
#include <cctype>

#include "base/malformed.h"
#include "base/text.h"
#include "record/archive.h"
#include "record/source_block.h"

namespace ridge::record {
namespace {

constexpr std::string_view kReferenceMarker = "ridge-reference";

bool is_identifier(std::string_view text) {
  const auto part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::all_of(text.begin(), text.end(), part);
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string& word : split(std::string(text), ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

bool number_of(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && value >= -1e30 && value <= 1e30;
}

class ReferenceReader {
 public:
  ReferenceReader(const toml::table& root, const SourceBlock& source) : keys_(root, source) {}

  Result<ReferenceBlock> read() {
    RIDGE_CHECK_OK(keys_.text("function", block_.function, true));
    if (!is_identifier(block_.function))
      return keys_.error(keys_.line(), fmt::format("\"{}\" is no name of a function", block_.function));
    RIDGE_CHECK_OK(list("sizes", [&](const toml::node& at, const std::string& text) -> Status {
      const bool twice = std::ranges::find(block_.sizes, text) != block_.sizes.end();
      if (!is_identifier(text) || twice)
        return keys_.error_at(at, fmt::format("the size \"{}\" is no name, or is there twice", text));
      block_.sizes.push_back(text);
      return ok_status();
    }));
    RIDGE_CHECK_OK(list("inputs", [&](const toml::node& at, const std::string& text) {
      return operand(at, text, true, block_.inputs);
    }));
    RIDGE_CHECK_OK(list("outputs", [&](const toml::node& at, const std::string& text) {
      return operand(at, text, false, block_.outputs);
    }));
    RIDGE_CHECK_OK(factors("sums", false, block_.sums));
    RIDGE_CHECK_OK(factors("flop", true, block_.flop));
    RIDGE_CHECK_OK(keys_.finish());
    return std::move(block_);
  }

 private:
  template <class Take>
  Status list(std::string_view key, const Take& take) {
    const toml::node* node = keys_.find(key);
    if (node == nullptr) return keys_.missing(key);
    const toml::array* array = node->as_array();
    if (array == nullptr || array->empty())
      return keys_.error_at(*node, fmt::format("\"{}\" must be a list of at least one text", key));
    for (const toml::node& item : *array) {
      if (!item.is_string()) return keys_.error_at(item, fmt::format("\"{}\" must be a list of texts", key));
      RIDGE_CHECK_OK(take(item, **item.as_string()));
    }
    return ok_status();
  }

  [[nodiscard]] bool is_size(const std::string& word) const {
    return std::ranges::find(block_.sizes, word) != block_.sizes.end();
  }

  // "x: rows columns", "scale: columns in 0.5 2"
  Status operand(const toml::node& at, const std::string& text, bool drawn, std::vector<ReferenceOperand>& into) {
    const auto refused = [&](const std::string& why) {
      return Status(keys_.error_at(at, fmt::format("the operand \"{}\" {}; write \"NAME: SIZE SIZE\", for an input "
                                                   "also \"in LOW HIGH\" behind it",
                                                   text, why)));
    };
    const std::size_t colon = text.find(':');
    ReferenceOperand one;
    one.name = std::string(trimmed(text.substr(0, colon)));
    if (colon == std::string::npos || !is_identifier(one.name)) return refused("has no name");
    std::vector<std::string> words = words_of(text.substr(colon + 1));
    if (const auto in = std::ranges::find(words, "in"); in != words.end()) {
      const bool bounds = drawn && words.end() - in == 3 && number_of(in[1], one.low) && number_of(in[2], one.high);
      if (!bounds || !(one.low < one.high)) return refused("has no two numbers in ascending order behind \"in\"");
      words.erase(in, words.end());
    }
    for (const std::string& word : words) {
      if (!is_size(word)) return refused(fmt::format("has \"{}\", which is none of its sizes", word));
    }
    const auto same = [&](const ReferenceOperand& other) { return other.name == one.name; };
    if (words.empty()) return refused("has no size");
    if (is_size(one.name) || std::ranges::any_of(block_.inputs, same) || std::ranges::any_of(block_.outputs, same))
      return refused("has a name that is there twice");
    one.sizes = std::move(words);
    into.push_back(std::move(one));
    return ok_status();
  }

  Status factors(std::string_view key, bool numbers, std::vector<std::string>& into) {
    std::string text;
    RIDGE_CHECK_OK(keys_.text(key, text, false));
    into = words_of(text);
    for (const std::string& word : into) {
      double value = 0;
      if (is_size(word) || (numbers && number_of(word, value) && value > 0)) continue;
      return keys_.error(keys_.line(),
                         fmt::format("{} = \"{}\": {} is no size{}", key, text, word, numbers ? " and no number" : ""));
    }
    return ok_status();
  }

  BlockKeys keys_;
  ReferenceBlock block_;
};

}  // namespace

template struct Codec<ReferenceFacts>;

Result<ReferenceBlock> parse_reference_block(std::string_view source) {
  RIDGE_TRY(found, find_block(source, kReferenceMarker));
  if (!found) {
    return with_hint(invalid("the reference has no {} comment", kReferenceMarker),
                     "say its operands in one: docs/workspace.md shows it");
  }
  try {
    const toml::table root = toml::parse(found->text);
    return ReferenceReader(root, *found).read();
  } catch (const toml::parse_error& failure) {
    const auto line = failure.source().begin.line;
    return block_error(kReferenceMarker, found->line + line - 1,
                       toml_problem(found->text, line, failure.description()));
  }
}

}  // namespace ridge::record
