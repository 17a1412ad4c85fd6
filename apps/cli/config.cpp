// ridge config: the user's defaults for flags.
#include <fmt/format.h>

#include "config_file.h"
#include "record/json.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int show(const Manual& manual) {
  const Result<record::Configuration> configuration = read_configuration(manual);
  if (!configuration) return fail(configuration.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(*configuration));
    return kSuccess;
  }
  say("{}{}\n", configuration->path, configuration->exists ? "" : " does not exist: no defaults are changed");
  std::vector<std::vector<std::string>> rows;
  for (const record::ConfiguredDefault& one : configuration->defaults)
    rows.push_back({one.command, "--" + one.option, fmt::format("{}", fmt::join(one.values, ", "))});
  if (!rows.empty()) say("{}", table({"command", "flag", "default"}, rows));
  return kSuccess;
}

int path() {
  if (!globals().json) {
    say("{}\n", configuration_path().string());
    return kSuccess;
  }
  std::error_code missing;
  const std::filesystem::path file = configuration_path();
  say("{}\n", record::to_pretty(record::Configuration{file.string(), std::filesystem::exists(file, missing), {}}));
  return kSuccess;
}

}  // namespace

void define_config(Command root) {
  Command config = root.subcommand("config", "The user's defaults for flags, from a TOML file");
  config.subcommand("show", "Print the defaults that the file sets; names the key that is wrong")
      .example("ridge config show", "every default with the command and flag that it is for")
      .exits({{kUsage, "the file is not TOML, or names a command or flag that does not exist"}})
      .json("the path, whether the file exists, and a list of command, option and values")
      .action([manual = root.manual()] { return show(*manual); });
  config.subcommand("path", "Print where the file is")
      .example("${EDITOR:-vi} \"$(ridge config path)\"",
               "one table per command, for instance [bench] with threads = 2 and time-limit = \"90s\"; "
               "keys above the first table are for every command. Flags beat the environment, which beats the file")
      .exits({})
      .json("the path, and whether the file exists")
      .action(path);
}

}  // namespace ridge::cli
