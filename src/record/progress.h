// What the process that works on a campaign is doing just now: progress.json beside the journal. It is a convenience
// for those who watch it: nothing is decided by it, no other file refers to it, and it may be missing at any moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "record/campaign.h"
#include "ridge/result.h"

namespace ridge::record {

struct CampaignProgress {
  std::int64_t version = 1;
  std::string campaign;  // its id
  // running | ended, as the file says; a reader makes "stale" of "running" when the process is gone.
  std::string state = "running";
  std::string because;  // why it ended; of a stale one what to do
  Phase phase = Phase::kDefineTarget;
  std::int64_t round = 1;
  std::string part;                       // what the steps are of: "set-up", "round", "between rounds" or "end"
  std::string step;                       // "build, check and measure the candidate"
  std::int64_t number = 1, of = 1;        // of the steps of this part
  std::string detail;                     // within the step: "measure: session 3 of at most 32"
  double fraction = 0;                    // of the step, 0..1, as far as it is known
  std::string next;                       // the step that usually follows; what is decided may be another
  std::string since;                      // when the step began: "2026-11-21T07:30:12Z"
  std::string updated;                    // when this was written
  double active = 0;                      // seconds of active campaign time
  std::optional<double> seconds_left;     // of the budget; none without one
  std::int64_t rounds = 0, accepted = 0;  // closed; and of those
  std::optional<std::int64_t> most_rounds;
  double speedup = 1;  // product of the accepted gains
  // The process: its id, the kernel's boot id and its start in clock ticks since boot, as in the lock file.
  std::int64_t pid = 0;
  std::string boot_id, start_time;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("campaign", self.campaign);
    v("state", self.state);
    v.optional("because", self.because);
    v("phase", self.phase);
    v("round", self.round);
    v("part", self.part);
    v("step", self.step);
    v("number", self.number);
    v("of", self.of);
    v("detail", self.detail);
    v("fraction", self.fraction);
    v("next", self.next);
    v("since", self.since);
    v("updated", self.updated);
    v("active", self.active);
    v.optional("seconds_left", self.seconds_left);
    v("rounds", self.rounds);
    v("accepted", self.accepted);
    v.optional("most_rounds", self.most_rounds);
    v("speedup", self.speedup);
    v("pid", self.pid);
    v("boot_id", self.boot_id);
    v("start_time", self.start_time);
  }
};

// The text of a progress.json. Of a newer version the error says so, whatever else it holds.
Result<CampaignProgress> parse_progress(std::string_view text, const std::string& place);

}  // namespace ridge::record
