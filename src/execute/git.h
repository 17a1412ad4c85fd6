// The little of git a campaign needs, behind an interface so that campaigns run in tests without a repository.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge::execute {

// One repository or worktree. Nothing here resets, cleans or checks out over a user's files: a campaign writes in its
// own worktree only.
class Git {
 public:
  virtual ~Git() = default;
  // Makes `directory()` a repository whose first branch is `branch`; nothing happens where one exists.
  virtual Status init(const std::string& branch = "main") = 0;
  virtual bool is_repository() = 0;
  // The commit that HEAD names; kNotFound before the first commit.
  virtual Result<std::string> head() = 0;
  virtual Result<std::string> branch() = 0;
  // Id of the tree of a commit ("HEAD"): equal for equal content, whatever the history.
  virtual Result<std::string> tree(const std::string& commit) = 0;
  // Paths with changes, relative to the top, untracked ones included.
  virtual Result<std::vector<std::string>> changes() = 0;
  // Commits these files and folders as they are on the disk, removals and ignored files included, and nothing else:
  // what a user has staged stays staged. Returns the id; no change in them is an error. Hooks and signing are not run.
  virtual Result<std::string> commit(const std::string& message, const std::vector<std::string>& paths) = 0;
  // A merge, rebase, `git am`, cherry-pick, revert or bisection waits for its end: git then commits the whole index or
  // nothing, or its abort drops what was committed meanwhile.
  virtual bool unfinished() = 0;
  // Writes the files of a commit below `folder` (empty: all) into a new folder, modes and links included, submodules
  // left out. Neither the index nor the checkout is touched.
  virtual Status export_tree(const std::string& commit, const std::string& folder,
                             const std::filesystem::path& into) = 0;
  // A new worktree on a new branch that starts at `commit`; an existing branch is an error.
  virtual Status add_worktree(const std::filesystem::path& path, const std::string& branch,
                              const std::string& commit) = 0;
  // Removes a worktree; its branch stays. A worktree that is gone already is no error.
  virtual Status remove_worktree(const std::filesystem::path& path) = 0;
  // The same interface inside a worktree.
  virtual std::unique_ptr<Git> at(const std::filesystem::path& path) = 0;
  [[nodiscard]] virtual const std::filesystem::path& directory() const = 0;
};

// git(1) in `directory`, whatever repository a git that started this program works on (GIT_DIR), and without hooks.
// Commits carry the author configured there, or "Ridgeline <ridge@localhost>" when none is.
std::unique_ptr<Git> make_git(std::filesystem::path directory);

// State of a repository in memory, for tests: commits are numbered, trees are digests of the files.
std::unique_ptr<Git> make_fake_git(std::filesystem::path directory);

}  // namespace ridge::execute
