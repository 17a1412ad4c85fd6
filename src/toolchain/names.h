// What a candidate may call its files and macros, and how a compiler's log is kept. Internal to this folder.
#pragma once

#include <string>
#include <string_view>

namespace ridge::toolchain {

bool is_macro_name(std::string_view name);
// A relative path without ".." that no command line takes for an option.
bool stays_inside(const std::string& path);
// The log without the name of the private directory it was built in, cut after a few screens.
std::string shortened(const std::string& log, const std::string& private_directory);

}  // namespace ridge::toolchain
