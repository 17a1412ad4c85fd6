// The database as a page for people: docs/hardware.md is this text, and a test holds it to that.
#pragma once

#include <string>

#include "hardware/spec.h"

namespace ridge::hardware {

// `introduction` is data/hardware/README.md, which stands first.
std::string to_markdown(const Database& database, const std::string& introduction);

}  // namespace ridge::hardware
