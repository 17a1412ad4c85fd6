// The user's defaults for flags: $XDG_CONFIG_HOME/ridge/config.toml.
//
//   color = "never"            # of every command
//   [bench]                    # of one
//   threads = 2
//   [campaign.extend]
//   budget = "10m"
#pragma once

#include <filesystem>

#include "manual.h"
#include "record/command_table.h"
#include "ridge/result.h"

namespace ridge::cli {

// XDG_CONFIG_HOME, else ~/.config; empty where neither is known.
std::filesystem::path configuration_path();

// What the file says; nothing where there is none. Errors name the file, the line or key, and the name that is close:
// malformed TOML, a command or option that does not exist, a value that is no text, number, switch or list of them.
Result<record::Configuration> read_configuration(const Manual& manual);

}  // namespace ridge::cli
