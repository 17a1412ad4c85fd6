// Iteration memory: what one round of an optimisation tried, saw and left to do, as the next one reads it. One file
// memory/v<N>.json per version; `ridge memory schema` prints the JSON Schema of this struct.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/names.h"

namespace ridge::record {

// Without a verdict are a round whose sessions could not tell, and one of which no session counted.
enum class IterationStatus { kPass, kFail, kTimeoutFail, kNotSettled, kNotMeasured };
template <>
struct EnumNames<IterationStatus> {
  static constexpr std::pair<IterationStatus, std::string_view> kNames[] = {
      {IterationStatus::kPass, "PASS"},
      {IterationStatus::kFail, "FAIL"},
      {IterationStatus::kTimeoutFail, "TIMEOUT_FAIL"},
      {IterationStatus::kNotSettled, "NOT_SETTLED"},
      {IterationStatus::kNotMeasured, "NOT_MEASURED"}};
};

enum class Bottleneck { kUnknown, kCompute, kMemory, kLatency, kLaunch, kAtCeiling, kMixed };
template <>
struct EnumNames<Bottleneck> {
  static constexpr std::pair<Bottleneck, std::string_view> kNames[] = {
      {Bottleneck::kUnknown, "unknown"}, {Bottleneck::kCompute, "compute"}, {Bottleneck::kMemory, "memory"},
      {Bottleneck::kLatency, "latency"}, {Bottleneck::kLaunch, "launch"},   {Bottleneck::kAtCeiling, "at-ceiling"},
      {Bottleneck::kMixed, "mixed"}};
};

struct IterationPerformance {
  std::optional<double> latency_us;  // geomean over the shapes
  std::map<std::string, double> latency_us_by_shape;
  std::optional<double> tflops, bandwidth_gbps;
  std::optional<double> compute_utilisation, memory_utilisation;  // fractions of the ceiling, 0..1
  std::optional<double> speedup_over_previous;                    // above 1: faster
  static void fields(auto& v, auto& self) {
    v.optional("latency_us", self.latency_us);
    v.optional("latency_us_by_shape", self.latency_us_by_shape);
    v.optional("tflops", self.tflops);
    v.optional("bandwidth_gbps", self.bandwidth_gbps);
    v.optional("compute_utilisation", self.compute_utilisation);
    v.optional("memory_utilisation", self.memory_utilisation);
    v.optional("speedup_over_previous", self.speedup_over_previous);
  }
};

struct IterationAction {
  std::string action_category, action_description, expected_impact, risks_and_rollback;
  static void fields(auto& v, auto& self) {
    v("action_category", self.action_category);
    v("action_description", self.action_description);
    v.optional("expected_impact", self.expected_impact);
    v.optional("risks_and_rollback", self.risks_and_rollback);
  }
};

struct IterationEvidence {
  std::string tool_used, evidence_summary, evidence_chain;  // chain: evidence -> inference -> action
  Bottleneck bottleneck_type = Bottleneck::kUnknown;
  static void fields(auto& v, auto& self) {
    v.optional("tool_used", self.tool_used);
    v.optional("evidence_summary", self.evidence_summary);
    v.optional("evidence_chain", self.evidence_chain);
    v.optional("bottleneck_type", self.bottleneck_type);
  }
};

struct IterationCorrectness {
  IterationStatus status = IterationStatus::kFail;
  std::optional<double> rel_err;
  static void fields(auto& v, auto& self) {
    v("status", self.status);
    v.optional("rel_err", self.rel_err);
  }
};

struct IsaMetricProgress {
  std::string metric, source;  // source: where the target comes from
  double target = 0, current = 0;
  bool met = false;
  static void fields(auto& v, auto& self) {
    v("metric", self.metric);
    v("target", self.target);
    v("current", self.current);
    v("met", self.met);
    v.optional("source", self.source);
  }
};

struct SearchLogEntry {
  std::string source, query, finding, actionability;
  static void fields(auto& v, auto& self) {
    v("source", self.source);
    v("query", self.query);
    v("finding", self.finding);
    v.optional("actionability", self.actionability);
  }
};

struct PitfallAndFix {
  std::string error_type, error_message, root_cause, fix_applied, lesson;
  static void fields(auto& v, auto& self) {
    v("error_type", self.error_type);
    v("error_message", self.error_message);
    v.optional("root_cause", self.root_cause);
    v.optional("fix_applied", self.fix_applied);
    v.optional("lesson", self.lesson);
  }
};

struct IterationReference {
  std::string source_type, path_or_url, description;
  static void fields(auto& v, auto& self) {
    v("source_type", self.source_type);
    v("path_or_url", self.path_or_url);
    v.optional("description", self.description);
  }
};

struct IterationGate {
  IterationStatus result = IterationStatus::kFail;
  std::string failure_reason;
  static void fields(auto& v, auto& self) {
    v("result", self.result);
    v.optional("failure_reason", self.failure_reason);
  }
};

struct OpenDirection {
  std::string direction, rationale;
  static void fields(auto& v, auto& self) {
    v("direction", self.direction);
    v("rationale", self.rationale);
  }
};

struct Iteration {
  std::string version;  // "v7", the name of its file
  bool masked = false;
  std::string timestamp;  // "2026-11-21 07:30", UTC
  IterationPerformance performance;
  IterationAction optimization;
  IterationEvidence profile_evidence;
  IterationCorrectness correctness;
  std::vector<IsaMetricProgress> isa_metric_progress;
  std::vector<SearchLogEntry> search_log;
  std::vector<PitfallAndFix> pitfalls_and_fixes;
  std::vector<IterationReference> references;
  IterationGate quality_gate;
  std::vector<OpenDirection> open_directions;  // at most three
  std::string git_commit_hash;                 // of the commit that holds this version; empty: not committed
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("masked", self.masked);
    v("timestamp", self.timestamp);
    v("performance", self.performance);
    v("optimization", self.optimization);
    v("profile_evidence", self.profile_evidence);
    v("correctness", self.correctness);
    v.optional("isa_metric_progress", self.isa_metric_progress);
    v.optional("search_log", self.search_log);
    v.optional("pitfalls_and_fixes", self.pitfalls_and_fixes);
    v.optional("references", self.references);
    v("quality_gate", self.quality_gate);
    v.optional("open_directions", self.open_directions);
    v.optional("git_commit_hash", self.git_commit_hash);
  }
};

// One line of memory/restarts.jsonl: which versions a partial restart hid.
struct MemoryRestart {
  std::string timestamp;
  std::int64_t seed = 0;
  std::vector<std::string> masked, kept;
  std::string best, next_version;
  static void fields(auto& v, auto& self) {
    v("timestamp", self.timestamp);
    v("seed", self.seed);
    v("masked", self.masked);
    v("kept", self.kept);
    v("best", self.best);
    v("next_version", self.next_version);
  }
};

}  // namespace ridge::record
