// What a round changed in the source, as unified diff text.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "record/candidate.h"

namespace ridge::report {

// Lines of `before` and `after` with three lines of context; empty when they are equal. At most `max_lines` lines come
// out, then a line says how many were left out.
std::string unified_diff(std::string_view path, std::string_view before, std::string_view after,
                         std::size_t max_lines = 400);

// All files that differ, in the order of `after`, then removed ones.
std::string source_diff(std::span<const record::SourceFile> before, std::span<const record::SourceFile> after);

}  // namespace ridge::report
