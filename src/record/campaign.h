// The nouns of a campaign: what it is about, what happened in it, and what was decided and why.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/candidate.h"
#include "record/case.h"
#include "record/iteration.h"
#include "record/knowledge.h"
#include "record/measurement.h"
#include "record/names.h"
#include "record/profile.h"

namespace ridge::record {

// performance_target: `metric op number unit [on all|any|geomean]`, for instance `hw_efficiency >= 90%`.
struct Target {
  std::string metric;  // hw_efficiency | bandwidth_efficiency | speedup | a name of record/metric.h
  std::string comparison = ">=";
  double value = 0.0;             // in the base unit: 0.9 for 90 %, FLOP/s for TFLOPS
  std::string unit;               // as written: "%", "TFLOPS", "x"
  std::string scope = "geomean";  // all | any | geomean
  static void fields(auto& v, auto& self) {
    v("metric", self.metric);
    v("comparison", self.comparison);
    v("value", self.value);
    v("unit", self.unit);
    v("scope", self.scope);
  }
};

// What the campaign is about; rendered as manifest.yaml, confirmed by its digest.
struct CampaignSpec {
  std::string id;                                          // <op>_<backend>_<gpu>_<date>
  std::string op, backend = "cpu", language = "c++", gpu;  // gpu: the processor's short name for the CPU backend
  std::vector<Case> target_cases;
  std::vector<std::string> representative_labels;  // filled in at BASELINE
  std::optional<Target> performance_target;
  double efficiency_target = 0.9;  // T2: fraction of the measured ceiling
  std::string primary_metric = "forward_tflops";
  std::string execution_mode = "workspace";
  std::string kernel_source;  // where the baseline came from
  std::string proposer = "search";
  std::optional<std::int64_t> max_iterations;  // attempts, not counting round 1; 1..119
  double wall_budget = 0.0;                    // T5, seconds of active time; 0 = none
  bool git_commit = true;
  std::string git_branch = "auto";
  Protocol protocol;
  std::string created;                       // "2026-11-21 07:30", stamped by the engine
  std::map<std::string, std::string> extra;  // manifest keys that the engine does not know, as YAML text
  static void fields(auto& v, auto& self) {
    v("id", self.id);
    v("op", self.op);
    v("backend", self.backend);
    v("language", self.language);
    v("gpu", self.gpu);
    v("target_cases", self.target_cases);
    v("representative_labels", self.representative_labels);
    v.optional("performance_target", self.performance_target);
    v("efficiency_target", self.efficiency_target);
    v("primary_metric", self.primary_metric);
    v("execution_mode", self.execution_mode);
    v("kernel_source", self.kernel_source);
    v("proposer", self.proposer);
    v.optional("max_iterations", self.max_iterations);
    v("wall_budget", self.wall_budget);
    v("git_commit", self.git_commit);
    v("git_branch", self.git_branch);
    v("protocol", self.protocol);
    v("created", self.created);
    v.optional("extra", self.extra);
  }
};

enum class Phase {
  kDefineTarget,
  kConfirm,
  kPrepare,
  kTips,
  kBaseline,
  kAnalyze,
  kOptimize,
  kValidate,
  kDecide,
  kTermination,
  kReport,
  kDone,
  kPaused
};
template <>
struct EnumNames<Phase> {
  static constexpr std::pair<Phase, std::string_view> kNames[] = {{Phase::kDefineTarget, "DEFINE_TARGET"},
                                                                  {Phase::kConfirm, "CONFIRM"},
                                                                  {Phase::kPrepare, "PREPARE_ENVIRONMENT"},
                                                                  {Phase::kTips, "READ_HISTORICAL_TIPS"},
                                                                  {Phase::kBaseline, "BASELINE"},
                                                                  {Phase::kAnalyze, "ANALYZE"},
                                                                  {Phase::kOptimize, "OPTIMIZE"},
                                                                  {Phase::kValidate, "VALIDATE"},
                                                                  {Phase::kDecide, "DECIDE"},
                                                                  {Phase::kTermination, "TERMINATION_CHECK"},
                                                                  {Phase::kReport, "REPORT"},
                                                                  {Phase::kDone, "DONE"},
                                                                  {Phase::kPaused, "PAUSED"}};
};

enum class GateOutcome { kPass, kFail, kInconclusive, kNotApplicable };
template <>
struct EnumNames<GateOutcome> {
  static constexpr std::pair<GateOutcome, std::string_view> kNames[] = {
      {GateOutcome::kPass, "pass"},
      {GateOutcome::kFail, "fail"},
      {GateOutcome::kInconclusive, "inconclusive"},
      {GateOutcome::kNotApplicable, "not applicable"}};
};

// What a written rule says of a campaign or a round. Unknown is not a pass: it blocks.
enum class RuleVerdict { kPass, kFail, kNotApplicable, kUnknown };
template <>
struct EnumNames<RuleVerdict> {
  static constexpr std::pair<RuleVerdict, std::string_view> kNames[] = {{RuleVerdict::kPass, "pass"},
                                                                        {RuleVerdict::kFail, "fail"},
                                                                        {RuleVerdict::kNotApplicable, "not applicable"},
                                                                        {RuleVerdict::kUnknown, "unknown"}};
};

struct RuleRow {
  std::int64_t rule = 0;
  std::string name;
  Phase phase = Phase::kDefineTarget;  // where it is asked
  RuleVerdict verdict = RuleVerdict::kUnknown;
  std::string evidence;  // with the values
  std::string waived;    // the reason of a waiver; empty: none
  static void fields(auto& v, auto& self) {
    v("rule", self.rule);
    v("name", self.name);
    v("phase", self.phase);
    v("verdict", self.verdict);
    v("evidence", self.evidence);
    v.optional("waived", self.waived);
  }
};

struct GateResult {
  std::string gate;  // "build", "correctness", "labels", "effect", "non-inferiority", "physics", ...
  GateOutcome outcome = GateOutcome::kInconclusive;
  std::string detail;  // with the values
  static void fields(auto& v, auto& self) {
    v("gate", self.gate);
    v("outcome", self.outcome);
    v("detail", self.detail);
  }
};

// Effect of one shape or of the suite, from confirmation data only. ratio > 1: the candidate is faster.
struct Effect {
  std::string label;                    // "suite" or a shape
  double ratio = 1, low = 1, high = 1;  // Hodges-Lehmann and an interval of `confidence`
  double confidence = 0.95;
  std::int64_t sessions = 0;
  static void fields(auto& v, auto& self) {
    v("label", self.label);
    v("ratio", self.ratio);
    v("low", self.low);
    v("high", self.high);
    v("confidence", self.confidence);
    v("sessions", self.sessions);
  }
};

// A pure function of the stored samples and the frozen protocol: `ridge campaign replay` computes it again.
struct Decision {
  std::int64_t round = 0;
  std::string candidate, incumbent;  // ids
  bool accepted = false;
  std::string reason;  // one sentence a person understands
  Outcome outcome = Outcome::kAmbiguous;
  std::vector<GateResult> gates;
  std::vector<Effect> effects;     // suite first
  std::vector<Effect> directions;  // of a project's table: "label=small, backward"
  double evidence = 1;             // E of the sequential test; accepted at `needed`
  double needed = 0;
  std::string plain_rule;  // the rule people know, and whether it agrees
  bool plain_rule_accepts = false;
  static void fields(auto& v, auto& self) {
    v("round", self.round);
    v("candidate", self.candidate);
    v("incumbent", self.incumbent);
    v("accepted", self.accepted);
    v("reason", self.reason);
    v("outcome", self.outcome);
    v("gates", self.gates);
    v("effects", self.effects);
    v.optional("directions", self.directions);
    v("evidence", self.evidence);
    v("needed", self.needed);
    v("plain_rule", self.plain_rule);
    v("plain_rule_accepts", self.plain_rule_accepts);
  }
};

// One candidate against one incumbent outside of any campaign (`ridge compare`), with everything it rests on.
struct Comparison {
  std::int64_t version = 1;
  Environment environment;
  Protocol protocol;
  bool quick_look = false;  // sessions of a fixed number, and no control of errors: never an accept
  Decision decision;
  Evaluation evaluation;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("environment", self.environment);
    v("protocol", self.protocol);
    v("quick_look", self.quick_look);
    v("decision", self.decision);
    v("evaluation", self.evaluation);
  }
};

