#include "campaign/versions.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "campaign/export_memory.h"
#include "campaign/iterations.h"
#include "campaign/lineage.h"
#include "campaign/render.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBaselineReport = "baseline_report.md";
constexpr const char* kKeptFolders[] = {"memory/", "plans/", "versions/"};

Status write_if_new(const fs::path& path, const std::string& text) {
  const Result<std::string> old = read_file(path);
  return old && *old == text ? ok_status() : write_file_durably(path, text);
}

std::string plan_text(const std::string& version, const Round& round) {
  return fmt::format("# Plan {}\n\n{}", version, plan_of(round));
}

const Round* round_numbered(const State& state, std::int64_t number) {
  const auto found = std::ranges::find(state.rounds, number, &Round::number);
  return found == state.rounds.end() ? nullptr : &*found;
}

Status keep_kernel(const fs::path& folder, const record::Candidate& candidate) {
  for (const auto& [path, text] : tree_of(candidate)) RIDGE_CHECK_OK(write_if_new(folder / path, text));
  return ok_status();
}

// The files of one record of this campaign.
Status keep_version(const State& state, const record::Iteration& one, const fs::path& workspace) {
  const std::int64_t number = round_of(one, state.spec().id);
  const fs::path folder = workspace / "versions" / one.version;
  if (number == 1) return keep_kernel(folder, state.baseline->candidate);
  const Round* round = round_numbered(state, number);
  if (round == nullptr) return ok_status();
  RIDGE_CHECK_OK(write_if_new(workspace / "plans" / (one.version + "_plan.md"), plan_text(one.version, *round)));
  const Attempt& last = round->last();
  if (const record::Candidate* candidate = last.candidate()) return keep_kernel(folder, *candidate);
  // A sweep of which nothing was worth measuring: what was looked at.
  return last.screened ? write_if_new(folder / "sweep.json", record::to_pretty(*last.screened)) : ok_status();
}

bool is_kept(const std::string& path) {
  return path == kBaselineReport ||
         std::ranges::any_of(kKeptFolders, [&](const char* folder) { return path.starts_with(folder); });
}

// "v3: FAIL unroll by four", a line for each version whose record is new.
std::string message_of(const std::vector<record::Iteration>& all, const std::vector<std::string>& paths) {
  std::string message;
  for (const record::Iteration& one : all) {
    if (std::ranges::find(paths, "memory/" + one.version + ".json") == paths.end()) continue;
    message += fmt::format("{}{}: {} {}", message.empty() ? "" : "\n", one.version,
                           record::name_of(one.quality_gate.result), one.optimization.action_description);
  }
  return message.empty() ? std::string("Plans and versions") : message;
}

}  // namespace

Status write_plan(const State& state, const knowledge::Memory& memory, const fs::path& workspace) {
  const Round* round = state.open_round();
  if (round == nullptr) return ok_status();
  RIDGE_TRY(version, memory.next_version());
  return write_if_new(workspace / "plans" / (version + "_plan.md"), plan_text(version, *round));
}

Status keep_versions(const State& state, const knowledge::Memory& memory, const fs::path& workspace,
                     execute::Git& git) {
  // Campaigns that share a workspace take turns, and git's index is one.
  return memory.locked([&]() -> Status {
    RIDGE_TRY(all, memory.list(true));
    for (const record::Iteration& one : all) RIDGE_CHECK_OK(keep_version(state, one, workspace));
    std::error_code ignored;
    if (!fs::exists(workspace / kBaselineReport, ignored))
      RIDGE_CHECK_OK(write_file_durably(workspace / kBaselineReport, render_baseline_summary(state)));
    if (!state.spec().git_commit || !git.is_repository()) return ok_status();
    RIDGE_TRY(changes, git.changes());
    std::erase_if(changes, [](const std::string& path) { return !is_kept(path); });
    if (changes.empty()) return ok_status();
    if (git.unfinished()) return ok_status();  // the next version's commit takes these files, too
    const Result<std::string> commit = git.commit(message_of(all, changes), changes);
    return commit ? ok_status() : Status(commit.error());
  });
}

}  // namespace ridge::campaign
