#include "record/configuration.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "record/campaign_block.h"
#include "record/expression.h"
#include "record/tunables.h"

namespace ridge::record {
namespace {

// The digits of a definition's value: where they begin in which file, and what they are.
struct Definition {
  std::size_t file = 0, begin = 0, end = 0;
  std::int64_t value = 0;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(" \t", at), text.size());
}

// An integer that is the whole of a value: "4" of "4;", none of "4.5" and "4 * N".
std::optional<Definition> integer_at(std::string_view text, std::size_t at) {
  Definition found{.begin = at};
  const auto [stop, error] = std::from_chars(text.data() + at, text.data() + text.size(), found.value);
  if (error != std::errc()) return std::nullopt;
  found.end = static_cast<std::size_t>(stop - text.data());
  const std::size_t next = skip_blanks(text, found.end);
  const std::string_view rest = text.substr(next);
  const bool comment = rest.starts_with("//") || rest.starts_with("/*");
  const bool ends = rest.empty() || comment || std::string_view(";,)#\r\n").find(rest[0]) != std::string_view::npos;
  return ends ? std::optional(found) : std::nullopt;
}

// `after`: just behind the name, which begins at `name`.
std::optional<Definition> definition_at(std::string_view text, std::size_t name, std::size_t after) {
  const std::size_t line = text.rfind('\n', name) + 1;  // npos + 1 is the first line
  std::string_view before = trimmed(text.substr(line, name - line));
  if (before.starts_with('#')) {
    before = trimmed(before.substr(1));
    return before == "define" ? integer_at(text, skip_blanks(text, after)) : std::nullopt;
  }
  std::size_t at = skip_blanks(text, after);
  if (at < text.size() && text[at] == ':') at = std::min(text.find_first_of("=,;)\n", at), text.size());  // annotated
  if (at + 1 >= text.size() || text[at] != '=' || text[at + 1] == '=') return std::nullopt;
  return integer_at(text, skip_blanks(text, at + 1));
}

bool has_campaign_block(std::string_view source) {
  const auto block = parse_campaign_block(source);
  return block && block->has_value();
}

// Whether a place is inside a comment that describes the kernel: values there are those of named configurations.
bool is_described(std::string_view text, std::size_t at) {
  const std::size_t open = text.rfind("/* ridge-", at);
  return open != std::string_view::npos && text.find("*/", open) > at;
}

std::vector<Definition> definitions_of(const std::vector<SourceFile>& sources, const std::string& name) {
  std::vector<Definition> found;
  for (std::size_t file = 0; file < sources.size(); ++file) {
    const std::string_view text = sources[file].text;
    for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
      const std::size_t after = at + name.size();
      const bool whole = (at == 0 || !is_word(text[at - 1])) && (after == text.size() || !is_word(text[after]));
      if (!whole || is_described(text, at)) continue;
      if (std::optional<Definition> one = definition_at(text, at, after)) {
        one->file = file;
        found.push_back(*one);
      }
    }
  }
  return found;
}

Result<Definition> only(const std::vector<Definition>& found, const std::string& name) {
  if (found.size() == 1) return found.front();
  const std::string problem =
      found.empty() ? "defined nowhere in the sources" : fmt::format("defined {} times", found.size());
  return with_hint(invalid("{} is {}", name, problem),
                   fmt::format("write `#define {0} 1` or `{0} = 1` once; the value is replaced there", name));
}

// An expression over the declared names, at the defaults.
Result<double> at_defaults(const std::string& expression, const Variables& defaults) {
  RIDGE_TRY(names, expression_variables(expression));
  for (const std::string& name : names) {
    if (!defaults.contains(name)) return invalid("\"{}\" speaks of {}, which is not a tunable", expression, name);
  }
  return evaluate_real(expression, defaults);
}

}  // namespace

Result<std::vector<SourceFile>> configured_sources(const Candidate& candidate) {
  std::vector<SourceFile> sources = candidate.sources;
  const bool starts = !sources.empty() && has_campaign_block(sources[0].text);
  std::map<std::string, std::int64_t> start;
  for (const auto& [name, value] : candidate.defines) {
    const std::vector<Definition> found = definitions_of(sources, name);
    // A kernel of the library defines none of its tunables: the source that includes it says where it starts.
    if (found.empty() && starts) {
      start[name] = value;
      continue;
    }
    RIDGE_TRY(place, only(found, name));
    if (place.value == value) continue;
    sources[place.file].text.replace(place.begin, place.end - place.begin, std::to_string(value));
  }
  if (start.empty()) return sources;
  RIDGE_TRY(text, text_with_start(sources[0].text, start));
  sources[0].text = std::move(text);
  return sources;
}

Status check_tunables(const Candidate& candidate) {
  RIDGE_TRY(space, tune_space(candidate));
  Variables defaults;
  for (const Tunable& tunable : space.tunables) defaults[tunable.name] = tunable.default_value;
  for (const Tunable& tunable : space.tunables) {
    RIDGE_TRY(place, only(definitions_of(candidate.sources, tunable.name), tunable.name));
    if (place.value != tunable.default_value) {
      return invalid("{}: default {} is declared, {} defines it as {}", tunable.name, tunable.default_value,
                     candidate.sources[place.file].path, place.value);
    }
    if (!tunable.needs.empty()) RIDGE_CHECK_OK(at_defaults(tunable.needs, defaults));
  }
  for (const Constraint& constraint : space.constraints) {
    RIDGE_TRY(holds, at_defaults(constraint.expression, defaults));
    if (holds == 0) return invalid("the defaults violate \"{}\": {}", constraint.expression, constraint.reason);
  }
  return ok_status();
}

}  // namespace ridge::record
