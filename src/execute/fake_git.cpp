#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "execute/git.h"

namespace ridge::execute {
namespace {

using Files = std::map<std::string, std::string>;  // path -> content

struct Commit {
  std::string id, message;
  Files files;
};

// What all worktrees of one fake repository share.
struct Repository {
  bool exists = false;
  std::map<std::string, Commit> commits;
  std::map<std::string, std::string> branches;  // name -> commit id
};

std::string tree_id(const Files& files) {
  std::string text;
  for (const auto& [path, content] : files) text += path + " " + sha256(content) + "\n";
  return sha256(text);
}

class FakeGit final : public Git {
 public:
  FakeGit(std::filesystem::path directory, std::shared_ptr<Repository> repository, std::string branch)
      : directory_(std::move(directory)), repository_(std::move(repository)), branch_(std::move(branch)) {}

  Status init(const std::string& branch) override {
    if (!repository_->exists) branch_ = branch;
    repository_->exists = true;
    return ok_status();
  }
  bool is_repository() override { return repository_->exists; }

  Result<std::string> head() override {
    const auto found = repository_->branches.find(branch_);
    if (found == repository_->branches.end()) {
      return make_error(ErrorCode::kNotFound, "{} has no commit yet", directory_.string());
    }
    return found->second;
  }
  Result<std::string> branch() override { return branch_; }

  Result<std::string> tree(const std::string& commit) override {
    std::string id = commit;
    if (commit == "HEAD") {
      RIDGE_TRY(current, head());
      id = current;
    }
    const auto found = repository_->commits.find(id);
    if (found == repository_->commits.end()) return make_error(ErrorCode::kNotFound, "no commit {}", commit);
    return tree_id(found->second.files);
  }

  Result<std::vector<std::string>> changes() override {
    const Files before = committed(), now = on_disk();
    std::set<std::string> paths;
    for (const auto& [path, content] : now) {
      if (const auto old = before.find(path); old == before.end() || old->second != content) paths.insert(path);
    }
    for (const auto& [path, content] : before) {
      if (!now.contains(path)) paths.insert(path);
    }
    return std::vector<std::string>(paths.begin(), paths.end());
  }

  Result<std::string> commit(const std::string& message, const std::vector<std::string>& paths) override {
    const Files now = on_disk();
    Files files = committed();
    for (const std::string& path : paths) {
      if (const auto found = now.find(path); found != now.end()) {
        files[path] = found->second;
      } else if (files.erase(path) == 0) {
        return make_error(ErrorCode::kToolFailed, "git add: {} did not match any file", path);
      }
    }
    if (files == committed()) return make_error(ErrorCode::kToolFailed, "git commit: nothing has changed");
    const std::string parent = head().ok() ? *head() : std::string();
    const std::string id = sha256(parent + "\n" + tree_id(files) + "\n" + message).substr(0, 40);
    repository_->commits[id] = {id, message, files};
    repository_->branches[branch_] = id;
    return id;
  }

  bool unfinished() override {
    std::error_code ignored;
    const std::filesystem::path inside = directory_ / ".git";
    return std::ranges::any_of(std::array{"MERGE_HEAD", "rebase-merge", "rebase-apply"},
                               [&](const char* name) { return std::filesystem::exists(inside / name, ignored); });
  }

  Status export_tree(const std::string& commit, const std::string& folder, const std::filesystem::path& into) override {
    const auto found = repository_->commits.find(commit);
    if (found == repository_->commits.end()) return make_error(ErrorCode::kNotFound, "no commit {}", commit);
    const std::string prefix = folder.empty() ? std::string() : folder + "/";
    for (const auto& [path, content] : found->second.files) {
      if (path.starts_with(prefix)) RIDGE_CHECK_OK(write_file_durably(into / path.substr(prefix.size()), content));
    }
    return make_directories(into);
  }

  Status add_worktree(const std::filesystem::path& path, const std::string& branch,
                      const std::string& commit) override {
    if (repository_->branches.contains(branch)) {
      return make_error(ErrorCode::kToolFailed, "git worktree: a branch named '{}' already exists", branch);
    }
    RIDGE_TRY(current, head());
    repository_->branches[branch] = commit == "HEAD" ? current : commit;
    worktrees_[path.string()] = branch;
    for (const auto& [name, content] : repository_->commits[repository_->branches[branch]].files) {
      RIDGE_CHECK_OK(write_file_durably(path / name, content));
    }
    return make_directories(path);
  }

  Status remove_worktree(const std::filesystem::path& path) override {
    worktrees_.erase(path.string());
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    return ok_status();
  }

  std::unique_ptr<Git> at(const std::filesystem::path& path) override {
    const auto found = worktrees_.find(path.string());
    return std::make_unique<FakeGit>(path, repository_, found == worktrees_.end() ? branch_ : found->second);
  }
  [[nodiscard]] const std::filesystem::path& directory() const override { return directory_; }

 private:
  [[nodiscard]] Files committed() const {
    const auto branch = repository_->branches.find(branch_);
    if (branch == repository_->branches.end()) return {};
    const auto found = repository_->commits.find(branch->second);
    return found == repository_->commits.end() ? Files{} : found->second.files;
  }

  [[nodiscard]] Files on_disk() const {
    Files files;
    std::error_code missing;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_, missing)) {
      if (!entry.is_regular_file()) continue;
      auto content = read_file(entry.path());
      if (content) files[entry.path().lexically_relative(directory_).generic_string()] = std::move(*content);
    }
    return files;
  }

  std::filesystem::path directory_;
  std::shared_ptr<Repository> repository_;
  std::string branch_;
  std::map<std::string, std::string> worktrees_;
};

}  // namespace

std::unique_ptr<Git> make_fake_git(std::filesystem::path directory) {
  return std::make_unique<FakeGit>(std::move(directory), std::make_shared<Repository>(), "main");
}

}  // namespace ridge::execute
