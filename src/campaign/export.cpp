#include "campaign/export.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/inside.h"
#include "campaign/export_view.h"
#include "campaign/lineage.h"
#include "campaign/state.h"
#include "execute/git.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkerFile = ".ridge-export";  // says of what a folder is an export

Status check_export_folder(const fs::path& directory, const FileMap& files) {
  std::error_code error;
  if (!fs::exists(directory, error) || fs::is_empty(directory, error)) return ok_status();
  const Result<std::string> earlier = read_file(directory / kMarkerFile);
  const auto marker = files.find(kMarkerFile);
  if (earlier && marker != files.end() && *earlier == marker->second) return ok_status();
  return with_hint(make_error(ErrorCode::kConflict, "{} is there, not empty, and no earlier export of this campaign",
                              directory.string()),
                   "name a new folder, or that of an earlier export, which is brought up to date");
}

Status write_changed(const fs::path& directory, const FileMap& files) {
  for (const auto& [path, content] : files) {
    const Result<std::string> old = read_file(directory / path);
    if (!old || *old != content) RIDGE_CHECK_OK(write_inside(directory, path, content));
  }
  return ok_status();
}

// One commit for each accepted kernel, and one for each record, which names the commit of its kernel.
class Repository {
 public:
  Repository(const fs::path& directory, const Export& exported)
      : git_(execute::make_git(directory)), exported_(exported) {}

  Status write() {
    RIDGE_CHECK_OK(git_->init("main"));
    RIDGE_CHECK_OK(write_changed(git_->directory(), {*exported_.files.find(kMarkerFile)}));  // first: a kill may follow
    FileMap files = exported_.files, kernel;
    for (const ExportedVersion& version : exported_.versions) {
      record::ForeignIteration iteration = version.iteration;
      const std::string record = fmt::format("memory/{}.json", iteration.version);
      const std::optional<record::ForeignIteration> earlier = read_record(record);
      if (earlier) iteration.masked = earlier->masked;  // that is for the reader of the folder to say
      if (!version.kernel.empty()) {
        RIDGE_TRY(commit, kernel_commit(version, earlier, kernel));
        iteration.commit = commit;
        kernel = version.kernel;
      }
      files[record] = record::to_pretty(iteration) + "\n";
      FileMap own = {{record, files[record]}};
      if (!version.plan.empty()) own[fmt::format("plans/{}_plan.md", iteration.version)] = version.plan;
      RIDGE_CHECK_OK(commit_files(own, {}, fmt::format("record of {}", version.subject)));
    }
    return commit_files(files, {}, "README and kernel as the campaign has them");
  }

 private:
  [[nodiscard]] std::optional<record::ForeignIteration> read_record(const std::string& path) const {
    const Result<std::string> text = read_file(git_->directory() / path);
    std::vector<std::string> oddities;
    const auto record =
        text ? record::parse_foreign_iteration(*text, oddities) : Result<record::ForeignIteration>(Error{});
    return record ? std::optional(*record) : std::nullopt;
  }

  // The commit that an earlier export made, if the repository has it.
  Result<std::string> kernel_commit(const ExportedVersion& version,
                                    const std::optional<record::ForeignIteration>& earlier, const FileMap& before) {
    if (earlier && earlier->commit && git_->tree(*earlier->commit)) return *earlier->commit;
    FileMap files = version.kernel;
    for (const char* first : {kMarkerFile, "README.md"}) {
      if (before.empty()) files[first] = exported_.files.at(first);
    }
    RIDGE_CHECK_OK(commit_files(files, before, version.subject));
    return git_->head();
  }

  // Nothing where the repository holds these files already.
  Status commit_files(const FileMap& files, const FileMap& before, const std::string& message) {
    RIDGE_CHECK_OK(write_tree(git_->directory(), files, before));
    RIDGE_TRY(changes, git_->changes());
    std::erase_if(changes, [&](const std::string& path) { return !files.contains(path) && !before.contains(path); });
    if (changes.empty()) return ok_status();
    RIDGE_CHECK_OK(git_->commit(message + "\n", changes));
    return ok_status();
  }

  std::unique_ptr<execute::Git> git_;
  const Export& exported_;
};

}  // namespace

Result<ExportFormat> export_format(std::string_view name) {
  if (name == "turbo-view") return ExportFormat::kTurboView;
  if (name == "atrex") return ExportFormat::kAtrex;
  return invalid("there is no format \"{}\"; turbo-view and atrex are known", name);
}

Result<Export> render_export(const State& state, ExportFormat format) {
  if (!state.baseline_committed) {
    return with_hint(make_error(ErrorCode::kConflict, "the baseline of this campaign is not measured yet"),
                     "export it when its first round is recorded");
  }
  const bool view = format == ExportFormat::kTurboView;
  Export exported;
  if (view) {
    exported.files = render_for_viewer(state);
  } else {
    ExportedWorkspace workspace = render_workspace(state);
    exported = {std::move(workspace.files), std::move(workspace.versions)};
  }
  exported.files[kMarkerFile] = fmt::format("{} {}\n", view ? "turbo-view" : "atrex", state.spec().id);
  return exported;
}

Status write_export(const fs::path& directory, const Export& exported) {
  RIDGE_CHECK_OK(check_export_folder(directory, exported.files));
  return exported.versions.empty() ? write_changed(directory, exported.files) : Repository(directory, exported).write();
}

}  // namespace ridge::campaign
