// Untrusted text made safe for a page: titles, reasons and logs come from proposers and tools.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ridge::report {

// Valid UTF-8: broken sequences, control characters (other than newline and tab) and the direction overrides that can
// make text read backwards become U+FFFD.
std::string clean_utf8(std::string_view text);

// For HTML and SVG, in text and in double-quoted attributes.
std::string escape_html(std::string_view text);

// For running Markdown text on one line, table cells included: newlines become spaces, `|` and markup are escaped.
std::string escape_markdown(std::string_view text);

// Clean and on one line; what goes beyond `limit` code points becomes an ellipsis.
std::string one_line(std::string_view text, std::size_t limit);

// Code points of valid UTF-8: what a drawing needs to estimate a text's width.
std::size_t length_utf8(std::string_view text);

}  // namespace ridge::report
