// One paired look at a candidate, in seconds and outside of any campaign. It decides nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/measurement.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct LookRequest {
  std::string candidate;           // file of the kernel source
  std::string op;                  // that it implements; empty: what the source says
  std::string versus;              // another source, or an implementation; empty: what dispatch chooses
  std::vector<std::string> words;  // shapes; empty: those that the source says it is for, else the operator's own
  std::vector<std::string> defines;
  std::int64_t threads = 1;
};
// Look::ratio is missing where nothing could be measured: it does not build, or a call was wrong.
Result<record::Look> look_at(const Context& context, const LookRequest& request);

}  // namespace ridge::service
