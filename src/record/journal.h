// The journal: one event per line, each line chained to the one before by its hash. The only truth of a campaign;
// every other file is rendered from it. Writing it (append, fsync, lock) is src/campaign's; the format and its
// verification are here, so that a report can be made from the file alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "record/campaign.h"

namespace ridge::record {

enum class EventKind {
  kCreated,      // payload: spec
  kConfirmed,    // digest of the spec as shown, by whom ("--yes", "prompt")
  kPrepared,     // environment, ceilings, frozen digests, branch, worktree
  kTipsRead,     // digest, count, texts
  kBaseline,     // baseline candidate, its evaluation, representative shapes, calibration sessions, noise
  kIntent,       // an effect is about to happen: its idempotency key and what it is
  kProposed,     // round, proposal (hypothesis first, before anything is built)
  kScreened,     // round, screen rows of a sweep, the chosen candidate
  kEvaluated,    // round, candidate, evaluation with all raw samples
  kDecided,      // round, decision
  kCalibrated,   // the incumbent against itself, again: sessions, noise
  kCommitted,    // round, snapshot digest, git commit
  kRolledBack,   // round, snapshot digest restored
  kTermination,  // termination
  kFinal,        // final against initial: sessions, effects
  kReported,     // digests of the rendered files
  kPaused,       // why
  kResumed,      // by which process
  kBudget,       // extended budgets
  kWaived,       // a rule that shall not block, by whom and why
  kEscalated,    // evidence gathered after rollbacks in a row, and the review of a stagnation
  kMasked,       // the rounds whose memory is hidden from the proposer from here on
  kProfiled,     // what a profiler saw of the incumbent, or why it saw nothing
  kReplicated,   // the final comparison on another device, or why there is none
};
template <>
struct EnumNames<EventKind> {
  static constexpr std::pair<EventKind, std::string_view> kNames[] = {{EventKind::kCreated, "created"},
                                                                      {EventKind::kConfirmed, "confirmed"},
                                                                      {EventKind::kPrepared, "prepared"},
                                                                      {EventKind::kTipsRead, "tips_read"},
                                                                      {EventKind::kBaseline, "baseline"},
                                                                      {EventKind::kIntent, "intent"},
                                                                      {EventKind::kProposed, "proposed"},
                                                                      {EventKind::kScreened, "screened"},
                                                                      {EventKind::kEvaluated, "evaluated"},
                                                                      {EventKind::kDecided, "decided"},
                                                                      {EventKind::kCalibrated, "calibrated"},
                                                                      {EventKind::kCommitted, "committed"},
                                                                      {EventKind::kRolledBack, "rolled_back"},
                                                                      {EventKind::kTermination, "termination"},
                                                                      {EventKind::kFinal, "final"},
                                                                      {EventKind::kReported, "reported"},
                                                                      {EventKind::kPaused, "paused"},
                                                                      {EventKind::kResumed, "resumed"},
                                                                      {EventKind::kBudget, "budget"},
                                                                      {EventKind::kWaived, "waived"},
                                                                      {EventKind::kEscalated, "escalated"},
                                                                      {EventKind::kMasked, "masked"},
                                                                      {EventKind::kProfiled, "profiled"},
                                                                      {EventKind::kReplicated, "replicated"}};
};

struct Created {
  CampaignSpec spec;
  Candidate baseline;
  static void fields(auto& v, auto& self) {
    v("spec", self.spec);
    v("baseline", self.baseline);
  }
};

struct Confirmed {
  std::string spec_digest, by;
  static void fields(auto& v, auto& self) {
    v("spec_digest", self.spec_digest);
    v("by", self.by);
  }
};

// How the files of a campaign are rendered from its journal, and what becomes of a sweep that was not looked at.
// 1: a round that was not measured was rendered as rolled back and ineffective; 2: it has a state of its own, and each
// round names its proposer; 3: a project's benchmark.csv has the deviations of its rates; 4: and the
// columns of the baseline also in a round that was not timed.
inline constexpr std::int64_t kRendering = 4;

struct Prepared {
  std::int64_t rendering = 1;  // of the version that began the campaign
  Environment environment;
  std::vector<Ceiling> ceilings;
  std::map<std::string, std::string> frozen;  // name -> SHA-256 of what may not change
  std::string worktree, branch, base_commit;  // empty without git
  static void fields(auto& v, auto& self) {
    v.optional("rendering", self.rendering);
    v("environment", self.environment);
    v("ceilings", self.ceilings);
    v("frozen", self.frozen);
    v("worktree", self.worktree);
    v("branch", self.branch);
    v("base_commit", self.base_commit);
  }
};

struct TipsRead {
  std::string digest;  // "absent" when there is no tips file
  std::vector<std::string> tips;
  std::string knowledge_digest;        // of the knowledge pages; empty in records of before they were read
  std::vector<std::string> knowledge;  // ids of the entries that hold for such a kernel
  static void fields(auto& v, auto& self) {
    v("digest", self.digest);
    v("tips", self.tips);
    v.optional("knowledge_digest", self.knowledge_digest);
    v.optional("knowledge", self.knowledge);
  }
};

struct Baseline {
  Candidate candidate;
  TuneSpace space;
  Evaluation evaluation;  // of the baseline against itself: checks, roofline, A/A sessions
  std::vector<std::string> representative_labels;
  Calibration calibration;
  static void fields(auto& v, auto& self) {
    v("candidate", self.candidate);
    v("space", self.space);
    v("evaluation", self.evaluation);
    v("representative_labels", self.representative_labels);
    v("calibration", self.calibration);
  }
};

struct Intent {
  std::string key, effect;  // key: "round-3/evaluate"
  static void fields(auto& v, auto& self) {
    v("key", self.key);
    v("effect", self.effect);
  }
};

struct Proposed {
  std::int64_t round = 0;
  Proposal proposal;
  std::string proposer;  // who answered; empty in records of before it was kept: the campaign's own
  std::string refused;   // why this answer opens no attempt; empty: it does
  std::string context;   // SHA-256 of the request that was answered
  double seconds = 0;
  static void fields(auto& v, auto& self) {
    v("round", self.round);
    v("proposal", self.proposal);
    v.optional("proposer", self.proposer);
    v.optional("refused", self.refused);
    v.optional("context", self.context);
    v("seconds", self.seconds);
  }
};

struct Screened {
  std::int64_t round = 0;
  std::vector<ScreenRow> rows;
  std::optional<ScreenRow> incumbent;  // looked at in turn with them; absent where it was not
  std::string chosen;                  // candidate id; empty when none was usable, or worth measuring
  double seconds = 0;
  double cpu_seconds = 0;  // processor time, as in WorkerResponse
  static void fields(auto& v, auto& self) {
    v("round", self.round);
    v("rows", self.rows);
    v.optional("incumbent", self.incumbent);
    v("chosen", self.chosen);
    v("seconds", self.seconds);
    v.optional("cpu_seconds", self.cpu_seconds);
  }
};

struct Evaluated {
  std::int64_t round = 0;
  std::string level = "full";  // quick: the representative shapes | full: all target shapes
  Candidate candidate;
  Evaluation evaluation;
  double seconds = 0;
  double cpu_seconds = 0;  // processor time, as in WorkerResponse
  std::string tree;        // digest of the worktree's in-scope files as they were on disk when it was built
  static void fields(auto& v, auto& self) {
    v("round", self.round);
    v("level", self.level);
    v("candidate", self.candidate);
    v.optional("tree", self.tree);
    v("evaluation", self.evaluation);
    v("seconds", self.seconds);
    v.optional("cpu_seconds", self.cpu_seconds);
  }
};

struct Calibrated {
  std::string candidate;  // the incumbent at that time
  std::vector<Session> sessions;
  Calibration calibration;
  static void fields(auto& v, auto& self) {
    v("candidate", self.candidate);
    v("sessions", self.sessions);
    v("calibration", self.calibration);
  }
};

struct Committed {
  std::int64_t round = 0;
  std::string snapshot, commit;  // tree digest; git commit or empty
  static void fields(auto& v, auto& self) {
    v("round", self.round);
    v("snapshot", self.snapshot);
    v("commit", self.commit);
  }
};

struct RolledBack {
  std::int64_t round = 0;
  std::string snapshot;  // restored
  static void fields(auto& v, auto& self) {
    v("round", self.round);
    v("snapshot", self.snapshot);
  }
};

struct Final {
  std::string initial, best;  // candidate ids
  Evaluation evaluation;      // best against initial, fresh sessions, all target shapes
  std::vector<Effect> effects;
  double product_of_accepted = 1;  // winner's-curse check: should agree with effects[0].ratio
  std::vector<BenchRow> peers;     // the library's implementations, each with its ratio to the best of the same run
  std::string peers_note;          // why there are none
  static void fields(auto& v, auto& self) {
    v("initial", self.initial);
    v("best", self.best);
    v("evaluation", self.evaluation);
    v("effects", self.effects);
    v("product_of_accepted", self.product_of_accepted);
    v.optional("peers", self.peers);
    v.optional("peers_note", self.peers_note);
  }
};

// The final comparison once more, on another device. Nothing is decided by it, and the campaign's result stays its own.
struct Replicated {
  std::string place;        // as the manifest names it
  std::string own_host;     // of the machine that measured the campaign
  Environment environment;  // of the other device; its host is the fact "node.host"
  Evaluation evaluation;    // best against initial, fresh sessions, all target shapes
  std::vector<Effect> effects;
  std::string note;  // why there are no effects; empty: there are
  static void fields(auto& v, auto& self) {
    v("place", self.place);
    v("own_host", self.own_host);
    v("environment", self.environment);
    v("evaluation", self.evaluation);
    v("effects", self.effects);
    v("note", self.note);
  }
};

struct Reported {
  std::map<std::string, std::string> files;  // path inside the campaign -> SHA-256
  std::vector<RuleRow> rules;                // every rule, as it stood when the report was written
  static void fields(auto& v, auto& self) {
    v("files", self.files);
    v.optional("rules", self.rules);
  }
};

struct Note {  // payload of paused, resumed
  std::string text;
  static void fields(auto& v, auto& self) { v("text", self.text); }
};

struct BudgetChange {
  double wall_budget = 0;
  std::optional<std::int64_t> max_iterations;
  static void fields(auto& v, auto& self) {
    v("wall_budget", self.wall_budget);
    v.optional("max_iterations", self.max_iterations);
  }
};

// All of them each time, not what was added: the last one counts.
struct Masked {
  std::vector<std::int64_t> rounds;
  std::vector<std::string> versions;  // of the iteration memory, other campaigns' included
  static void fields(auto& v, auto& self) {
    v("rounds", self.rounds);
    v("versions", self.versions);
  }
};

struct Event {
  std::int64_t sequence = 0;
  std::string time;   // "2026-11-21T07:30:12Z"
  double active = 0;  // seconds of active campaign time so far; budgets count these
  EventKind kind = EventKind::kCreated;
  Json payload;
  std::string previous;  // hash of the event before; 64 zeros for the first
  std::string hash;      // SHA-256 of the line without this key

  static void fields(auto& v, auto& self) {
    v("sequence", self.sequence);
    v("time", self.time);
    v("active", self.active);
    v("kind", self.kind);
    v("payload", self.payload);
    v("previous", self.previous);
    v("hash", self.hash);
  }
};

// The hash of an event: SHA-256 of its line with `hash` empty.
std::string event_hash(const Event& event);

struct JournalText {
  std::vector<Event> events;
  // Bytes at the end that are an unfinished line: what a crash in the middle of an append leaves. They never counted.
  std::size_t torn_bytes = 0;
};

// Reads and verifies a journal: an error names the line and the byte offset where the chain breaks.
Result<JournalText> parse_journal(std::string_view text);
Result<JournalText> read_journal(const std::filesystem::path& path);

}  // namespace ridge::record
