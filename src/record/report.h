// The report of a campaign as a record: what report.json holds, and what the HTML and Markdown pages are drawn from.
// Everything in it is derived from the journal; nothing in it is ever read back as truth.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/campaign.h"
#include "record/candidate.h"
#include "record/measurement.h"
#include "record/progress.h"

namespace ridge::record {

// One session reduced to its log ratios: ln(incumbent latency / candidate latency), > 0 when the candidate is faster.
struct SessionRatios {
  std::int64_t index = 0;
  std::string role;  // calibrate | screen | confirm | final
  bool voided = false;
  std::string void_reason;
  double suite = 0;                      // mean over shapes of the shapes' log ratios
  std::map<std::string, double> shapes;  // by label; NaN when the samples are unusable
  std::int64_t launches = 0;             // timed launches, both arms
  std::map<std::string, double> guards;
  static void fields(auto& v, auto& self) {
    v("index", self.index);
    v("role", self.role);
    v("voided", self.voided);
    v("void_reason", self.void_reason);
    v("suite", self.suite);
    v("shapes", self.shapes);
    v("launches", self.launches);
    v("guards", self.guards);
  }
};

// One evaluation: its raw samples reduced to session ratios, the rest as recorded.
struct ReportTrial {
  std::string level;  // quick | full | baseline | final
  std::string candidate, incumbent;
  Outcome outcome = Outcome::kPass;
  std::string detail;
  BuildEvidence build;
  std::vector<CheckRow> checks;
  std::vector<SessionRatios> sessions;
  std::vector<RooflinePoint> roofline;
  std::map<std::string, double> seconds;
  static void fields(auto& v, auto& self) {
    v("level", self.level);
    v("candidate", self.candidate);
    v("incumbent", self.incumbent);
    v("outcome", self.outcome);
    v("detail", self.detail);
    v("build", self.build);
    v("checks", self.checks);
    v("sessions", self.sessions);
    v("roofline", self.roofline);
    v("seconds", self.seconds);
  }
};

// A tunable that a round set to another value than the incumbent's.
struct ReportChange {
  std::string name;
  std::int64_t before = 0, after = 0;
  std::string title;  // of the tunable, as the source declares it; may be empty
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("before", self.before);
    v("after", self.after);
    v("title", self.title);
  }
};

struct ReportRound {
  std::int64_t round = 0;
  RoundState state = RoundState::kUnfinished;
  std::string proposer;
  Hypothesis hypothesis;
  std::string candidate, candidate_name, parent;  // ids; empty until something was evaluated
  std::map<std::string, std::int64_t> changed;    // tunables that differ from the incumbent's, new values
  std::vector<ReportChange> changes;              // the same with the values they had
  std::vector<std::string> changed_files;         // sources that differ from the incumbent's
  std::string source_diff;                        // unified, against the incumbent; empty for a parameter change
  Outcome outcome = Outcome::kAmbiguous;
  std::string reason;                // the decision's own sentence, or where the round stands
  std::optional<Decision> decision;  // absent while the round is unfinished
  std::optional<Effect> measured;    // suite, against the incumbent of that round
  std::optional<double> screened;    // ratio seen in the screening session; a reason to stop, never to accept
  std::vector<ReportTrial> trials;   // retries and levels, oldest first; the last one was decided on
  std::vector<std::string> refused;  // answers of the proposer that broke a rule: title and why
  std::vector<ScreenRow> sweep;
  std::string chosen;            // the sweep's candidate id
  double speed = 0, low = 0;     // suite speed over the baseline with this round's candidate, and its interval;
  double high = 0;               // NaN when nothing was measured
  std::string snapshot, commit;  // accepted: what was committed; rolled back: the snapshot restored
  double propose_seconds = 0, screen_seconds = 0, evaluate_seconds = 0;
  double cpu_seconds = 0;      // processor time of workers and of what they ran; 0: not known
  std::optional<Usage> usage;  // of language models, as the proposer says; refused answers included
  std::string started;         // time of its first event
  // E of the sequential test after each session that counts; empty where the decision's is not reproduced by them.
  std::vector<double> evidence;
  static void fields(auto& v, auto& self) {
    v("round", self.round);
    v("state", self.state);
    v.optional("proposer", self.proposer);
    v("hypothesis", self.hypothesis);
    v("candidate", self.candidate);
    v("candidate_name", self.candidate_name);
    v("parent", self.parent);
    v("changed", self.changed);
    v.optional("changes", self.changes);
    v("changed_files", self.changed_files);
    v("source_diff", self.source_diff);
    v("outcome", self.outcome);
    v("reason", self.reason);
    v.optional("decision", self.decision);
    v.optional("measured", self.measured);
    v.optional("screened", self.screened);
    v("trials", self.trials);
    v("refused", self.refused);
    v("sweep", self.sweep);
    v("chosen", self.chosen);
    v("speed", self.speed);
    v("low", self.low);
    v("high", self.high);
    v("snapshot", self.snapshot);
    v("commit", self.commit);
    v("propose_seconds", self.propose_seconds);
    v("screen_seconds", self.screen_seconds);
    v("evaluate_seconds", self.evaluate_seconds);
    v.optional("cpu_seconds", self.cpu_seconds);
    v.optional("usage", self.usage);
    v("started", self.started);
    v.optional("evidence", self.evidence);
  }
};

