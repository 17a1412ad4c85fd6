// What limits a kernel: from a report of a profiler, or by running one.
#pragma once

#include <string>
#include <vector>

#include "record/profile.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct ProfileRequest {
  std::string from;          // a report that is there; empty: `command` is run under `tool`
  std::string tool, kernel;  // kernel: part of the name of the one that is meant
  std::string on;            // a product of the spec database; empty: none
  std::string campaign;      // a campaign that gets it as evidence about its incumbent; empty: none
  std::string keep;          // where the profiler's own report of a command is kept
  std::vector<std::string> command;
};
// `kept` of a report for a campaign: where the next rounds find it.
struct ProfiledKernel {
  record::ProfileReport report;
  std::string kept;
};
Result<ProfiledKernel> profile_kernel(const Context& context, const ProfileRequest& request);

}  // namespace ridge::service
