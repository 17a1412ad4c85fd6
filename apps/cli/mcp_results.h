// The schemas of what the commands print with --json, for the tools that are made of them.
#pragma once

#include <string>

#include "base/json.h"

namespace ridge::cli {

using ResultSchema = Json (*)();

// Null for a command whose document has a form of its own.
ResultSchema result_schema(const std::string& command);

}  // namespace ridge::cli
