// What other campaign drivers keep: run.json of a viewer's layout, one record per version of a memory layout. Written
// exactly as those tools read it; read leniently, because a foreign file may hold anything and decides nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

// state/<id>/run.json. Its readers refuse a file with any other key than these.
struct ForeignRun {
  struct Entry {
    std::int64_t round = 0;
    std::string decision;  // BASELINE | ACCEPTED | ACCEPTED (noise-bounded) | ROLLED BACK; ours besides: NOT SETTLED |
                           // NOT MEASURED
    std::map<std::string, double> score;
    std::string description, at;  // "2026-11-21 07:30"
    static void fields(auto& v, auto& self) {
      v("round", self.round);
      v("decision", self.decision);
      v("score", self.score);
      v("description", self.description);
      v("at", self.at);
    }
  };
  std::string campaign, directory, phase;
  std::int64_t current_round = 0, best_round = 0;
  std::map<std::string, double> best_score;
  std::int64_t rollback_streak = 0;
  std::string started_at, last_update;
  std::map<std::string, std::string> params;
  std::vector<Entry> history;
  static void fields(auto& v, auto& self) {
    v("campaign_id", self.campaign);
    v("campaign_dir", self.directory);
    v("current_phase", self.phase);
    v("current_round", self.current_round);
    v("best_round", self.best_round);
    v("best_score", self.best_score);
    v("rollback_streak", self.rollback_streak);
    v("started_at", self.started_at);
    v("last_update", self.last_update);
    v("params", self.params);
    v("history", self.history);
  }
};

// An error when it is no JSON object; what is missing or of another type stays empty.
Result<ForeignRun> parse_foreign_run(std::string_view text);

// memory/v<N>.json of the memory layout; v0 is the baseline. Empty optionals are left out, which its readers allow.
struct ForeignIteration {
  struct Performance {
    std::optional<double> latency_us;  // geometric mean over the shapes
    std::map<std::string, double> by_shape;
    std::optional<double> tflops, compute_percent, memory_percent;
    static void fields(auto& v, auto& self) {
      v.optional("latency_us", self.latency_us);
      v("latency_us_by_shape", self.by_shape);
      v.optional("tflops", self.tflops);
      v.optional("tflops_peak_utilization_pct", self.compute_percent);
      v.optional("bandwidth_peak_utilization_pct", self.memory_percent);
    }
  };
  struct Action {
    std::string category, description, impact, risks;
    static void fields(auto& v, auto& self) {
      v("action_category", self.category);
      v("action_description", self.description);
      v("expected_impact", self.impact);
      v("risks_and_rollback", self.risks);
    }
  };
  struct Evidence {
    std::string tool, summary, chain, bottleneck;  // compute_bound | memory_bound | ...
    static void fields(auto& v, auto& self) {
      v("tool_used", self.tool);
      v("evidence_summary", self.summary);
      v("evidence_chain", self.chain);
      v("bottleneck_type", self.bottleneck);
    }
  };
  struct Correctness {
    std::string status;  // PASS | FAIL | TIMEOUT_FAIL; ours besides: NOT_MEASURED
    static void fields(auto& v, auto& self) { v("status", self.status); }
  };
  struct Gate {
    std::string result, reason;  // result: the same, and NOT_SETTLED
    static void fields(auto& v, auto& self) {
      v("result", self.result);
      v("failure_reason", self.reason);
    }
  };
  struct Open {
    std::string direction, rationale;
    static void fields(auto& v, auto& self) {
      v("direction", self.direction);
      v("rationale", self.rationale);
    }
  };
  std::string version;  // "v3", the name of its file
  bool masked = false;
  std::string timestamp;
  Performance performance;
  Action optimization;
  Evidence profile_evidence;
  Correctness correctness;
  Gate quality_gate;
  std::vector<Open> open_directions;  // at most three
  std::optional<std::string> commit;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("masked", self.masked);
    v("timestamp", self.timestamp);
    v("performance", self.performance);
    v("optimization", self.optimization);
    v("profile_evidence", self.profile_evidence);
    v("correctness", self.correctness);
    v("quality_gate", self.quality_gate);
    v("open_directions", self.open_directions);
    v.optional("git_commit_hash", self.commit);
  }
};

// The same leniency; `oddities` gets a sentence for every key of a wrong type.
Result<ForeignIteration> parse_foreign_iteration(std::string_view text, std::vector<std::string>& oddities);

// A foreign campaign as `ridge campaign import` understood it. Its numbers are what its files claim: there are no raw
// samples behind them, so nothing here ever decides.
struct ForeignCampaign {
  struct Round {
    std::int64_t round = 0;
    std::string
        status;  // BASELINE | ACCEPTED | ROLLBACK | NOT SETTLED | NOT MEASURED; empty when its files say none of them
    std::string description, reason;
    std::optional<double> tflops, latency_us;  // as claimed
    static void fields(auto& v, auto& self) {
      v("round", self.round);
      v("status", self.status);
      v("description", self.description);
      v.optional("reason", self.reason);
      v.optional("tflops", self.tflops);
      v.optional("latency_us", self.latency_us);
    }
  };
  struct Finding {
    std::string kind, path, what;
    static void fields(auto& v, auto& self) {
      v("kind", self.kind);
      v("path", self.path);
      v("what", self.what);
    }
  };
  std::int64_t version = 1;
  std::string layout;  // turbo-view | atrex
  std::string op, backend, gpu;
  std::vector<Round> rounds;
  std::vector<Finding> findings;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("layout", self.layout);
    v("op", self.op);
    v("backend", self.backend);
    v("gpu", self.gpu);
    v("rounds", self.rounds);
    v("findings", self.findings);
  }
};

}  // namespace ridge::record
