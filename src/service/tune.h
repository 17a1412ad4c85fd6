// Which implementation is fastest for each bucket of cases, kept for dispatch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/tuned.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct TuneRequest {
  std::string op;  // or "all": those that the file of shapes names
  std::string backend = "cpu", shapes, limit;
  std::string measure_on;  // a place (execute/make_executor.h), "local:0,1" or "ssh:gpu1,gpu2"; empty: this machine
  std::string ship;        // also write the lines to this file
  std::vector<std::string> words;
  std::int64_t threads = 1;
  std::optional<std::int64_t> seed;  // of the order in which contenders take turns
  bool again = false, keep_disturbed = false;
};
// What was tuned elsewhere stands in a table of this machine, too, under the name of the device there.
Result<std::vector<record::TunedChoice>> tune(const Context& context, const TuneRequest& request);
inline bool is_disturbed(const record::TunedChoice& one) { return !one.disturbed.empty(); }

// Removes the tables that earlier calls kept, of all devices; how many there were. What ships stays.
Result<int> forget_tuned(const Context& context);

}  // namespace ridge::service