// One target shape, before and after.
struct ReportShape {
  std::string key;    // "A", "B", ...: how charts name it
  std::string label;  // Case::label()
  bool representative = false;
  Cost cost;
  double intensity = 0, bound_time = 0;  // FLOP per byte; seconds
  std::string bound;                     // compute | memory
  double baseline_latency = 0;           // seconds, median; NaN when unknown
  double best_latency = 0;
  std::optional<double> baseline_value, best_value;  // of the primary metric's column, where it is one
  std::optional<Effect> total;                       // best against baseline
  std::optional<Effect> last;                        // of the last accepted round
  double noise = 0;  // robust standard deviation of a session's log ratio; NaN when unknown
  static void fields(auto& v, auto& self) {
    v("key", self.key);
    v("label", self.label);
    v("representative", self.representative);
    v("cost", self.cost);
    v("intensity", self.intensity);
    v("bound_time", self.bound_time);
    v("bound", self.bound);
    v("baseline_latency", self.baseline_latency);
    v("best_latency", self.best_latency);
    v.optional("baseline_value", self.baseline_value);
    v.optional("best_value", self.best_value);
    v.optional("total", self.total);
    v.optional("last", self.last);
    v("noise", self.noise);
  }
};

// A node of the accepted chain.
struct ReportNode {
  std::int64_t round = 0;
  std::string id, parent, title, snapshot, commit;
  std::optional<Effect> gain;  // over its parent
  double speed = 1;            // over the baseline
  static void fields(auto& v, auto& self) {
    v("round", self.round);
    v("id", self.id);
    v("parent", self.parent);
    v("title", self.title);
    v("snapshot", self.snapshot);
    v("commit", self.commit);
    v.optional("gain", self.gain);
    v("speed", self.speed);
  }
};

// The best kernel as it is built: its source, its configuration, and the compile command that was recorded.
struct ReportKernel {
  std::string name, path;                       // path: of its first source, inside the candidate's folder
  std::map<std::string, std::int64_t> defines;  // values that are not the source's defaults
  std::string command, compiler;                // empty when nothing was built yet
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("path", self.path);
    v("defines", self.defines);
    v("command", self.command);
    v("compiler", self.compiler);
  }
};

// Another implementation on one shape: measured in turns with the best kernel, and then with an interval, or in runs of
// its own while the campaign went on.
struct ReportPeer {
  std::string name, label;
  double latency = 0;  // seconds, median
  double ratio = 0;    // its latency over the best kernel's: > 1, the best kernel is faster
  std::optional<double> ratio_low, ratio_high;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("label", self.label);
    v("latency", self.latency);
    v("ratio", self.ratio);
    v.optional("ratio_low", self.ratio_low);
    v.optional("ratio_high", self.ratio_high);
  }
};

// One shape of the final comparison on this device and on another one; "suite": all shapes together.
struct ReplicaRow {
  std::string label;
  Effect here, there;
  std::string differs;  // in which way; empty: they agree
  static void fields(auto& v, auto& self) {
    v("label", self.label);
    v("here", self.here);
    v("there", self.there);
    v("differs", self.differs);
  }
};

// The final comparison once more, on another device.
struct ReportReplica {
  std::string place, device;  // as the manifest names it; in words, empty where it was not reached
  std::string kind;           // "another device", or "another device of the same kind"
  std::string note;           // why there is none; empty: there is
  std::string agreement;      // one sentence
  std::vector<ReplicaRow> rows;
  std::optional<ReportTrial> trial;
  static void fields(auto& v, auto& self) {
    v("place", self.place);
    v("device", self.device);
    v("kind", self.kind);
    v("note", self.note);
    v("agreement", self.agreement);
    v("rows", self.rows);
    v.optional("trial", self.trial);
  }
};

struct ReportTime {
  std::string activity;  // "build", "check", "measure", ...
  double seconds = 0;
  static void fields(auto& v, auto& self) {
    v("activity", self.activity);
    v("seconds", self.seconds);
  }
};

// One recorded effect, on the campaign's active time.
struct ReportSpan {
  std::string activity;    // kind of the event that ended it
  std::int64_t round = 0;  // 0: outside of rounds
  double start = 0, seconds = 0;
  static void fields(auto& v, auto& self) {
    v("activity", self.activity);
    v("round", self.round);
    v("start", self.start);
    v("seconds", self.seconds);
  }
};

