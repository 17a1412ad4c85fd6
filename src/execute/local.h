// Runs ridge-worker on this machine: a fresh directory with the request and response files, progress lines forwarded,
// the whole process tree killed on a limit or a stop.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "execute/executor.h"

namespace ridge::execute {

struct LocalOptions {
  // A worker that overruns its own time_limit by this much, or has none and reports no end within `silent_limit`
  // seconds of the last progress line, is hung and killed with its tree.
  double grace = 120.0;
  double silent_limit = 900.0;
  std::map<std::string, std::string> environment = {};  // added to the worker's
};

std::unique_ptr<Executor> make_local_executor(std::filesystem::path worker_program, LocalOptions options = {});

}  // namespace ridge::execute
