// workspace.json: what a one-kernel workspace is about, as it was said when it was made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::record {

struct Workspace {
  std::int64_t version = 1;
  std::string name, kernel;        // kernel: file beside workspace.json
  std::string platform, language;  // a product of the spec database or "this"; cuda, hip, c++, python, ...
  std::string op;                  // the operator whose fp64 reference judges the kernel; empty: not said
  std::vector<std::string> cases;  // words of the command line: "m=512", "n=512", ...
  std::int64_t threads = 1;
  std::string reference;             // "model.py:Model": judges the kernel instead of an operator; empty: there is none
  std::vector<std::string> unknown;  // facts of the platform that no source states, and that were not given
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("name", self.name);
    v("kernel", self.kernel);
    v("platform", self.platform);
    v("language", self.language);
    v("op", self.op);
    v("cases", self.cases);
    v("threads", self.threads);
    v.optional("reference", self.reference);
    v.optional("unknown", self.unknown);
  }
};

}  // namespace ridge::record
