// What a profiler saw of one kernel, in the names of no tool, and what that means.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "record/iteration.h"

namespace ridge::record {

struct ProfiledKernel {
  std::string name;
  std::int64_t launches = 0;
  double time = 0;   // seconds, all launches together
  double share = 0;  // of the time of all kernels of the report
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("launches", self.launches);
    v("time", self.time);
    v("share", self.share);
  }
};

// One quantity over the launches of the target.
struct ProfileMetric {
  std::string name, unit;  // unit: "1" (a fraction or a count), "s", "B", "B/s"
  double median = 0, low = 0, high = 0;
  std::int64_t launches = 0;
  std::string source;  // the tool's own name for it
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("unit", self.unit);
    v("median", self.median);
    v("low", self.low);
    v("high", self.high);
    v("launches", self.launches);
    v("source", self.source);
  }
};

// What may be wrong, most promising first. The gain is an upper estimate: what removing the finding alone could bring.
struct ProfileHypothesis {
  std::string name, bottleneck, evidence, action;
  double gain = 0;  // fraction: 0.25 is 25 % faster
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("bottleneck", self.bottleneck);
    v("evidence", self.evidence);
    v("action", self.action);
    v("gain", self.gain);
  }
};

struct ProfileReport {
  std::int64_t version = 1;
  std::string tool, device, from;       // from: the report that was read, or the command that was profiled
  std::string kernel;                   // the target
  std::vector<ProfiledKernel> kernels;  // everything in the report, longest first
  std::vector<ProfileMetric> metrics;
  std::vector<std::string> missing;  // what this tool could have said and did not
  Bottleneck bottleneck = Bottleneck::kUnknown;
  std::string verdict;  // one sentence with the values
  std::vector<ProfileHypothesis> hypotheses;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("tool", self.tool);
    v("device", self.device);
    v("from", self.from);
    v("kernel", self.kernel);
    v("kernels", self.kernels);
    v("metrics", self.metrics);
    v("missing", self.missing);
    v("bottleneck", self.bottleneck);
    v("verdict", self.verdict);
    v("hypotheses", self.hypotheses);
  }
};

}  // namespace ridge::record