// What `ridge calibrate` found out about this machine.
struct CalibrationReport {
  std::int64_t version = 1;
  std::string subject;
  std::vector<std::string> labels;  // in the order of Calibration::noise_by_shape
  Environment environment;
  Protocol protocol;
  Calibration calibration;
  std::vector<std::string> advice;  // what would make this machine measure better
  std::vector<Session> sessions;    // raw
  std::vector<Decision> decisions;  // whole decisions on the subject against itself; an accept is a false one
  std::int64_t false_accepts = 0;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("subject", self.subject);
    v("labels", self.labels);
    v("environment", self.environment);
    v("protocol", self.protocol);
    v("calibration", self.calibration);
    v("advice", self.advice);
    v("sessions", self.sessions);
    v("decisions", self.decisions);
    v("false_accepts", self.false_accepts);
  }
};

struct Termination {
  std::string condition;  // "T1".."T5", or "none"
  std::string detail;
  std::vector<GateResult> conditions;  // each with its values
  static void fields(auto& v, auto& self) {
    v("condition", self.condition);
    v("detail", self.detail);
    v("conditions", self.conditions);
  }
};

// What one round came to, for proposers, reports and people.
struct RoundSummary {
  std::int64_t round = 0;
  std::string proposer;  // of the last attempt
  Hypothesis hypothesis;
  Candidate candidate;                          // as evaluated
  std::map<std::string, std::int64_t> changed;  // tunables that differ from the incumbent's, new values
  Outcome outcome = Outcome::kAmbiguous;
  bool accepted = false;
  RoundState state = RoundState::kUnfinished;
  std::string reason;
  double suite_ratio = 1;        // against the incumbent of that round; 1 when not measured
  std::vector<ScreenRow> sweep;  // the configurations looked at, if the round was a sweep
  static void fields(auto& v, auto& self) {
    v("round", self.round);
    v.optional("proposer", self.proposer);
    v("hypothesis", self.hypothesis);
    v("candidate", self.candidate);
    v("changed", self.changed);
    v("outcome", self.outcome);
    v("accepted", self.accepted);
    v.optional("state", self.state);
    v("reason", self.reason);
    v("suite_ratio", self.suite_ratio);
    v("sweep", self.sweep);
  }
};