struct ReportNote {  // something that happened outside the rounds
  std::string time, kind, text;
  static void fields(auto& v, auto& self) {
    v("time", self.time);
    v("kind", self.kind);
    v("text", self.text);
  }
};

// Key of CampaignSpec::extra: what each target rests on, a YAML list of one text per shape.
inline constexpr const char* kTargetFactsKey = "target_facts";

struct Report {
  std::int64_t version = 1;
  CampaignSpec spec;
  std::string state;   // created | confirmed | prepared | running | paused | terminated | done
  std::string detail;  // one sentence: what the campaign is doing or how it ended
  std::string confirmed_by;
  Environment environment;
  std::vector<Ceiling> ceilings;
  std::map<std::string, std::string> frozen;
  std::string branch, base_commit;
  std::int64_t tips = 0;

  std::string baseline_id, baseline_name, best_id;
  ReportKernel best;
  std::vector<ReportPeer> peers;        // the fastest per shape, where any was measured
  std::optional<ReportTrial> baseline;  // its A/A sessions are the noise calibration
  double noise = 0, detectable = 0;
  std::vector<ReportShape> shapes;
  std::vector<ReportRound> rounds;
  std::vector<ReportNode> lineage;  // baseline first
  std::optional<ReportTrial> final_trial;
  std::optional<ReportReplica> replica;  // of the final measurement
  std::optional<Effect> total;           // suite, best against baseline
  std::string total_source = "none";     // final | product | none: where `total` comes from
  double product_of_accepted = 1;
  std::optional<Termination> termination;
  std::vector<RuleRow> rules;  // as they stood when the report was written; empty before
  std::vector<Waived> waivers;
  std::vector<Escalated> escalations;          // what rollbacks in a row made the engine look at
  std::vector<OpenDirection> open_directions;  // what is left to try

  double active_seconds = 0, cpu_seconds = 0;  // cpu: of all rounds
  std::optional<Usage> usage;                  // the same
  std::vector<ReportTime> time;
  std::vector<ReportSpan> timeline;  // oldest first
  std::vector<Profiled> profiles;    // of incumbents, oldest first
  std::vector<ReportNote> notes;
  std::string first_time, last_time;
  // decisions: those that looked at confirming sessions and so used a share of alpha.
  std::int64_t decisions = 0, accepted = 0, rolled_back = 0, not_settled = 0, not_measured = 0;
  std::int64_t sessions = 0, voided_sessions = 0, launches = 0, verified_calls = 0;
  std::int64_t events = 0, torn_bytes = 0;
  std::string journal_head;                  // hash of the last event this report knows
  std::optional<CampaignProgress> progress;  // of a status: what a process is doing now; never in a written report
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("spec", self.spec);
    v("state", self.state);
    v("detail", self.detail);
    v("confirmed_by", self.confirmed_by);
    v("environment", self.environment);
    v("ceilings", self.ceilings);
    v("frozen", self.frozen);
    v("branch", self.branch);
    v("base_commit", self.base_commit);
    v("tips", self.tips);
    v("baseline_id", self.baseline_id);
    v("baseline_name", self.baseline_name);
    v("best_id", self.best_id);
    v.optional("best", self.best);
    v.optional("peers", self.peers);
    v.optional("baseline", self.baseline);
    v("noise", self.noise);
    v("detectable", self.detectable);
    v("shapes", self.shapes);
    v("rounds", self.rounds);
    v("lineage", self.lineage);
    v.optional("final_trial", self.final_trial);
    v.optional("replica", self.replica);
    v.optional("total", self.total);
    v("total_source", self.total_source);
    v("product_of_accepted", self.product_of_accepted);
    v.optional("termination", self.termination);
    v.optional("rules", self.rules);
    v.optional("waivers", self.waivers);
    v.optional("escalations", self.escalations);
    v.optional("open_directions", self.open_directions);
    v("active_seconds", self.active_seconds);
    v.optional("cpu_seconds", self.cpu_seconds);
    v.optional("usage", self.usage);
    v("time", self.time);
    v.optional("timeline", self.timeline);
    v.optional("profiles", self.profiles);
    v("notes", self.notes);
    v("first_time", self.first_time);
    v("last_time", self.last_time);
    v("decisions", self.decisions);
    v("accepted", self.accepted);
    v("rolled_back", self.rolled_back);
    v.optional("not_settled", self.not_settled);
    v.optional("not_measured", self.not_measured);
    v("sessions", self.sessions);
    v("voided_sessions", self.voided_sessions);
    v("launches", self.launches);
    v("verified_calls", self.verified_calls);
    v("events", self.events);
    v("torn_bytes", self.torn_bytes);
    v("journal_head", self.journal_head);
    v.optional("progress", self.progress);
  }
};

}  // namespace ridge::record
