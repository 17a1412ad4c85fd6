// The kernel of a workspace, checked and measured: version v0 of its memory.
#pragma once

#include <string>

#include "record/iteration.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct BaselineRequest {
  std::string workspace = ".";
  std::string budget;  // "60s" for the measurement; empty: none
};
// kConflict without a hint: the kernel is wrong on a case.
Result<record::Iteration> make_baseline(const Context& context, const BaselineRequest& request);

}  // namespace ridge::service
