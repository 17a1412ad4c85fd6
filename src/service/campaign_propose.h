// One round by hand: a change that a person or an agent states is built, checked, measured and decided like any other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/campaign.h"
#include "ridge/result.h"
#include "service/campaign_run.h"

namespace ridge::service {

struct ProposeRequest {
  std::string directory;
  std::string kernel;                // file of the changed source, in place of the incumbent's; empty: as it is
  std::vector<std::string> defines;  // NAME=VALUE of tunables, several after commas
  std::string title, reason, expect, category, bottleneck, signal, by;  // expect: "8%" or "1.08x"
  std::vector<std::string> risks;
  std::optional<std::int64_t> informed_by;  // the round that led here
  bool give_up = false;                     // end a round whose kernel failed, instead of repairing it
  std::string model, usd;                   // what the language model behind it took, for the cost log
  std::optional<std::int64_t> turns, input_tokens, output_tokens;
  RunRequest run;
};

struct Proposed {
  Ran ran;
  std::int64_t round = 0;
  std::optional<record::RoundSummary> decided;  // none: the campaign was paused in the middle of the round
};

// Everything that can be refused is, before the journal has a line of it. Errors: kConflict when another process works
// on the campaign, it has ended, its baseline is not measured, or the round could not be begun; kInvalidArgument for a
// proposal that breaks a rule, and for a kernel that did not build or was wrong (its round stays open, and the hint
// says how often it can be repaired).
Result<Proposed> propose_round(const Context& context, const ProposeRequest& request);

}  // namespace ridge::service
