// A harness and a ridge-project.toml, written into a project and tried.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "record/listing.h"
#include "ridge/result.h"
#include "service/handoff.h"

namespace ridge::service {

struct HarnessRequest {
  std::string project = ".", op, call, language, form = "product", dtype = "f32", shapes, reference, artifact, device,
              prefix, build, acceptance, branch;
  std::vector<std::string> kernel, constraints;
  double peak = 0;
  bool forward_only = false, force = false, dry_run = false;
  // Answers a question that the files and the request leave open; the second word is what stands where it says nothing.
  // Empty: the otherwise is taken.
  std::function<std::string(const std::string& question, const std::string& otherwise)> ask;
};
// The files, written unless it is a dry run. The checks of the handoff are try_project() of the folder.
Result<record::HandoffInit> write_harness(const Context& context, const HarnessRequest& request);

}  // namespace ridge::service
