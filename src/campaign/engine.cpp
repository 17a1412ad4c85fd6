#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "campaign/anchor.h"
#include "campaign/campaign.h"
#include "campaign/files.h"
#include "campaign/iterations.h"
#include "campaign/manifest.h"
#include "campaign/naming.h"
#include "campaign/profile_hook.h"
#include "campaign/render.h"
#include "campaign/rules/rule.h"
#include "campaign/versions.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxFailuresInARow = 3;
constexpr std::int64_t kMostUnmeasured = 3;  // rounds in a row: the next one would not be measured either

// Steps that begin new work; the others only finish what is begun.
bool begins_work(Due due) {
  return due == Due::kPrepare || due == Due::kReadTips || due == Due::kMeasureBaseline || due == Due::kPropose ||
         due == Due::kScreen || due == Due::kEvaluate || due == Due::kMeasureFinal || due == Due::kReplicate ||
         due == Due::kEscalate || due == Due::kProfile;
}
bool works_on_a_round(Due due) { return due == Due::kPropose || due == Due::kScreen || due == Due::kEvaluate; }

std::string last_refusal(const State& state) {
  if (const Round* round = state.open_round(); round != nullptr && !round->refused.empty()) {
    return round->refused.back().refused;
  }
  return state.refused.empty() ? std::string("no answer") : state.refused.back().refused;
}

}  // namespace

Engine::Engine(EngineOptions options, Services services, CampaignLock lock, Journal journal, State state)
    : options_(std::move(options)),
      services_(std::move(services)),
      lock_(std::move(lock)),
      journal_(std::move(journal)),
      state_(std::move(state)) {
  if (services_.git == nullptr) {
    own_git_ = execute::make_git(worktree());
    services_.git = own_git_.get();
  }
}

Standpoint standpoint_of(const State& state) {
  const Round* open = state.open_round();
  return {open != nullptr ? open->number : state.next_round(), open != nullptr ? open->attempts.size() : 0,
          state.incumbent.candidate.id()};
}

Result<std::unique_ptr<Engine>> Engine::open(EngineOptions options, Services services) {
  const fs::path journal_path = options.directory / kJournalFile;
  std::error_code ignored;
  if (!fs::exists(journal_path, ignored)) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} holds no campaign", options.directory.string()),
                     "start one with `ridge optimize OP`");
  }
  RIDGE_TRY(lock, CampaignLock::acquire(options.directory));
  RIDGE_TRY(journal, Journal::open(journal_path, services.clock, std::move(services.sink)));
  const std::vector<record::Event> events = journal.take_loaded();
  RIDGE_TRY(state, fold(events));
  if (!state.confirmed) {
    return with_hint(
        make_error(ErrorCode::kConflict, "the manifest of {} is not confirmed", options.directory.string()),
        "read manifest.yaml and confirm it, or pass --yes");
  }
  if (options.expected && *options.expected != standpoint_of(state)) {
    return with_hint(make_error(ErrorCode::kConflict, "the campaign {} moved on while this round was stated",
                                options.directory.string()),
                     fmt::format("nothing was recorded; look at it with `ridge campaign status {}`, and propose again",
                                 options.directory.string()));
  }
  RIDGE_TRY(anchor, Anchor::open(options.directory, state.spec(), events, options.sign_key));
  journal.sign_with(std::move(anchor));
  std::unique_ptr<Engine> engine(
      new Engine(std::move(options), std::move(services), std::move(lock), std::move(journal), std::move(state)));
  RIDGE_CHECK_OK(engine->check_manifest());
  RIDGE_CHECK_OK(engine->check_project());
  return engine;
}

// The columns, the peak and the commands that the baseline was measured with are those of every later round.
Status Engine::check_project() const {
  if (!state_.prepared) return ok_status();
  const auto frozen = state_.prepared->frozen.find(kProjectDigest);
  if (frozen == state_.prepared->frozen.end() || frozen->second == options_.project) return ok_status();
  return with_hint(
      make_error(ErrorCode::kConflict, "{} was changed after the campaign began: its SHA-256 is {}, and was {}",
                 state_.spec().kernel_source, options_.project, frozen->second),
      "put the file back, or begin a new campaign with `ridge optimize`");
}

Status Engine::check_devices() {
  if (!services_.check_devices || !state_.prepared || devices_checked_) return ok_status();
  Status fit = services_.check_devices(state_.prepared->environment);
  devices_checked_ = fit.ok();
  interrupted_ = !fit && stop_level() != StopLevel::kNone;
  return fit;
}

