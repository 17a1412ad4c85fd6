// Campaigns, as the command line and other programs use them.
//
//   create_campaign   writes the first journal line and the draft manifest; nothing is measured
//   confirm_campaign  binds the confirmation to the digest of manifest.yaml as it is now
//   Engine            runs what is due until the campaign is done or paused; running again is resuming
//   request_stop      asks the running engine (or the next one) to finish: T4
//   verify_campaign, replay_campaign   see verify.h
//
// A campaign is a folder; journal.jsonl in it is the only truth, every other file is rendered from it:
//   manifest.yaml manifest.confirmed journal.jsonl verified_ineffective.jsonl logs/ rounds/ memory/ objects/ src/ lock
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "campaign/journal.h"
#include "campaign/lineage.h"
#include "campaign/lock.h"
#include "campaign/session_size.h"
#include "campaign/state.h"
#include "campaign/termination.h"
#include "campaign/transition.h"
#include "execute/executor.h"
#include "execute/git.h"
#include "knowledge/memory.h"
#include "knowledge/pages.h"
#include "propose/proposer.h"
#include "record/iteration.h"
#include "record/profile.h"

namespace ridge::campaign {

// Starts a campaign in an empty or new folder. The spec is checked, stamped with the time, and written as a draft
// manifest. kConflict when the folder already holds one: "resume it". `sign_key`: the private key of a spec that is
// anchored (anchor.h).
Result<State> create_campaign(const std::filesystem::path& directory, record::CampaignSpec spec,
                              const record::Candidate& baseline, Clock& clock,
                              const std::filesystem::path& sign_key = {});
// Confirms manifest.yaml as it is on disk, which may have been edited since it was drafted.
// After that only the budgets (max_iterations, wall_budget) may change; anything else needs a new campaign.
Result<State> confirm_campaign(const std::filesystem::path& directory, const std::string& by, Clock& clock);
// More attempts or more time, also for a campaign that has ended.
Result<State> extend_budget(const std::filesystem::path& directory, const record::BudgetChange& change, Clock& clock);
// Lets the campaign go on although a rule fails or cannot be answered. Refused without a reason, and for rules that
// make a result true.
Result<State> waive_rule(const std::filesystem::path& directory, const std::string& rule, const std::string& reason,
                         const std::string& by, Clock& clock);
// What a proposer is told of a campaign as far as its journal says it: without memory, a profile and the time left.
record::ProposalRequest proposal_request(const State& state);
// Why the campaign cannot be asked for a round by hand now, with the way out; ok: it can.
Status takes_a_round(const State& state, const std::filesystem::path& directory);
// Reads without locking; for status and watch.
Result<State> load_campaign(const std::filesystem::path& directory);
// Honoured before the next measurement begins; works whether or not an engine runs. kConflict for a campaign that has
// ended, and nothing is left behind.
Status request_stop(const std::filesystem::path& directory);
// The same, as soon as `rounds` attempts are closed (the baseline does not count).
Status request_stop_after(const std::filesystem::path& directory, std::int64_t rounds);
// Asks the running engine to pause; it goes on when it is resumed.
Status request_pause(const std::filesystem::path& directory);

// What is outside of the engine; fakes stand in for all of it in tests.
struct Services {
  execute::Executor& executor;
  propose::Proposer& proposer;
  Clock& clock;
  execute::Git* git = nullptr;                  // of <campaign>/src; null: make_git()
  std::unique_ptr<JournalSink> sink = nullptr;  // null: the file
  execute::Executor* replica = nullptr;         // of the manifest's replicate_on; null: none is asked for
  // Refuses a campaign on the device of this environment, once it is known and before anything is measured; asked by
  // each process. Empty: nothing.
  std::function<Status(const record::Environment&)> check_devices = {};
};

struct EngineProgress {
  record::Phase phase = record::Phase::kDefineTarget;
  std::int64_t round = 1;
  std::string action, detail;  // "build, check and measure the candidate", "session 3 of at most 32"
  double fraction = 0;         // of the action, 0..1, as far as it is known
  double active = 0;           // seconds of active campaign time
  double seconds_left = 0;     // of the wall budget; infinity without one
  std::int64_t accepted = 0;   // rounds
  double speedup = 1;          // product of the accepted gains
};

enum class StopLevel {
  kNone,
  kFinishUnit,  // first signal: finish the current measurement unit, then pause
  kNow          // second signal: kill the worker and leave; the journal is intact
};

// Where a campaign stands, as far as an answer for its next attempt depends on it.
struct Standpoint {
  std::int64_t round = 0;    // the open one, or the next
  std::size_t attempts = 0;  // of the open round
  std::string incumbent;     // id
  friend bool operator==(const Standpoint&, const Standpoint&) = default;
};
Standpoint standpoint_of(const State& state);

struct EngineOptions {
  std::filesystem::path directory;
  std::filesystem::path cache_directory;              // of built objects
  std::filesystem::path experience;                   // root of the tips; empty: none are read or written
  std::filesystem::path data;                         // holds knowledge/ and hardware/
  std::vector<std::filesystem::path> knowledge = {};  // folders of the user's own pages
  std::string project;  // digest of its ridge-project.toml; empty: the campaign is of no project
  std::function<void(const EngineProgress&)> on_progress;
  std::function<StopLevel()> stop_level;
  std::filesystem::path sign_key;      // of an anchored campaign; empty: where it was before
  std::optional<std::int64_t> rounds;  // pause when so many more are closed
  std::optional<Standpoint> expected;  // kConflict when the campaign stands elsewhere once it is locked
  // What other campaigns on the same kernel looked at, for the proposer; asked once, when the baseline stands. Empty:
  // nothing.
  std::function<std::vector<record::EarlierLooks>(const State&)> earlier = {};
  double unit_grace = 60.0;  // seconds a unit may still take after the first signal before it is killed and redone
};

enum class RunEnd { kDone, kPaused, kInterrupted };
struct RunResult {
  RunEnd end = RunEnd::kDone;
  std::string reason;  // one sentence for a person
  bool waits = false;  // paused for a round by hand
};

// An evaluation that did not happen: never charged to the candidate, never a pass.
record::Evaluation harness_fault(const std::string& candidate, const std::string& incumbent, std::string detail);
// No request gets less time than this, in seconds.
inline constexpr double kShortestRequest = 10.0;
inline constexpr double kReportSeconds = 2.0;  // kept for the report
inline constexpr int kFinalTries = 2;          // a busy moment may void every session

class Engine {
 public:
  // Locks the campaign, reads its journal and checks that manifest.yaml is the confirmed one.
  static Result<std::unique_ptr<Engine>> open(EngineOptions options, Services services);
  // Does what is due until done, paused or interrupted. An error means that something outside failed (disk, git, the
  // worker); the journal is valid and running again continues where it was.
  Result<RunResult> run();
  [[nodiscard]] const State& state() const { return state_; }

