// Shell completion from the table of commands.
#pragma once

#include <string>

#include "manual.h"

namespace ridge::cli {

std::string bash_completion(const Manual& manual);
std::string zsh_completion(const Manual& manual);
std::string fish_completion(const Manual& manual);

}  // namespace ridge::cli
