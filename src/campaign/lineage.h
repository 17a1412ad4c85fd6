// Lineage: the in-scope tree of every round as a content-addressed snapshot, and the private worktree that always holds
// the last accepted one outside of a round.
//
//   <campaign>/objects/<sha256>    file contents and trees; a tree is lines "<sha256>  <path>\n", sorted by path
//   <campaign>/src/                the private worktree: the candidate's sources and candidate.json (defines, flags)
//
// Only the paths of a candidate are ever written or removed; nothing here resets or cleans a directory.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "execute/git.h"
#include "record/candidate.h"
#include "ridge/result.h"

namespace ridge::campaign {

// path inside the worktree -> content
using Tree = std::map<std::string, std::string>;

// The files of a candidate: its sources and candidate.json with everything else that makes it what it is.
Tree tree_of(const record::Candidate& candidate);
// The digest that a tree is stored under.
std::string tree_digest(const Tree& tree);
// Everything that a tree is stored as, by digest: the contents of its files and its list of them.
std::map<std::string, std::string> objects_of(const Tree& tree);
// Whether a path stays inside the worktree and is none of git's: relative, no "..", no ".git", plain characters.
bool is_safe_path(const std::string& path);

class SnapshotStore {
 public:
  explicit SnapshotStore(std::filesystem::path directory) : directory_(std::move(directory)) {}
  // Durable; storing what is there already costs nothing. Returns the tree's digest.
  Result<std::string> put(const Tree& tree) const;
  // Verified: content that does not match its name is kCorrupt.
  [[nodiscard]] Result<Tree> get(const std::string& digest) const;

 private:
  Status put_object(const std::string& digest, const std::string& content) const;
  [[nodiscard]] Result<std::string> get_object(const std::string& digest) const;
  std::filesystem::path directory_;
};

// Makes `worktree` hold `wanted`, removing files of `present` that `wanted` has not; touches nothing else.
Status write_tree(const std::filesystem::path& worktree, const Tree& wanted, const Tree& present);
// The files of `tree` as they are on disk now; a missing one is left out.
Result<Tree> read_tree(const std::filesystem::path& worktree, const Tree& tree);

// Commits the files of `tree` and returns the commit. Doing it again returns the same commit.
Result<std::string> commit_tree(execute::Git& git, const Tree& tree, const Tree& before, const std::string& message);

// Lock files that a killed git left in the campaign's own repository. Only the holder of the campaign's lock may call
// it.
Status remove_stale_git_locks(const std::filesystem::path& worktree);

struct CommitText {
  std::string op, backend, summary, hypothesis, result, details;
  std::int64_t round = 0;
};
// "[optimize] <op> <backend> round-<N>: <summary>", then Hypothesis, Result and Details lines.
std::string commit_message(const CommitText& text);

}  // namespace ridge::campaign
