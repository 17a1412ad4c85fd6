#include "config_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/malformed.h"
#include "suggest.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;
using record::CommandEntry;

Result<std::string> scalar_text(const toml::node& node, const std::string& place) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
  if (const auto* toggle = node.as_boolean()) return std::string(toggle->get() ? "true" : "false");
  return with_hint(invalid("{} is a date, a time or a table", place), "write a text, a number, true or false");
}

class Reader {
 public:
  Reader(const Manual& manual, record::Configuration& into) : manual_(manual), into_(into) {}

  // Keys of one command; tables of the same name as a subcommand are the subcommand's.
  Status read(const toml::table& table, const CommandEntry& entry) {
    for (const auto& [key_node, node] : table) {
      const std::string key(key_node.str());
      if (const auto* inner = node.as_table()) {
        RIDGE_TRY(child, child_of(entry, key));
        RIDGE_CHECK_OK(read(*inner, *child));
      } else {
        RIDGE_CHECK_OK(add(entry, key, node));
      }
    }
    return ok_status();
  }

 private:
  [[nodiscard]] std::string place(const CommandEntry& entry, const std::string& key) const {
    return fmt::format("{}: {}{}{}", into_.path, fmt::join(entry.path, "."), entry.path.empty() ? "" : ".", key);
  }

  Result<const CommandEntry*> child_of(const CommandEntry& entry, const std::string& name) {
    for (const CommandEntry* child : manual_.children(entry)) {
      if (child->path.back() == name) return child;
    }
    const std::string close = did_you_mean(name, manual_.child_names(entry));
    return with_hint(
        invalid("{} is no command of {}", place(entry, name), manual_.name_of(entry)),
        close.empty() ? "commands: " + fmt::format("{}", fmt::join(manual_.child_names(entry), ", ")) : close);
  }

  Status add(const CommandEntry& entry, const std::string& key, const toml::node& node) {
    std::vector<std::string> known;
    const record::CommandOption* option = nullptr;
    for (const record::CommandOption& one : entry.options) {
      known.push_back(option_key(one));
      if (known.back() == key) option = &one;
    }
    if (option == nullptr) {
      const std::string close = did_you_mean(key, known);
      return with_hint(invalid("{} is no option of {}", place(entry, key), manual_.name_of(entry)),
                       !close.empty()  ? close
                       : known.empty() ? "it has no options of its own"
                                       : "options: " + fmt::format("{}", fmt::join(known, ", ")));
    }
    record::ConfiguredDefault one{manual_.name_of(entry), key, {}};
    if (const auto* list = node.as_array()) {
      if (!option->repeatable) return invalid("{} takes one value, not a list", place(entry, key));
      for (const toml::node& element : *list) {
        RIDGE_TRY(text, scalar_text(element, place(entry, key)));
        one.values.push_back(std::move(text));
      }
    } else {
      RIDGE_TRY(text, scalar_text(node, place(entry, key)));
      one.values.push_back(std::move(text));
    }
    into_.defaults.push_back(std::move(one));
    return ok_status();
  }

  const Manual& manual_;
  record::Configuration& into_;
};

}  // namespace

fs::path configuration_path() {
  if (const char* xdg = std::getenv("XDG_CONFIG_HOME"); xdg != nullptr && *xdg != '\0')
    return fs::path(xdg) / "ridge" / "config.toml";
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? fs::path() : fs::path(home) / ".config" / "ridge" / "config.toml";
}

Result<record::Configuration> read_configuration(const Manual& manual) {
  record::Configuration configuration;
  configuration.path = configuration_path().string();
  std::error_code missing;
  configuration.exists = !configuration.path.empty() && fs::exists(configuration.path, missing);
  if (!configuration.exists) return configuration;
  RIDGE_TRY(text, read_file(configuration.path));
  toml::table file;
  try {
    file = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    return with_hint(
        invalid("{}: line {}: {}", configuration.path, line, toml_problem(text, line, error.description())),
        "it is TOML: a table per command, for instance [bench], with lines such as threads = 2");
  }
  RIDGE_CHECK_OK(Reader(manual, configuration).read(file, manual.root()));
  return configuration;
}

}  // namespace ridge::cli
