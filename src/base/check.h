// check(condition, what): our own bugs. Prints the place and aborts; never used for a user's input.
#pragma once

#include <source_location>
#include <string_view>

namespace ridge {

[[noreturn]] void check_failed(std::string_view what, std::source_location where);

inline void check(bool condition, std::string_view what, std::source_location where = std::source_location::current()) {
  if (!condition) check_failed(what, where);
}

}  // namespace ridge
