// An isolated folder around one kernel, ready for rounds of optimisation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/result.h"
#include "service/context.h"
#include "service/roofline.h"

namespace ridge::service {

struct WorkspaceRequest {
  std::string name, kernel, platform, language, op;
  std::vector<std::string> words;
  std::int64_t threads = 1;
  std::string reference, call, shapes, dtype;  // of a reference of the user's
  bool backward = false;
  GivenRates given;
};

// Makes the folder: kernel, README with targets, memory, plans, profiles, and a first commit. What is missing is named
// in one message, nothing is guessed, and a folder that exists is a kConflict.
Status make_workspace(const Context& context, const WorkspaceRequest& request);

}  // namespace ridge::service