Status Engine::check_manifest() const {
  const fs::path path = options_.directory / kManifestFile;
  Result<std::string> text = read_file(path);
  if (!text && text.error().code == ErrorCode::kNotFound) return ok_status();  // rendered again below
  if (!text) return text.error();
  RIDGE_TRY(spec, parse_manifest(*text));
  const std::string digest = spec_digest(spec);
  if (digest == state_.confirmed->spec_digest || digest == spec_digest(manifest_of(state_))) return ok_status();
  return with_hint(make_error(ErrorCode::kConflict, "{} was changed after it was confirmed: {}", path.string(),
                              differing_keys(manifest_of(state_), spec)),
                   "confirm the change with `ridge campaign confirm`, or put the file back");
}

Status Engine::record(record::EventKind kind, Json payload) {
  RIDGE_TRY(event, journal_.append(kind, std::move(payload)));
  RIDGE_CHECK_OK(apply(state_, event));
  const std::string command = is_stamped(kind) ? timestamp_command_of(state_.spec()) : std::string();
  if (command.empty()) return ok_status();
  const double before = services_.clock.monotonic();
  RIDGE_CHECK_OK(stamp_head(options_.directory, command, event, services_.clock));
  journal_.discount(services_.clock.monotonic() - before);
  return ok_status();
}

Status Engine::intend(const std::string& key, std::string_view effect) {
  if (state_.intents.contains(key)) return ok_status();  // begun before a crash; done again
  return record(record::EventKind::kIntent, record::to_json(record::Intent{key, std::string(effect)}));
}

// The first event of a process that goes on with a campaign, so that the record shows every restart.
Status Engine::begin_process() {
  const bool fresh = !state_.prepared && state_.intents.empty() && !state_.paused && journal_.torn_bytes() == 0;
  if (fresh) return ok_status();
  RIDGE_CHECK_OK(remove_stale_git_locks(worktree()));
  RIDGE_CHECK_OK(remove_unfinished_files(options_.directory));
  std::string text = fmt::format("by process {}", current_process().pid);
  if (journal_.torn_bytes() > 0)
    text += fmt::format("; {} bytes of an unfinished line were cut off", journal_.torn_bytes());
  if (!state_.intents.empty()) text += fmt::format("; {} is done again", *state_.intents.begin());
  return record(record::EventKind::kResumed, record::to_json(record::Note{text}));
}

StopLevel Engine::stop_level() const { return options_.stop_level ? options_.stop_level() : StopLevel::kNone; }

bool Engine::stop_file_exists() const {
  std::error_code ignored;
  return fs::exists(options_.directory / kStopFile, ignored);
}

// Closed attempts after which the user wants to stop; none when not asked.
std::optional<std::int64_t> Engine::stop_after() const {
  const Result<std::string> text = read_file(options_.directory / kStopAfterFile);
  const std::int64_t rounds = text ? std::atoll(text->c_str()) : 0;
  return rounds > 0 ? std::optional(rounds) : std::nullopt;
}

// The files of closed rounds are written once by a process; all of them when it begins.
Status Engine::render_files() {
  RIDGE_CHECK_OK(write_campaign_files(options_.directory, render_campaign(state_, rendered_rounds_)));
  RIDGE_CHECK_OK(remember_rounds());
  if (state_.baseline_committed) rendered_rounds_ = static_cast<std::size_t>(state_.rounds_closed());
  return ok_status();
}

Result<RunResult> Engine::pause(const std::string& why) {
  RIDGE_CHECK_OK(record(record::EventKind::kPaused, record::to_json(record::Note{why})));
  RIDGE_CHECK_OK(finish());
  return RunResult{RunEnd::kPaused, why};
}

// The tree holds the last accepted candidate and the files show the journal whenever no process works on a campaign.
Status Engine::finish() {
  if (state_.baseline_committed) {
    Tree present;
    if (const Round* round = state_.open_round(); round != nullptr && round->last().candidate() != nullptr) {
      present = tree_of(*round->last().candidate());
    }
    RIDGE_CHECK_OK(write_tree(worktree(), tree_of(state_.incumbent.candidate), present));
  }
  return render_files();
}