// One line of verified_ineffective.jsonl: a direction that was measured and rolled back.
struct Ineffective {
  std::int64_t round = 0;
  std::string direction, reason;
  std::vector<std::string> modified_files;
  static void fields(auto& v, auto& self) {
    v("round", self.round);
    v("direction", self.direction);
    v("reason", self.reason);
    v("modified_files", self.modified_files);
  }
};

// One way out of a stagnation.
struct Direction {
  std::string title, category, hypothesis, signal;
  static void fields(auto& v, auto& self) {
    v("title", self.title);
    v("category", self.category);
    v("hypothesis", self.hypothesis);
    v("signal", self.signal);
  }
};

struct Waived {
  std::int64_t rule = 0;
  std::string reason, by;
  static void fields(auto& v, auto& self) {
    v("rule", self.rule);
    v("reason", self.reason);
    v("by", self.by);
  }
};

// What rollbacks in a row made the engine gather before the next hypothesis: 1 diagnosis, 2 a fresh measurement and
// classification, 3 the instructions against a reference, 4 the best known implementation.
struct Escalated {
  std::int64_t after_round = 0, level = 1;
  std::string artifact;               // the build that the evidence is about
  std::vector<std::string> findings;  // one sentence each, with the values
  std::map<std::string, double> figures;
  std::vector<Direction> directions;  // of a stagnation review; empty when none was due
  static void fields(auto& v, auto& self) {
    v("after_round", self.after_round);
    v("level", self.level);
    v("artifact", self.artifact);
    v("findings", self.findings);
    v("figures", self.figures);
    v.optional("directions", self.directions);
  }
};

