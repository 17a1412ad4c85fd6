// What the command line answers about itself: what can be named, what the engine asks, what an audit found.
#pragma once

#include <string>
#include <vector>

namespace ridge::record {

struct ListedItem {
  std::string name, summary;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("summary", self.summary);
  }
};

// What `ridge campaign verify` and `replay` answer.
struct Audit {
  bool ok = false;
  std::string summary;
  std::vector<std::string> differences;
  static void fields(auto& v, auto& self) {
    v("ok", self.ok);
    v("summary", self.summary);
    v("differences", self.differences);
  }
};

struct Listing {
  std::vector<ListedItem> operators, proposers, gates, phases;
  static void fields(auto& v, auto& self) {
    v("operators", self.operators);
    v("proposers", self.proposers);
    v("gates", self.gates);
    v("phases", self.phases);
  }
};

}  // namespace ridge::record