// A rule that fails or cannot be answered before a hypothesis is asked for, or before the report; empty: none.
std::string Engine::rules_that_block(Due due) const {
  const bool hypothesis = due == Due::kPropose && state_.open_round() == nullptr;
  if ((!hypothesis && due != Due::kReport) || !rules_in_force(state_)) return {};
  const RuleContext context{state_, nullptr, &options_.directory};
  const std::vector<record::RuleRow> blocked =
      blocking(hypothesis ? judge_before_round(context) : judge_before_report(context));
  if (blocked.empty()) return {};
  const Rule* rule = find_rule(std::to_string(blocked.front().rule));
  const std::string way_out = rule->waivable
                                  ? fmt::format("put it right, or: ridge campaign waive {} {} --reason '...'",
                                                options_.directory.string(), rule->number)
                                  : std::string("put it right; this rule cannot be waived");
  return fmt::format("{} ({})", blocking_text(blocked), way_out);
}

Status Engine::remember_rounds() {
  if (!state_.baseline_committed) return ok_status();
  if (!store_) {
    RIDGE_TRY(memory, knowledge::Memory::init(memory_root(state_, options_.directory)));
    store_ = std::move(memory);
  }
  RIDGE_CHECK_OK(remember(state_, *store_, rendered_rounds_, services_.clock));
  if (!state_.spec().extra.contains(kWorkspaceKey)) return ok_status();
  const fs::path workspace = memory_root(state_, options_.directory);
  return keep_versions(state_, *store_, workspace, *execute::make_git(workspace));
}

// What the iteration memory shows to the proposer, and the profile of the incumbent if there is one. A change of the
// memory's masks goes into the journal first.
Status Engine::recall_memory() {
  RIDGE_CHECK_OK(read_pages());
  if (!store_) RIDGE_CHECK_OK(remember_rounds());  // a process that was killed may have left the memory behind
  RIDGE_TRY(recalled, recall(state_, *store_));
  memory_ = std::move(recalled.visible);
  RIDGE_TRY(profile, profile_of_incumbent(state_, options_.directory));
  profile_ = std::move(profile);
  if (record::to_line(recalled.masked) == record::to_line(state_.masked)) return ok_status();
  return record(record::EventKind::kMasked, record::to_json(recalled.masked));
}

// Why the open round is not worked on any more; empty: it is.
std::string Engine::reason_to_abandon(Due due) const {
  if (state_.open_round() == nullptr || !works_on_a_round(due)) return {};
  if (stop_file_exists()) return "not measured: the user stopped the campaign";
  if (seconds_left(state_, termination_input()) <= 0) return "not measured: the budget is used up";
  return {};
}

// What must be settled before the next step: a stop, a pause, a budget that ran out in the middle of a round.
Result<std::optional<RunResult>> Engine::before(const Transition& next) {
  const StopLevel level = stop_level();
  if (level == StopLevel::kNow) return std::optional(RunResult{RunEnd::kInterrupted, "interrupted"});
  if (level == StopLevel::kFinishUnit && begins_work(next.due)) {
    RIDGE_TRY(paused, pause("interrupted by the user"));
    return std::optional(paused);
  }
  std::error_code ignored;
  if (begins_work(next.due) && fs::remove(options_.directory / kPauseFile, ignored)) {
    RIDGE_TRY(paused, pause("the user asked to pause"));
    return std::optional(paused);
  }
  const Due due = next.due;  // what is next may change with what the memory hides
  if (due == Due::kPropose || due == Due::kEscalate) RIDGE_CHECK_OK(recall_memory());
  // Before anything that waits for an answer: a stop and the end of the budget hold for a round that waits, too.
  if (const std::string why = reason_to_abandon(due); !why.empty()) {
    RIDGE_CHECK_OK(abandon(why));
    return std::optional<RunResult>();
  }
  if (due == Due::kPropose && state_.failures_in_a_row >= kMaxFailuresInARow) {
    RIDGE_TRY(paused, pause(fmt::format("the proposer {} gave no usable answer {} times in a row; the last: {}",
                                        services_.proposer.name(), state_.failures_in_a_row, last_refusal(state_))));
    return std::optional(paused);
  }
  // A stop that was asked for since the conditions were checked: no round is begun for it.
  if (due == Due::kPropose && state_.open_round() == nullptr && termination_input().stop_requested) {
    RIDGE_CHECK_OK(conclude());
    return std::optional<RunResult>();
  }
  if (due == Due::kPropose && !services_.proposer.waits_for().empty()) {
    RIDGE_TRY(paused, pause(fmt::format("it waits for {}: ridge campaign propose {} with --kernel FILE or --defines "
                                        "NAME=VALUE, and --title, --reason, --expect 8%",
                                        services_.proposer.waits_for(), options_.directory.string())));
    paused.waits = true;
    return std::optional(paused);
  }
  if (due == Due::kPropose && options_.rounds && state_.open_round() == nullptr &&
      state_.rounds_closed() - rounds_before_ >= *options_.rounds) {
    RIDGE_TRY(paused, pause(fmt::format("the {} rounds that this run was asked for are closed", *options_.rounds)));
    return std::optional(paused);
  }
  if (due == Due::kPropose && state_.unmeasured_in_a_row >= kMostUnmeasured) {
    RIDGE_TRY(paused, pause(fmt::format("nothing could be measured in {} rounds in a row; the last: {}",
                                        state_.unmeasured_in_a_row, state_.rounds.back().decision->reason)));
    return std::optional(paused);
  }
  if (const std::string blocked = rules_that_block(next.due); !blocked.empty()) {
    RIDGE_TRY(paused, pause(blocked));
    return std::optional(paused);
  }
  return std::optional<RunResult>();
}

