#include "campaign/slim.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "campaign/files.h"
#include "campaign/iterations.h"
#include "campaign/lineage.h"
#include "campaign/lock.h"
#include "campaign/verify.h"
#include "knowledge/folder_lock.h"
#include "report/report.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

// What a reader of the folder opens first.
bool is_kept(const std::string& path) {
  return path == kManifestFile || path == report::kHtmlPath || path == report::kMarkdownPath;
}

struct Ended {
  CampaignLock lock;
  FileMap rendered;
};

Result<Ended> open_ended(const fs::path& directory) {
  RIDGE_TRY(lock, CampaignLock::acquire(directory));
  RIDGE_TRY(verified, verify_campaign(directory));
  if (!verified.ok()) {
    const FileFinding& first = *std::ranges::find_if(verified.findings, is_offence);
    return with_hint(make_error(ErrorCode::kConflict, "{}: {}: {}", directory.string(), first.path, first.detail),
                     fmt::format("ridge campaign verify {}", directory.string()));
  }
  RIDGE_TRY(journal, record::read_journal(directory / kJournalFile));
  RIDGE_TRY(state, fold(journal.events));
  if (!state.reported) {
    return with_hint(
        make_error(ErrorCode::kConflict, "{} has not ended: its files are still written to", directory.string()),
        fmt::format("ridge campaign resume {}", directory.string()));
  }
  RIDGE_TRY(rendered, all_rendered(state, journal));
  // The campaign's own repository holds commits, which no journal gives: it stays as a whole.
  if (fs::exists(directory / "src/.git"))
    std::erase_if(rendered, [](const auto& f) { return f.first.starts_with("src/"); });
  return Ended{std::move(lock), std::move(rendered)};
}

void remove_empty_folders(const fs::path& directory, fs::path folder) {
  std::error_code error;
  for (; !folder.empty() && fs::is_empty(directory / folder, error) && !error; folder = folder.parent_path()) {
    fs::remove(directory / folder, error);
  }
}

}  // namespace

Result<FileMap> all_rendered(const State& state, const record::JournalText& journal) {
  FileMap files = render_campaign(state);
  files.merge(render_memory(state));
  const auto snapshot = [&](const record::Candidate& candidate) {
    for (auto& [digest, content] : objects_of(tree_of(candidate))) files["objects/" + digest] = std::move(content);
  };
  if (state.baseline_committed) snapshot(state.baseline->candidate);
  for (const Round& round : state.rounds) {
    if (const record::Candidate* candidate = round.last().candidate(); candidate != nullptr && round.closed())
      snapshot(*candidate);
  }
  for (auto& [path, content] : tree_of(state.incumbent.candidate)) files["src/" + path] = std::move(content);
  RIDGE_TRY(model, report::fold(journal.events, journal.torn_bytes));
  files.merge(report::files(model));
  return files;
}

Result<SlimReport> slim_campaign(const fs::path& directory) {
  RIDGE_TRY(ended, open_ended(directory));
  SlimReport report;
  for (const auto& [path, content] : ended.rendered) {
    if (is_kept(path)) continue;
    const Result<std::string> found = read_file(directory / path);
    if (!found) continue;
    if (*found != content) {
      report.kept.push_back(path);
      continue;
    }
    std::error_code error;
    fs::remove(directory / path, error);
    if (error) return make_error(ErrorCode::kIo, "cannot remove {}: {}", (directory / path).string(), error.message());
    ++report.files;
    report.bytes += static_cast<std::int64_t>(content.size());
    remove_empty_folders(directory, fs::path(path).parent_path());
  }
  RIDGE_CHECK_OK(knowledge::remove_stale_lock(directory / "memory"));
  remove_empty_folders(directory, "memory");
  return report;
}

Result<SlimReport> restore_campaign(const fs::path& directory) {
  RIDGE_TRY(ended, open_ended(directory));
  SlimReport report;
  for (const auto& [path, content] : ended.rendered) {
    const Result<std::string> found = read_file(directory / path);
    if (found && *found != content) report.kept.push_back(path);
    if (found) continue;
    RIDGE_CHECK_OK(write_file_durably(directory / path, content));
    ++report.files;
    report.bytes += static_cast<std::int64_t>(content.size());
  }
  return report;
}

}  // namespace ridge::campaign
