// One line of a tuned table: which implementation a bucket of cases takes on a device, and what was measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "record/case.h"
#include "ridge/result.h"

namespace ridge::record {

struct TunedChoice {
  std::int64_t version = 1;
  std::string device;          // as DeviceInfo::name
  std::string libraries;       // versions of the implementations that took part; others make the line void
  Case bucket;                 // sizes rounded, everything else as it is
  std::string implementation;  // the fastest that was right
  std::string over;            // what the default order would have taken
  double ratio = 1;            // time of `over` divided by that of `implementation`, paired
  std::int64_t rounds = 0, threads = 1;
  std::vector<std::string> refused;  // implementations whose results left the error model, in words
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("device", self.device);
    v("libraries", self.libraries);
    v("bucket", self.bucket);
    v("implementation", self.implementation);
    v("over", self.over);
    v("ratio", self.ratio);
    v("rounds", self.rounds);
    v("threads", self.threads);
    v.optional("refused", self.refused);
  }
};

// Lines of JSON; an error names the file and the line. Empty lines are skipped.
Result<std::vector<TunedChoice>> parse_tuned(std::string_view text, std::string_view file);
std::string tuned_line(const TunedChoice& choice);

}  // namespace ridge::record
