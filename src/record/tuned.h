// One line of a tuned table: which implementation a bucket of cases takes on a device, in which of its configurations,
// and what was measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "record/case.h"
#include "ridge/result.h"

namespace ridge::record {

struct TunedChoice {
  std::int64_t version = 1;
  std::string device;  // as DeviceInfo::name
  // Versions of the implementations that took part, "name version; ...". Another version of the one it names makes the
  // line void; another version of what lost does not.
  std::string libraries;
  std::string driver;          // under which it was measured; another one is said by explain(), and tuned again
  std::string limits;          // of a GPU (record/device_limits.h) when it was measured; others: tuned again
  Case bucket;                 // sizes rounded, everything else as it is
  std::string implementation;  // the fastest that was right
  std::string configuration;   // of its builds; empty: its own choice
  std::string over;            // what the default order would have taken, by its own choice
  double ratio = 1;            // time of `over` divided by that of `implementation`, paired
  double latency = 0;          // seconds of one call while it was tuned
  std::int64_t rounds = 0, threads = 1;
  std::vector<std::string> refused;  // implementations whose results left the error model, in words
  std::string disturbed;             // what others used meanwhile, in words: tuned again by the next call
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("device", self.device);
    v("libraries", self.libraries);
    v.optional("driver", self.driver);
    v.optional("limits", self.limits);
    v("bucket", self.bucket);
    v("implementation", self.implementation);
    v.optional("configuration", self.configuration);
    v("over", self.over);
    v("ratio", self.ratio);
    v.optional("latency", self.latency);
    v("rounds", self.rounds);
    v("threads", self.threads);
    v.optional("refused", self.refused);
    v.optional("disturbed", self.disturbed);
  }
};

// Lines of JSON; an error names the file and the line. Empty lines are skipped.
Result<std::vector<TunedChoice>> parse_tuned(std::string_view text, std::string_view file);
std::string tuned_line(const TunedChoice& choice);
// The file of a device's table: "NVIDIA H200" is nvidia-h200.jsonl.
std::string tuned_file_name(std::string_view device);

}  // namespace ridge::record
