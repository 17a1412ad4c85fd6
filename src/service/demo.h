// What `ridge demo` needs beside a campaign of the shipped plain matrix multiplication.
#pragma once

#include <filesystem>
#include <string>

#include "ridge/result.h"
#include "service/draft.h"

namespace ridge::service {

// campaigns/demo-20260131, or with a number where that is taken.
std::filesystem::path demo_folder();
// The draft of a campaign of the shipped plain matrix multiplication on this processor.
DraftRequest demo_request(const std::filesystem::path& directory, const std::string& budget, const RunRequest& run);

// Every file rendered again from the journal, and every round decided again from the raw samples.
struct DemoAudit {
  bool good = false;
  std::string said;
};
Result<DemoAudit> audit_demo(const std::filesystem::path& directory);

}  // namespace ridge::service
