#include "service/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "campaign/journal.h"
#include "campaign/lock.h"
#include "campaign/transition.h"
#include "record/json.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;
using campaign::Due;

constexpr double kInterval = 1.0;  // seconds between two writes within a step

// Where a step stands among those that usually come one after the other.
struct StepRow {
  Due due;
  const char* part;
  std::int64_t number, of;
  Due next;
};
constexpr const char *kSetUp = "set-up", *kRound = "round", *kBetween = "between rounds", *kEnd = "end";
constexpr StepRow kSteps[] = {
    {Due::kPrepare, kSetUp, 1, 4, Due::kReadTips},
    {Due::kReadTips, kSetUp, 2, 4, Due::kMeasureBaseline},
    {Due::kMeasureBaseline, kSetUp, 3, 4, Due::kCommit},
    {Due::kPropose, kRound, 1, 4, Due::kEvaluate},
    {Due::kScreen, kRound, 2, 4, Due::kEvaluate},
    {Due::kEvaluate, kRound, 2, 4, Due::kDecide},
    {Due::kDecide, kRound, 3, 4, Due::kCommit},
    {Due::kCommit, kRound, 4, 4, Due::kCheckTermination},
    {Due::kRollBack, kRound, 4, 4, Due::kCheckTermination},
    {Due::kCheckTermination, kBetween, 1, 1, Due::kPropose},
    {Due::kCalibrate, kBetween, 1, 1, Due::kPropose},
    {Due::kProfile, kBetween, 1, 1, Due::kPropose},
    {Due::kEscalate, kBetween, 1, 1, Due::kPropose},
    {Due::kMeasureFinal, kEnd, 1, 2, Due::kReport},
    {Due::kReport, kEnd, 2, 2, Due::kNothing},
};

std::string_view action_of(Due due) {
  const auto rows = campaign::transitions();
  const auto found = std::ranges::find(rows, due, &campaign::Transition::due);
  return found == rows.end() || due == Due::kNothing ? std::string_view() : found->action;
}

StepRow step_of(const std::string& action, bool baseline_committed) {
  for (const campaign::Transition& row : campaign::transitions()) {
    if (row.action != action) continue;
    const auto step = std::ranges::find(kSteps, row.due, &StepRow::due);
    if (step == std::end(kSteps)) break;
    if (row.due == Due::kCommit && !baseline_committed) return {Due::kCommit, kSetUp, 4, 4, Due::kPropose};
    return *step;
  }
  return {Due::kNothing, kBetween, 1, 1, Due::kNothing};
}

}  // namespace

ProgressWriter::ProgressWriter(fs::path directory, const campaign::State& state, Clock& clock)
    : directory_(std::move(directory)), clock_(clock) {
  const campaign::LockHolder process = campaign::current_process();
  now_.campaign = state.spec().id;
  now_.pid = process.pid;
  now_.boot_id = process.boot_id;
  now_.start_time = process.start_time;
}

ProgressWriter::~ProgressWriter() {
  if (!over_ && written_ >= 0) end("an error");
}

std::optional<record::CampaignProgress> ProgressWriter::show(const campaign::EngineProgress& progress,
                                                             const campaign::State& state) {
  const double now = clock_.monotonic();
  const bool begins = progress.detail.empty() || progress.action != now_.step || progress.round != now_.round ||
                      progress.phase != now_.phase;
  if (!begins && written_ >= 0 && now - written_ < kInterval) return std::nullopt;
  now_.updated = campaign::format_event_time(clock_.unix_time());
  if (begins) now_.since = now_.updated;
  const StepRow step = step_of(progress.action, state.baseline_committed.has_value());
  now_.phase = progress.phase;
  now_.round = progress.round;
  now_.part = step.part;
  now_.step = progress.action;
  now_.number = step.number;
  now_.of = step.of;
  now_.next = action_of(step.next);
  now_.detail = progress.detail;
  now_.fraction = progress.fraction;
  now_.active = progress.active;
  now_.seconds_left = std::isfinite(progress.seconds_left) ? std::optional(progress.seconds_left) : std::nullopt;
  now_.rounds = state.rounds_closed();
  now_.accepted = progress.accepted;
  now_.most_rounds = state.max_iterations;
  now_.speedup = progress.speedup;
  write();
  written_ = now;
  return now_;
}

void ProgressWriter::remove() {
  over_ = true;
  std::error_code ignored;
  fs::remove(directory_ / kProgressFile, ignored);
}

void ProgressWriter::end(const std::string& because) {
  over_ = true;
  now_.state = "ended";
  now_.because = because;
  now_.updated = campaign::format_event_time(clock_.unix_time());
  if (now_.since.empty()) now_.since = now_.updated;
  write();
}

// Under one name, which the next process writes over when this one is killed here.
void ProgressWriter::write() {
  const fs::path part = directory_ / (std::string(kProgressFile) + ".part");
  std::error_code ignored;
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << record::to_pretty(now_) << '\n';
  file.close();
  if (file)
    fs::rename(part, directory_ / kProgressFile, ignored);
  else
    fs::remove(part, ignored);
}

Result<std::optional<record::CampaignProgress>> read_progress(const fs::path& directory) {
  const fs::path path = directory / kProgressFile;
  const Result<std::string> text = read_file(path);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::optional<record::CampaignProgress>();
  if (!text) return text.error();
  RIDGE_TRY(progress, record::parse_progress(*text, path.string()));
  const campaign::LockHolder process{static_cast<long>(progress.pid), progress.boot_id, progress.start_time};
  if (progress.state == "running" && !campaign::is_alive(process)) {
    progress.state = "stale";
    progress.because = fmt::format("process {} is gone; ridge campaign resume {} goes on where the journal ends",
                                   progress.pid, directory.string());
  }
  return std::optional(std::move(progress));
}

std::string progress_text(const record::CampaignProgress& progress) {
  std::string text = fmt::format("round {}, {}: {}", progress.round, record::name_of(progress.phase), progress.step);
  if (progress.of > 1) text += fmt::format(" ({} of {} of the {})", progress.number, progress.of, progress.part);
  if (!progress.detail.empty()) text += ", " + progress.detail;
  text += fmt::format(", since {}", progress.since);
  if (progress.state != "running") return text + "; " + progress.state + ": " + progress.because;
  return progress.next.empty() ? text : text + "; next: " + progress.next;
}

}  // namespace ridge::service
