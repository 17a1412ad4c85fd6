#include "campaign/lineage.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/inside.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCandidateFile = "candidate.json";

std::string tree_text(const Tree& tree) {
  std::string text;
  for (const auto& [path, content] : tree) text += fmt::format("{}  {}\n", sha256(content), path);
  return text;
}

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return line;
}

}  // namespace

Tree tree_of(const record::Candidate& candidate) {
  Tree tree;
  record::Candidate description = candidate;
  for (const record::SourceFile& source : candidate.sources) tree[source.path] = source.text;
  for (record::SourceFile& source : description.sources) source.text.clear();
  tree[kCandidateFile] = record::to_pretty(description) + "\n";
  return tree;
}

std::string tree_digest(const Tree& tree) { return sha256(tree_text(tree)); }

std::map<std::string, std::string> objects_of(const Tree& tree) {
  std::map<std::string, std::string> objects;
  for (const auto& [path, content] : tree) objects[sha256(content)] = content;
  objects[tree_digest(tree)] = tree_text(tree);
  return objects;
}

bool is_safe_path(const std::string& path) {
  if (path.empty() || path.size() > 200 || path == kCandidateFile || fs::path(path).is_absolute()) return false;
  const bool plain = std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/' || c == '+';
  });
  if (!plain || path.back() == '/') return false;
  for (const fs::path& part : fs::path(path)) {
    if (part.empty() || part == "." || part == ".." || part.string().starts_with(".git")) return false;
  }
  return true;
}

Status SnapshotStore::put_object(const std::string& digest, const std::string& content) const {
  const fs::path path = directory_ / digest;
  std::error_code ignored;
  if (fs::exists(path, ignored)) return ok_status();
  return write_file_durably(path, content);
}

Result<std::string> SnapshotStore::get_object(const std::string& digest) const {
  RIDGE_TRY(content, read_file(directory_ / digest));
  if (sha256(content) != digest) {
    return with_hint(
        make_error(ErrorCode::kCorrupt, "snapshot object {} does not match its name", (directory_ / digest).string()),
        "it was changed after it was written; restore it from a copy");
  }
  return content;
}

Result<std::string> SnapshotStore::put(const Tree& tree) const {
  const std::string digest = tree_digest(tree);
  const auto objects = objects_of(tree);
  for (const auto& [name, content] : objects) {
    if (name != digest) RIDGE_CHECK_OK(put_object(name, content));
  }
  RIDGE_CHECK_OK(put_object(digest, objects.at(digest)));  // last: a tree that is there is whole
  return digest;
}

Result<Tree> SnapshotStore::get(const std::string& digest) const {
  RIDGE_TRY(text, get_object(digest));
  Tree tree;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 67) return make_error(ErrorCode::kCorrupt, "{} is not a tree", digest);
    RIDGE_TRY(content, get_object(line.substr(0, 64)));
    tree[line.substr(66)] = std::move(content);
  }
  return tree;
}

Status write_tree(const fs::path& worktree, const Tree& wanted, const Tree& present) {
  for (const auto& [path, content] : present) {
    if (wanted.contains(path) || !lies_in(worktree / path, worktree)) continue;
    std::error_code error;
    fs::remove(worktree / path, error);
    if (error) return make_error(ErrorCode::kIo, "cannot remove {}: {}", (worktree / path).string(), error.message());
  }
  for (const auto& [path, content] : wanted) {
    const Result<std::string> old = read_file(worktree / path);
    if (old && *old == content) continue;
    RIDGE_CHECK_OK(write_inside(worktree, path, content));
  }
  return ok_status();
}

Result<Tree> read_tree(const fs::path& worktree, const Tree& tree) {
  Tree found;
  for (const auto& [path, content] : tree) {
    Result<std::string> text = read_file(worktree / path);
    if (text) {
      found[path] = std::move(*text);
    } else if (text.error().code != ErrorCode::kNotFound) {
      return text.error();
    }
  }
  return found;
}

Result<std::string> commit_tree(execute::Git& git, const Tree& tree, const Tree& before, const std::string& message) {
  RIDGE_CHECK_OK(write_tree(git.directory(), tree, before));
  RIDGE_TRY(changes, git.changes());
  std::vector<std::string> ours;
  for (const std::string& path : changes) {
    if (tree.contains(path) || before.contains(path)) ours.push_back(path);
  }
  if (ours.empty()) return git.head();  // committed already, before a crash
  return git.commit(message, ours);
}

Status remove_stale_git_locks(const fs::path& worktree) {
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::recursive_directory_iterator it(worktree / ".git", error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() == "objects") it.disable_recursion_pending();
    if (it->path().extension() == ".lock") stale.push_back(it->path());
  }
  for (const fs::path& path : stale) {
    if (!fs::remove(path, error) && error) {
      return make_error(ErrorCode::kIo, "cannot remove {}: {}", path.string(), error.message());
    }
  }
  return ok_status();
}

std::string commit_message(const CommitText& text) {
  return fmt::format("[optimize] {} {} round-{}: {}\n\nHypothesis: {}\nResult: {}\nDetails: {}\n", text.op,
                     text.backend, text.round, one_line(text.summary), one_line(text.hypothesis), one_line(text.result),
                     one_line(text.details));
}

}  // namespace ridge::campaign
