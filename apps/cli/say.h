// The one door from the command line to a terminal: every text that is printed goes through it, and nothing of a title,
// a kernel or a file can steer the terminal.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

namespace ridge::cli {

void write_text(std::FILE* stream, std::string_view text);

template <class... Args>
void say(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  write_text(stream, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  write_text(stdout, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ridge::cli
