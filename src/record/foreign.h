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
    std::string decision;  // BASELINE | ACCEPTED | ACCEPTED (noise-bounded) | ROLLED BACK; exports of earlier versions
                           // besides: NOT SETTLED | NOT MEASURED
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

// memory/v<N>.json of the memory layout; v0 is the baseline. Every key of that layout is written, null for a value that
// is not known.
struct ForeignIteration {
  // Of latency, TFLOPS and GB/s against the version that this one was measured against.
  struct Comparison {
    std::optional<double> latency, tflops, bandwidth;
    static void fields(auto& v, auto& self) {
      v("latency_delta", self.latency);
      v("tflops_delta", self.tflops);
      v("bandwidth_delta", self.bandwidth);
    }
  };
  struct Performance {
    std::optional<double> latency_us;  // geometric mean over the shapes
    std::map<std::string, double> by_shape;
    std::optional<double> tflops, bandwidth_gbps, compute_percent, memory_percent;
    Comparison versus_previous;
    static void fields(auto& v, auto& self) {
      v("latency_us", self.latency_us);
      v("latency_us_by_shape", self.by_shape);
      v("tflops", self.tflops);
      v("bandwidth_gbps", self.bandwidth_gbps);
      v("tflops_peak_utilization_pct", self.compute_percent);
      v("bandwidth_peak_utilization_pct", self.memory_percent);
      v("comparison_with_previous", self.versus_previous);
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
    std::string tool, summary, chain, bottleneck;  // compute_bound | memory_bound
    static void fields(auto& v, auto& self) {
      v("tool_used", self.tool);
      v("evidence_summary", self.summary);
      v("bottleneck_type", self.bottleneck);
      v("evidence_chain", self.chain);
    }
  };
  struct Experiment {
    std::int64_t index = 0;
    std::string name, hypothesis, change, evidence, result, decision;  // decision: continue | revert | pivot
    static void fields(auto& v, auto& self) {
      v("index", self.index);
      v("name", self.name);
      v("hypothesis", self.hypothesis);
      v("change", self.change);
      v("evidence", self.evidence);
      v("result", self.result);
      v("decision", self.decision);
    }
  };
  struct Experience {
    std::int64_t count = 0, recorded = 0;
    std::vector<Experiment> experiments;
    static void fields(auto& v, auto& self) {
      v("experiment_count", self.count);
      v("recorded_experiment_count", self.recorded);
      v("experiments", self.experiments);
    }
  };
  struct Correctness {
    std::optional<double> rel_err;
    std::string status;  // PASS | FAIL | TIMEOUT_FAIL; exports of earlier versions besides: NOT_MEASURED
    static void fields(auto& v, auto& self) {
      v("rel_err", self.rel_err);
      v("status", self.status);
    }
  };
  struct Progress {
    std::string metric;
    double target = 0, current = 0;
    bool met = false;
    static void fields(auto& v, auto& self) {
      v("metric", self.metric);
      v("target", self.target);
      v("current", self.current);
      v("met", self.met);
    }
  };
  struct Search {
    std::string source, query, finding, actionability;
    static void fields(auto& v, auto& self) {
      v("source", self.source);
      v("query", self.query);
      v("finding", self.finding);
      v("actionability", self.actionability);
    }
  };
  struct Pitfall {
    std::string error_type, error_message, root_cause, fix_applied, lesson;
    static void fields(auto& v, auto& self) {
      v("error_type", self.error_type);
      v("error_message", self.error_message);
      v("root_cause", self.root_cause);
      v("fix_applied", self.fix_applied);
      v("lesson", self.lesson);
    }
  };
  struct Reference {
    std::string source_type, path_or_url, description;
    static void fields(auto& v, auto& self) {
      v("source_type", self.source_type);
      v("path_or_url", self.path_or_url);
      v("description", self.description);
    }
  };
  struct Gate {
    std::string result;                 // PASS | FAIL | TIMEOUT_FAIL; of earlier versions: NOT_SETTLED, NOT_MEASURED
    std::optional<std::string> reason;  // null where it passed
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
  Experience experience;
  Correctness correctness;
  std::vector<Progress> isa_metric_progress;
  std::vector<Search> search_log;
  std::vector<Pitfall> pitfalls_and_fixes;
  std::vector<Reference> references;
  Gate quality_gate;
  std::vector<Open> open_directions;  // at most three
  std::optional<std::string> commit;  // null where its kernel was not kept
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("masked", self.masked);
    v("timestamp", self.timestamp);
    v("performance", self.performance);
    v("optimization", self.optimization);
    v("profile_evidence", self.profile_evidence);
    v("experience", self.experience);
    v("correctness", self.correctness);
    v("isa_metric_progress", self.isa_metric_progress);
    v("search_log", self.search_log);
    v("pitfalls_and_fixes", self.pitfalls_and_fixes);
    v("references", self.references);
    v("quality_gate", self.quality_gate);
    v("open_directions", self.open_directions);
    v("git_commit_hash", self.commit);
  }
};

// The same leniency; `oddities` gets a sentence for every key of a wrong type.
Result<ForeignIteration> parse_foreign_iteration(std::string_view text, std::vector<std::string>& oddities);

// A foreign campaign as `ridge campaign import` understood it. Its numbers are what its files claim: there are no raw
// samples behind them, so nothing here ever decides.
struct ForeignCampaign {
  // A row of a round's table. NaN is written as no value.
  struct Shape {
    std::string label, check;                 // check: PASS | FAIL | ERROR, or as the file has it
    std::optional<double> forward, backward;  // TFLOPS
    std::optional<double> forward_ms, backward_ms, latency_us;
    static void fields(auto& v, auto& self) {
      v("label", self.label);
      v.optional("check", self.check);
      v.optional("forward", self.forward);
      v.optional("backward", self.backward);
      v.optional("forward_ms", self.forward_ms);
      v.optional("backward_ms", self.backward_ms);
      v.optional("latency_us", self.latency_us);
    }
  };
  struct Round {
    std::int64_t round = 0;
    std::string
        status;  // BASELINE | ACCEPTED | ROLLBACK | NOT SETTLED | NOT MEASURED; empty when its files say none of them
    std::string description, reason;
    std::optional<double> tflops, latency_us;  // as claimed
    std::vector<Shape> shapes;
    static void fields(auto& v, auto& self) {
      v("round", self.round);
      v("status", self.status);
      v("description", self.description);
      v.optional("reason", self.reason);
      v.optional("tflops", self.tflops);
      v.optional("latency_us", self.latency_us);
      v.optional("shapes", self.shapes);
    }
  };
  struct Cost {
    std::string time, phase, status;
    std::optional<std::int64_t> round;  // none: outside of rounds
    std::optional<double> wall_s, usd;
    static void fields(auto& v, auto& self) {
      v("time", self.time);
      v("phase", self.phase);
      v.optional("round", self.round);
      v("status", self.status);
      v.optional("wall_s", self.wall_s);
      v.optional("usd", self.usd);
    }
  };
  struct Direction {
    std::string state, text, reason;    // state: open | tried | ineffective
    std::optional<std::int64_t> round;  // that tried it or left it open
    static void fields(auto& v, auto& self) {
      v("state", self.state);
      v("text", self.text);
      v.optional("reason", self.reason);
      v.optional("round", self.round);
    }
  };
  struct ProfiledKernel {
    std::string name;
    std::int64_t launches = 0;
    double duration_us = 0;  // of all launches
    static void fields(auto& v, auto& self) {
      v("name", self.name);
      v("launches", self.launches);
      v("duration_us", self.duration_us);
    }
  };
  struct Profile {
    std::int64_t round = 0;
    std::string trigger, path, summary;   // trigger: post_baseline, post_accept, ...; summary: as its file has it
    std::vector<ProfiledKernel> kernels;  // most time first
    static void fields(auto& v, auto& self) {
      v("round", self.round);
      v("trigger", self.trigger);
      v("path", self.path);
      v.optional("summary", self.summary);
      v.optional("kernels", self.kernels);
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
  std::int64_t version = 2;
  std::string layout;  // turbo-view | atrex
  std::string op, backend, gpu;
  std::vector<std::string> shapes;  // of the manifest, by label; empty: it names none
  std::vector<Round> rounds;
  std::vector<Cost> costs;
  std::vector<Direction> directions;
  std::vector<Profile> profiles;
  std::vector<Finding> findings;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("layout", self.layout);
    v("op", self.op);
    v("backend", self.backend);
    v("gpu", self.gpu);
    v("shapes", self.shapes);
    v("rounds", self.rounds);
    v("costs", self.costs);
    v("directions", self.directions);
    v("profiles", self.profiles);
    v("findings", self.findings);
  }
};

}  // namespace ridge::record
