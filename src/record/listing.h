// What can be named on the command line, and what the engine asks of a candidate.
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
