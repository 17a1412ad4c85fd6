// check(condition, what): our own bugs. Prints the place and aborts; never used for a user's input.
#pragma once

#include <string_view>

namespace ridge {

[[noreturn]] void check_failed(std::string_view what, const char* file, int line);

// The place is the caller's. Not std::source_location: clang 14 has none with the standard library of gcc 12.
inline void check(bool condition, std::string_view what, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!condition) check_failed(what, file, line);
}

}  // namespace ridge
