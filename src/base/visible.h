// Text of proposers, tools and files as it may reach a terminal or a page: what would steer a terminal, or make text
// read backwards, is shown instead of obeyed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge {

struct CodePoint {
  std::uint32_t code = 0;
  std::size_t size = 0;  // bytes; 0: not a valid sequence
};
// The first code point of a text that is not empty. Strict UTF-8: no overlong forms, no surrogates.
CodePoint first_code_point(std::string_view text);

// Control characters other than newline and tab, and the overrides of the writing direction.
bool is_steering(std::uint32_t code);

// Each of those as \u001b, which JSON reads as the same character; bytes that are no UTF-8 as U+FFFD; CR LF stays.
std::string visible(std::string_view text);
// The same, but keeps sequences that only set colours: those of the program itself.
std::string visible_with_colors(std::string_view text);

// The text in one line of at most `most` bytes: steering characters, newlines and tabs as blanks, bytes that are no
// UTF-8 as U+FFFD, no character cut in two; "..." at its end says that more followed. Doing it again changes nothing.
std::string short_line(std::string_view text, std::size_t most);

}  // namespace ridge
