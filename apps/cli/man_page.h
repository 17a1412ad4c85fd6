// Manual pages (section 1) from the table of commands.
#pragma once

#include <string>

#include "manual.h"

namespace ridge::cli {

// "ridge-campaign-extend.1".
std::string man_page_file(const Manual& manual, const record::CommandEntry& entry);
// In roff with the man macros.
std::string man_page(const Manual& manual, const record::CommandEntry& entry);

}  // namespace ridge::cli
