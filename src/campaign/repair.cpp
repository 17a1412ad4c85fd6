#include "campaign/repair.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/large_file.h"
#include "campaign/anchor.h"
#include "campaign/files.h"
#include "campaign/journal.h"
#include "campaign/lock.h"
#include "campaign/render.h"
#include "campaign/state.h"
#include "record/journal_prefix.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

struct Good {
  RepairPlan plan;
  std::string text;  // of the whole file
  State state;       // at the last good line
};

// How many of the events make a possible story, and why the next does not.
std::pair<std::size_t, std::string> possible(const std::vector<record::Event>& events, std::size_t most, State& state) {
  state = State();
  for (std::size_t i = 0; i < std::min(most, events.size()); ++i) {
    State next = state;
    if (const Status applied = apply(next, events[i]); !applied) return {i, applied.error().message};
    state = std::move(next);
  }
  return {std::min(most, events.size()), {}};
}

Result<Good> examine(const fs::path& directory) {
  const fs::path path = directory / kJournalFile;
  Good good;
  Result<std::string> text = read_file_up_to(path, kJournalBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return make_error(ErrorCode::kNotFound, "{} holds no campaign", directory.string());
  }
  if (!text) return text.error();
  good.text = std::move(*text);
  record::JournalPrefix prefix = record::read_prefix(good.text);
  std::string problem = prefix.problem;
  if (problem.empty() && prefix.bytes < good.text.size()) problem = "is unfinished";
  auto [count, why] = possible(prefix.events, prefix.events.size(), good.state);
  if (!why.empty()) problem = why;
  if (good.state.created) {
    RIDGE_TRY(key, signing_key_of(good.state.spec()));
    if (key) {
      const std::vector<record::Event> kept(prefix.events.begin(),
                                            prefix.events.begin() + static_cast<std::ptrdiff_t>(count));
      RIDGE_TRY(report, check_signatures(directory, kept, *key));
      if (!report.ok()) {
        problem = report.problem;
        count = possible(prefix.events, static_cast<std::size_t>(report.first_bad - 1), good.state).first;
      }
    }
  }
  if (count == 0) {
    return with_hint(make_error(ErrorCode::kCorrupt, "{}: not even its first line is good: {}", path.string(), problem),
                     "restore the file from a copy, or start a new campaign");
  }
  RepairPlan& plan = good.plan;
  plan.good_lines = static_cast<std::int64_t>(count);
  plan.good_bytes = prefix.ends[count - 1];
  plan.dropped_bytes = good.text.size() - plan.good_bytes;
  if (!plan.needed()) return good;
  plan.problem = problem;
  const std::string_view dropped = std::string_view(good.text).substr(plan.good_bytes);
  plan.dropped_lines = std::count(dropped.begin(), dropped.end(), '\n') + (dropped.back() == '\n' ? 0 : 1);
  const record::Event& last = prefix.events[count - 1];
  plan.last_good = fmt::format("{}, {}", record::name_of(last.kind), last.time);
  return good;
}

Result<fs::path> new_folder(const fs::path& directory) {
  for (int number = 1;; ++number) {
    const fs::path folder = directory / fmt::format("dropped-{}", number);
    std::error_code error;
    if (fs::create_directory(folder, error)) return folder;
    if (error) return make_error(ErrorCode::kIo, "cannot create {}: {}", folder.string(), error.message());
  }
}

Status move_into(const fs::path& directory, const fs::path& inner, const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(directory / inner, error)) return ok_status();
  RIDGE_CHECK_OK(make_directories((folder / inner).parent_path()));
  fs::rename(directory / inner, folder / inner, error);
  if (error) return make_error(ErrorCode::kIo, "cannot move {}: {}", (directory / inner).string(), error.message());
  return ok_status();
}

// Files that were rendered from lines which are no more. Records of the memory are numbered in a row and in the order
// of the rounds; those that stay are checked by `verify`.
Status move_rendered(const fs::path& directory, const State& state, const fs::path& folder) {
  const std::int64_t rounds = state.baseline_committed ? state.rounds_closed() + 1 : 0;  // the baseline is round 1
  std::error_code ignored;
  for (std::int64_t round = rounds + 1; fs::exists(directory / fmt::format("rounds/round-{}", round), ignored);
       ++round) {
    RIDGE_CHECK_OK(move_into(directory, fmt::format("rounds/round-{}", round), folder));
  }
  for (std::int64_t version = rounds; fs::exists(directory / fmt::format("memory/v{}.json", version), ignored);
       ++version) {
    RIDGE_CHECK_OK(move_into(directory, fmt::format("memory/v{}.json", version), folder));
  }
  for (const char* log : {"logs", "verified_ineffective.jsonl", "report"})
    RIDGE_CHECK_OK(move_into(directory, log, folder));
  return ok_status();
}

}  // namespace

Result<RepairPlan> plan_repair(const fs::path& directory) {
  RIDGE_TRY(good, examine(directory));
  return std::move(good.plan);
}

Result<fs::path> repair_campaign(const fs::path& directory, Clock& clock) {
  RIDGE_TRY(lock, CampaignLock::acquire(directory));
  RIDGE_TRY(good, examine(directory));
  if (!good.plan.needed()) return invalid("every line of {} is good", (directory / kJournalFile).string());
  const std::string dropped = good.text.substr(good.plan.good_bytes);
  RIDGE_TRY(folder, new_folder(directory));
  RIDGE_CHECK_OK(write_file_durably(folder / kJournalFile, dropped));
  RIDGE_TRY(sink, open_journal_file(directory / kJournalFile));
  RIDGE_CHECK_OK(sink->truncate(good.plan.good_bytes));
  RIDGE_TRY(journal, Journal::open(directory / kJournalFile, clock, std::move(sink)));
  const std::vector<record::Event> events = journal.take_loaded();
  RIDGE_TRY(anchor, Anchor::open(directory, good.state.spec(), events, {}));
  journal.sign_with(std::move(anchor));
  const std::string text = fmt::format(
      "repaired: {} lines from line {} on ({}) were dropped to {}: {} bytes, SHA-256 {}", good.plan.dropped_lines,
      good.plan.good_lines + 1, good.plan.problem, folder.filename().string(), dropped.size(), sha256(dropped));
  RIDGE_TRY(event, journal.append(record::EventKind::kResumed, record::to_json(record::Note{text})));
  RIDGE_CHECK_OK(apply(good.state, event));
  RIDGE_CHECK_OK(move_rendered(directory, good.state, folder));
  RIDGE_CHECK_OK(write_campaign_files(directory, render_campaign(good.state)));
  return folder;
}

}  // namespace ridge::campaign
