// A program that goes on when the one that started it ends, for instance an engine that a page was asked to start.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge::execute {

// Starts it in a session of its own, with no input and both outputs in `log`. An Error when it could not be started, or
// ended with another code than 0 within `seconds`: then it holds the end of what it wrote.
Status start_in_background(const std::vector<std::string>& argv, const std::filesystem::path& log,
                           double seconds = 1.0);

}  // namespace ridge::execute
