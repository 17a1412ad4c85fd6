// Whether a project is ready for a campaign. Everything is tried, nothing is believed.
#pragma once

#include <string>
#include <vector>

#include "project/project.h"
#include "record/listing.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct HandoffReport {
  std::vector<record::HandoffRow> rows;  // what follows the first failure was not tried
  bool ready = false;
  bool unavailable = false;  // what failed is a program that this machine lacks
};

struct HandoffRequest {
  std::string op, project = ".", mode;  // mode: repo, or workspace: the commit of HEAD, extracted
  bool compile_only = false;            // as far as the build
};
struct HandedProject {
  project::Project project;
  HandoffReport report;
};
Result<HandedProject> hand_off(const Context& context, const HandoffRequest& request);

// The same of a project that was read.
Result<HandoffReport> try_project(const Context& context, const project::Project& project, bool compile_only);

}  // namespace ridge::service
