// What a program behind `--proposer command:CMD` answers to a ProposalRequest; docs/proposers.md describes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/candidate.h"
#include "record/usage.h"

namespace ridge::record {

// A candidate as a change of the incumbent. What is left out stays as it is.
struct AgentChange {
  std::string name;
  std::map<std::string, std::int64_t> defines;  // values of declared tunables
  std::vector<SourceFile> sources;              // whole texts that replace files of the incumbent
  static void fields(auto& v, auto& self) {
    v.optional("name", self.name);
    v.optional("defines", self.defines);
    v.optional("sources", self.sources);
  }
};

struct AgentAnswer {
  std::int64_t version = 1;
  bool exhausted = false;  // nothing left to try; `reason` says why
  std::string reason;
  Hypothesis hypothesis;             // needed unless exhausted
  std::vector<AgentChange> changes;  // one candidate, or a sweep over one source
  std::optional<Usage> usage;        // what the answer took, for the cost log
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v.optional("exhausted", self.exhausted);
    v.optional("reason", self.reason);
    v.optional("hypothesis", self.hypothesis);
    v.optional("changes", self.changes);
    v.optional("usage", self.usage);
  }
};

}  // namespace ridge::record
