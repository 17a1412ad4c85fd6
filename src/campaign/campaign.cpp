#include "campaign/campaign.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "campaign/anchor.h"
#include "campaign/commands.h"
#include "campaign/files.h"
#include "campaign/manifest.h"
#include "campaign/render.h"
#include "campaign/rules/rule.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

Error no_campaign(const fs::path& directory) {
  return with_hint(make_error(ErrorCode::kNotFound, "{} holds no campaign", directory.string()),
                   "start one with `ridge optimize OP`, or name the folder of an existing one");
}

// A journal that is locked, read and folded; what every change of a campaign begins with.
struct Opened {
  CampaignLock lock;
  Journal journal;
  State state;

  Status add(record::EventKind kind, Json payload) {
    RIDGE_TRY(event, journal.append(kind, std::move(payload)));
    return apply(state, event);
  }
};

Result<Opened> open_locked(const fs::path& directory, Clock& clock, bool must_exist) {
  std::error_code ignored;
  if (must_exist && !fs::exists(directory / kJournalFile, ignored)) return no_campaign(directory);
  RIDGE_TRY(lock, CampaignLock::acquire(directory));
  RIDGE_TRY(journal, Journal::open(directory / kJournalFile, clock));
  const std::vector<record::Event> events = journal.take_loaded();
  RIDGE_TRY(state, fold(events));
  if (must_exist && !state.created) return no_campaign(directory);
  if (state.created) {
    RIDGE_TRY(anchor, Anchor::open(directory, state.spec(), events, {}));
    journal.sign_with(std::move(anchor));
  }
  return Opened{std::move(lock), std::move(journal), std::move(state)};
}

Error already_there(const fs::path& directory) {
  return with_hint(make_error(ErrorCode::kConflict, "{} already holds a campaign", directory.string()),
                   fmt::format("go on with it by `ridge campaign resume {}`, or choose another folder with --directory",
                               directory.string()));
}

// Only the budgets may differ between a confirmed manifest and a later one.
std::string frozen_differences(record::CampaignSpec before, const record::CampaignSpec& after) {
  before.max_iterations = after.max_iterations;
  before.wall_budget = after.wall_budget;
  return differing_keys(before, after);
}

}  // namespace

Result<State> create_campaign(const fs::path& directory, record::CampaignSpec spec, const record::Candidate& baseline,
                              Clock& clock, const fs::path& sign_key) {
  spec.created = format_minute(clock.unix_time());
  if (spec.id.empty()) spec.id = default_campaign_id(spec, format_day(clock.unix_time()));
  RIDGE_CHECK_OK(validate_spec(spec));
  if (baseline.op != spec.op || baseline.sources.empty()) {
    return invalid("the baseline kernel implements \"{}\", the campaign is about {}", baseline.op, spec.op);
  }
  for (const record::SourceFile& source : baseline.sources) {
    if (!is_utf8(source.text)) {
      return with_hint(invalid("{} is not UTF-8", source.path),
                       "the journal holds text: convert the file, for instance with iconv");
    }
  }
  describe_commands(spec, baseline);
  // What the file can express is what counts from here on.
  RIDGE_TRY(canonical, parse_manifest(render_manifest(spec)));
  RIDGE_TRY(opened, open_locked(directory, clock, false));
  if (opened.state.created) return already_there(directory);
  RIDGE_TRY(anchor, Anchor::open(directory, canonical, {}, sign_key));
  opened.journal.sign_with(std::move(anchor));
  RIDGE_CHECK_OK(opened.add(record::EventKind::kCreated, record::to_json(record::Created{canonical, baseline})));
  RIDGE_CHECK_OK(write_campaign_files(directory, render_campaign(opened.state)));
  return std::move(opened.state);
}

Result<State> confirm_campaign(const fs::path& directory, const std::string& by, Clock& clock) {
  RIDGE_TRY(opened, open_locked(directory, clock, true));
  RIDGE_TRY(text, read_file(directory / kManifestFile));
  RIDGE_TRY(spec, parse_manifest(text));
  RIDGE_CHECK_OK(validate_spec(spec));
  RIDGE_CHECK_OK(check_machine(spec));
  const record::Created created = *opened.state.created;
  RIDGE_TRY(key_before, signing_key_of(created.spec));
  RIDGE_TRY(key_now, signing_key_of(spec));
  if (key_before != key_now) {
    return with_hint(make_error(ErrorCode::kConflict, "{} cannot change after the first line was written", kSigningKey),
                     "put manifest.yaml back, or start a new campaign");
  }
  if (!opened.state.confirmed) {
    if (!differing_keys(created.spec, spec).empty()) {
      RIDGE_CHECK_OK(opened.add(record::EventKind::kCreated, record::to_json(record::Created{spec, created.baseline})));
    }
  } else {
    const std::string frozen = frozen_differences(created.spec, spec);
    if (!frozen.empty()) {
      return with_hint(make_error(ErrorCode::kConflict, "{} cannot change in a campaign that has begun", frozen),
                       "start a new campaign, or put manifest.yaml back: `ridge campaign verify` shows what it was");
    }
    const record::BudgetChange change{spec.wall_budget, spec.max_iterations};
    RIDGE_CHECK_OK(opened.add(record::EventKind::kBudget, record::to_json(change)));
  }
  const record::Confirmed confirmed{spec_digest(spec), by};
  RIDGE_CHECK_OK(opened.add(record::EventKind::kConfirmed, record::to_json(confirmed)));
  RIDGE_CHECK_OK(write_campaign_files(directory, render_campaign(opened.state)));
  return std::move(opened.state);
}

