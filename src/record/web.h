// One campaign in the overview of `ridge serve`, as its pages are drawn from and /campaigns.json gives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/usage.h"

namespace ridge::record {

struct CampaignCard {
  std::string id;  // name of its folder
  // reading | running | draft | paused | stopped | finished | damaged | newer | unreadable
  std::string state = "reading";
  std::string problem;   // why it cannot be read, or what is odd about its file
  std::string headline;  // one sentence
  std::string op, backend, device, proposer;
  std::string phase, action;                 // what is due
  std::string doing;                         // what a process does just now
  std::optional<double> speedup, low, high;  // of the suite over the baseline, with its interval
  std::string rests_on = "none";             // final | product | none: where the speed-up comes from
  std::optional<double> share;               // of what the machine allows, mean over the shapes
  std::vector<double> speeds;                // best so far over the baseline, by round; at most 60 of them
  std::int64_t rounds = 0, accepted = 0;     // closed
  double active_seconds = 0, budget_seconds = 0;
  std::optional<Usage> usage;
  std::string started, updated;  // times of the first and the last event
  std::uint64_t version = 0;     // changes with every change of the campaign
  static void fields(auto& v, auto& self) {
    v("id", self.id);
    v("state", self.state);
    v.optional("problem", self.problem);
    v.optional("headline", self.headline);
    v.optional("op", self.op);
    v.optional("backend", self.backend);
    v.optional("device", self.device);
    v.optional("proposer", self.proposer);
    v.optional("phase", self.phase);
    v.optional("action", self.action);
    v.optional("doing", self.doing);
    v.optional("speedup", self.speedup);
    v.optional("low", self.low);
    v.optional("high", self.high);
    v("rests_on", self.rests_on);
    v.optional("share", self.share);
    v("speeds", self.speeds);
    v("rounds", self.rounds);
    v("accepted", self.accepted);
    v("active_seconds", self.active_seconds);
    v("budget_seconds", self.budget_seconds);
    v.optional("usage", self.usage);
    v.optional("started", self.started);
    v.optional("updated", self.updated);
  }
};

// What a page asks of a campaign (POST /campaign/<id>/<what>): pause, stop, resume take none of it.
struct ControlRequest {
  std::string budget;                          // "10m" to add; empty: none
  std::optional<std::int64_t> max_iterations;  // the new limit
  std::string title, reason, expect, defines;  // of a round by hand: "MR=6,NV=2" and what it should bring, "8%"
  static void fields(auto& v, auto& self) {
    v.optional("budget", self.budget);
    v.optional("max_iterations", self.max_iterations);
    v.optional("title", self.title);
    v.optional("reason", self.reason);
    v.optional("expect", self.expect);
    v.optional("defines", self.defines);
  }
};

// What `ridge serve --json` says when it listens.
struct ServeAnswer {
  std::string url, open;  // open: with a ticket that works once
  std::int64_t port = 0;
  static void fields(auto& v, auto& self) {
    v("url", self.url);
    v("open", self.open);
    v("port", self.port);
  }
};

// Whether a line of a journal is as it was written: its hash is that of the rest, whatever names it holds. A line that
// this version cannot read and that is whole was written by another version.
bool is_whole_line(std::string_view line);

}  // namespace ridge::record
