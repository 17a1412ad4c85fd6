// Asks the harness of a workspace what its reference gives.
#pragma once

#include <filesystem>

#include "base/process.h"
#include "execute/executor.h"
#include "record/reference.h"
#include "ridge/result.h"

namespace ridge::execute {

// Runs the harness's --describe in `folder`. A reference that cannot judge (it does not run in float64, changes its
// inputs, gives NaN, differs from run to run) is kConflict with the reason; a Python without PyTorch is kUnsupported.
Result<record::ReferenceFacts> describe_reference(const std::filesystem::path& folder, const std::string& harness,
                                                  const ShouldStop& should_stop);

}  // namespace ridge::execute