// What a profiler saw of an incumbent, or why it saw nothing.
struct Profiled {
  std::string trigger;     // baseline | rollbacks | end
  std::int64_t round = 1;  // of the incumbent
  std::string artifact;    // the build that was looked at
  std::optional<ProfileReport> report;
  std::string note;  // why there is none
  static void fields(auto& v, auto& self) {
    v("trigger", self.trigger);
    v("round", self.round);
    v("artifact", self.artifact);
    v.optional("report", self.report);
    v.optional("note", self.note);
  }
};

// What a proposer sees: records only, read-only. Also the body of the JSON request to `--proposer command:CMD`.
// What an earlier campaign on the same kernel looked at: on this device or another, for these shapes or others, in this
// version of the source or another. Its times are compared with each other only.
struct EarlierLook {
  std::map<std::string, std::int64_t> defines;
  std::optional<double> seconds;  // absent: it failed by its own fault
  static void fields(auto& v, auto& self) {
    v("defines", self.defines);
    v.optional("seconds", self.seconds);
  }
};
struct EarlierLooks {
  std::string device, problem;  // problem: its shapes
  std::vector<EarlierLook> looks;
  static void fields(auto& v, auto& self) {
    v("device", self.device);
    v("problem", self.problem);
    v("looks", self.looks);
  }
};

struct ProposalRequest {
  std::int64_t version = 1;
  std::int64_t round = 0;
  CampaignSpec spec;
  Candidate incumbent;
  TuneSpace space;                      // declared by the incumbent's source
  BuildEvidence build;                  // of the incumbent
  std::vector<RooflinePoint> roofline;  // of the incumbent, per shape
  std::vector<Ceiling> ceilings;
  std::vector<RoundSummary> history;  // oldest first
  Environment environment;
  std::vector<std::string> tips;
  std::vector<Iteration> memory;  // what is not masked, earlier campaigns of the same workspace included
  double seconds_left = 0;        // of the budget; 0 = no budget
  std::optional<std::int64_t> rounds_left;
  std::string last_error;                 // why the previous answer in this round was refused; empty at first
  std::vector<std::string> findings;      // evidence gathered after rollbacks in a row
  std::vector<Direction> directions;      // the review of a stagnation: categories not used of late
  std::vector<std::string> constraints;   // what the user wants to hold, a sentence each
  std::optional<ProfileReport> profile;   // of the incumbent
  std::vector<KnowledgeEntry> knowledge;  // pages about such a kernel, best first for what limits the incumbent
  std::vector<EarlierLooks> earlier;      // other campaigns on the same kernel
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("round", self.round);
    v("spec", self.spec);
    v.optional("constraints", self.constraints);
    v.optional("profile", self.profile);
    v.optional("knowledge", self.knowledge);
    v("incumbent", self.incumbent);
    v("space", self.space);
    v("build", self.build);
    v("roofline", self.roofline);
    v("ceilings", self.ceilings);
    v("history", self.history);
    v("environment", self.environment);
    v("tips", self.tips);
    v.optional("memory", self.memory);
    v("seconds_left", self.seconds_left);
    v.optional("rounds_left", self.rounds_left);
    v.optional("last_error", self.last_error);
    v.optional("findings", self.findings);
    v.optional("directions", self.directions);
    v.optional("earlier", self.earlier);
  }
};

}  // namespace ridge::record
