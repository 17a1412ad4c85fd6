// Changes of a text that leave its structure whole: random bytes almost never get past the first brace of a record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::fuzz {

// Lines of JSON with a few changes: values replaced by extreme ones and by each other, keys and elements dropped and
// doubled, lines dropped, doubled and moved. The same seed gives the same text; lines that are no JSON stay as they
// are.
std::string change_json_lines(std::string_view text, std::uint64_t seed);

// The lines of a journal numbered, chained and hashed anew, up to the first that is no event: what follows a changed
// byte would else be hidden behind the broken chain.
std::string chained_anew(std::string_view text);

// A journal with long texts and lists cut short, chained anew: raw samples and sources are most of its bytes.
std::string thinned_journal(std::string_view text);

}  // namespace ridge::fuzz