Status Engine::perform(Due due) {
  if (begins_work(due)) RIDGE_CHECK_OK(check_devices());
  switch (due) {
    case Due::kPrepare: return prepare();
    case Due::kReadTips: return read_tips();
    case Due::kMeasureBaseline: return measure_baseline();
    case Due::kCalibrate: return calibrate_again();
    case Due::kProfile: return profile_incumbent();
    case Due::kEscalate: return escalate();
    case Due::kPropose: return propose();
    case Due::kScreen: return screen();
    case Due::kEvaluate: return evaluate();
    case Due::kDecide: return decide_round();
    case Due::kCommit: return commit();
    case Due::kRollBack: return roll_back();
    case Due::kCheckTermination: return conclude();
    case Due::kMeasureFinal: return measure_final();
    case Due::kReplicate: return replicate();
    case Due::kReport: return report();
    case Due::kCreate:
    case Due::kConfirm:
    case Due::kNothing: break;
  }
  return ok_status();
}

Result<RunResult> Engine::run() {
  if (next_transition(state_).due == Due::kNothing) {
    RIDGE_CHECK_OK(render_files());
    return RunResult{RunEnd::kDone, state_.termination->detail};
  }
  std::error_code ignored;
  fs::remove(options_.directory / kPauseFile, ignored);  // asked of a process that is gone
  RIDGE_CHECK_OK(begin_process());
  rounds_before_ = state_.rounds_closed();
  if (!rendered_here(state_)) RIDGE_CHECK_OK(render_files());  // what an earlier version rendered is kept as .edited
  while (true) {
    const Transition* next = &next_transition(state_);
    if (next->due == Due::kNothing) break;
    RIDGE_TRY(ended, before(*next));
    if (ended) return *ended;
    next = &next_transition(state_);  // an abandoned round is due to be decided
    action_ = next->action;
    show({}, 0);
    const Status done = perform(next->due);
    if (!done && interrupted_) {
      if (stop_level() == StopLevel::kNow) return RunResult{RunEnd::kInterrupted, "interrupted"};
      return pause("interrupted by the user");
    }
    if (!done && done.error().code == ErrorCode::kUnsupported) return pause(done.error().text());
    RIDGE_CHECK_OK(done);
  }
  return RunResult{RunEnd::kDone, state_.termination->condition + ": " + state_.termination->detail};
}

void Engine::show(std::string_view detail, double fraction) const {
  if (!options_.on_progress) return;
  EngineProgress progress;
  progress.phase = next_transition(state_).phase;
  const Round* round = state_.open_round();
  progress.round = round != nullptr ? round->number : (state_.baseline_committed ? state_.next_round() : 1);
  progress.action = action_;
  progress.detail = detail;
  progress.fraction = fraction;
  progress.active = journal_.active();
  progress.seconds_left = state_.wall_budget > 0 ? std::max(state_.wall_budget - progress.active, 0.0)
                                                 : std::numeric_limits<double>::infinity();
  for (const Round& one : state_.rounds) progress.accepted += one.committed ? 1 : 0;
  progress.speedup = state_.product_of_accepted;
  options_.on_progress(progress);
}

}  // namespace ridge::campaign
