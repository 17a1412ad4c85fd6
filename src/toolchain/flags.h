// Which compiler flags a candidate may ask for.
#pragma once

#include <string_view>

namespace ridge::toolchain {

// Optimisation, code generation and threading flags. Everything that reads or writes other files, loads a plug-in,
// changes the linker or the include path is refused.
bool flag_allowed(std::string_view flag);

}  // namespace ridge::toolchain