 private:
  Engine(EngineOptions options, Services services, CampaignLock lock, Journal journal, State state);

  // engine.cpp: the loop
  Status begin_process();
  Status check_manifest() const;
  Status check_project() const;
  Status check_devices();
  Status perform(Due due);
  Result<std::optional<RunResult>> before(const Transition& next);
  [[nodiscard]] std::string rules_that_block(Due due) const;
  [[nodiscard]] std::string reason_to_abandon(Due due) const;
  Result<RunResult> pause(const std::string& why);
  Status record(record::EventKind kind, Json payload);
  Status intend(const std::string& key, std::string_view effect);
  Status render_files();
  Status remember_rounds();
  Status recall_memory();
  Status finish();

  // steps_setup.cpp
  Status prepare();
  Status read_tips();
  Status read_pages();
  [[nodiscard]] std::vector<record::KnowledgeEntry> advised(std::size_t most) const;
  Result<record::Evaluation> look_at_baseline();
  Result<std::vector<record::Session>> calibration_sessions(const record::Candidate& candidate, double launch,
                                                            double share, SessionCost cost);
  Status calibrate_again();
  Status measure_baseline();
  // steps_profile.cpp
  Status profile_incumbent();
  // steps_escalate.cpp
  Status escalate();
  Status look_at_incumbent(record::Escalated& escalated);
  Status inspect_incumbent(record::Escalated& escalated);
  Status compare_with_known(record::Escalated& escalated);
  // steps_round.cpp
  record::ProposalRequest request_of_round() const;
  Status propose();
  Status screen();
  Status evaluate();
  Status rebuild(record::Evaluated& evaluated);
  Status abandon(const std::string& why);
  Status decide_round();
  Status commit();
  Status roll_back();
  // steps_end.cpp
  Status conclude();
  Status measure_final();
  Status measure_peers(record::Final& final_measurement);
  record::WorkerRequest final_request(const SessionSize& size) const;
  Status write_tips() const;
  Status report();
  // steps_replica.cpp
  Status replicate();
  Status measure_replica(record::Replicated& replica);
  Status look_there(record::Replicated& replica);
  Status compare_there(record::Replicated& replica);
  [[nodiscard]] double replica_seconds_left() const;

  record::WorkerRequest request(record::WorkerTask task) const;
  Result<record::WorkerResponse> work(const record::WorkerRequest& request);
  Result<record::WorkerResponse> work_by(execute::Executor& executor, const record::WorkerRequest& request);
  void show(std::string_view detail, double fraction) const;
  [[nodiscard]] TerminationInput termination_input() const;
  [[nodiscard]] StopLevel stop_level() const;
  [[nodiscard]] bool stop_file_exists() const;
  [[nodiscard]] std::optional<std::int64_t> stop_after() const;
  [[nodiscard]] std::filesystem::path worktree() const { return options_.directory / "src"; }
  [[nodiscard]] SnapshotStore snapshots() const { return SnapshotStore(options_.directory / "objects"); }

  EngineOptions options_;
  Services services_;
  std::unique_ptr<execute::Git> own_git_;
  CampaignLock lock_;
  Journal journal_;
  State state_;
  double stop_seen_ = -1;  // monotonic time of the first stop signal
  bool interrupted_ = false;
  std::size_t rendered_rounds_ = 0;
  bool devices_checked_ = false;
  std::int64_t rounds_before_ = 0;  // closed when this process began
  std::optional<knowledge::Memory> store_;
  std::vector<record::Iteration> memory_;                     // as the proposer sees it
  std::optional<record::ProfileReport> profile_;              // of the incumbent, if one was given
  std::optional<std::vector<record::EarlierLooks>> earlier_;  // once they were asked for
  std::optional<knowledge::Pages> pages_;                     // once they were asked for
  std::optional<knowledge::Route> route_;                     // the same; its bottleneck is not kept
  std::string action_;
};

}  // namespace ridge::campaign
