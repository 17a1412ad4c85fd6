// What a candidate may use of the system's libraries.
#pragma once

#include <string_view>

namespace ridge::evaluate {

// By the name that the loader looks for: the libraries of the C and C++ compiler.
bool library_allowed(std::string_view library);

// `library` is where the linker found it; empty: not known.
bool import_allowed(std::string_view symbol, std::string_view library);

}  // namespace ridge::evaluate