Result<State> extend_budget(const fs::path& directory, const record::BudgetChange& change, Clock& clock) {
  RIDGE_TRY(opened, open_locked(directory, clock, true));
  record::CampaignSpec spec = opened.state.spec();
  spec.wall_budget = change.wall_budget;
  spec.max_iterations = change.max_iterations;
  RIDGE_CHECK_OK(validate_spec(spec));
  RIDGE_CHECK_OK(opened.add(record::EventKind::kBudget, record::to_json(change)));
  RIDGE_CHECK_OK(opened.add(record::EventKind::kConfirmed,
                            record::to_json(record::Confirmed{spec_digest(manifest_of(opened.state)), "budget"})));
  RIDGE_CHECK_OK(write_campaign_files(directory, render_campaign(opened.state)));
  return std::move(opened.state);
}

Result<State> waive_rule(const fs::path& directory, const std::string& name, const std::string& reason,
                         const std::string& by, Clock& clock) {
  const Rule* rule = find_rule(name);
  if (rule == nullptr) return with_hint(invalid("there is no rule \"{}\"", name), "`ridge campaign rules` lists them");
  if (!rule->waivable) {
    return with_hint(
        make_error(ErrorCode::kConflict, "rule {} ({}) cannot be waived: {}", rule->number, rule->name, rule->says),
        "put right what it found");
  }
  if (reason.find_first_not_of(" \t\r\n") == std::string::npos) return invalid("a waiver needs a reason");
  RIDGE_TRY(opened, open_locked(directory, clock, true));
  RIDGE_CHECK_OK(opened.add(record::EventKind::kWaived, record::to_json(record::Waived{rule->number, reason, by})));
  RIDGE_CHECK_OK(write_campaign_files(directory, render_campaign(opened.state)));
  return std::move(opened.state);
}

Status takes_a_round(const State& state, const fs::path& directory) {
  const std::string where = directory.string();
  if (state.terminated()) {
    return with_hint(
        make_error(ErrorCode::kConflict, "{} {}: {}", where, state.reported ? "has ended" : "is ending",
                   state.termination->detail),
        fmt::format("give it more time or rounds with `ridge campaign extend {} --budget 10m`, and propose again",
                    where));
  }
  if (!state.confirmed || !state.baseline_committed) {
    return with_hint(make_error(ErrorCode::kConflict, "the baseline of {} is not measured yet", where),
                     fmt::format("{}ridge campaign resume {} --proposer manual",
                                 state.confirmed ? "" : fmt::format("ridge campaign confirm {} && ", where), where));
  }
  const Round* open = state.open_round();
  if (open != nullptr && !repair_is_due(*open)) {
    return with_hint(make_error(ErrorCode::kConflict, "round {} of {} (\"{}\") was interrupted and is still open",
                                open->number, open->last().proposer, open->last().proposal.hypothesis.title),
                     fmt::format("finish it with `ridge campaign resume {} --rounds 1`, and propose again", where));
  }
  return ok_status();
}

Result<State> load_campaign(const fs::path& directory) {
  Result<record::JournalText> journal = record::read_journal(directory / kJournalFile);
  if (!journal && journal.error().code == ErrorCode::kNotFound) return no_campaign(directory);
  if (!journal) return journal.error();
  RIDGE_TRY(state, fold(journal->events));
  if (!state.created) return no_campaign(directory);
  return state;
}

namespace {

Status leave_wish(const fs::path& directory, const char* file, const std::string& text) {
  std::error_code ignored;
  if (!fs::exists(directory / kJournalFile, ignored)) return no_campaign(directory);
  return write_file_durably(directory / file, text + "\n");
}

// A wish that nothing would read would end the campaign as soon as it is extended.
Status must_go_on(const fs::path& directory) {
  RIDGE_TRY(state, load_campaign(directory));
  if (!state.terminated()) return ok_status();
  return with_hint(make_error(ErrorCode::kConflict, "{} {}: {}", directory.string(),
                              state.reported ? "has ended" : "is ending", state.termination->detail),
                   fmt::format("give it more time or rounds with `ridge campaign extend {}`", directory.string()));
}

}  // namespace

Status request_stop(const fs::path& directory) {
  RIDGE_CHECK_OK(must_go_on(directory));
  return leave_wish(directory, kStopFile, "stop");
}
Status request_pause(const fs::path& directory) {
  if (lock_holder(directory).pid == 0) {
    return with_hint(make_error(ErrorCode::kConflict, "nothing runs in {}", directory.string()),
                     "a campaign that does not run is paused already");
  }
  return leave_wish(directory, kPauseFile, "pause");
}
Status request_stop_after(const fs::path& directory, std::int64_t rounds) {
  if (rounds < 1 || rounds > 119) return invalid("stop-after {}: 1 to 119 rounds are possible", rounds);
  RIDGE_CHECK_OK(must_go_on(directory));
  return leave_wish(directory, kStopAfterFile, std::to_string(rounds));
}

}  // namespace ridge::campaign
