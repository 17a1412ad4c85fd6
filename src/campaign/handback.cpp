#include "campaign/handback.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "campaign/lineage.h"
#include "campaign/naming.h"
#include "campaign/upstream.h"
#include "record/configuration.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

Error refused(std::string what, std::string way_out) {
  return with_hint(make_error(ErrorCode::kConflict, "{}", what), std::move(way_out));
}

std::string inside(const fs::path& prefix, const std::string& path) {
  return (prefix / path).lexically_normal().string();
}

// A file of a submodule cannot be committed in the repository above it.
bool in_submodule(const fs::path& top, const std::string& path) {
  std::error_code ignored;
  for (fs::path folder = (top / path).parent_path(); folder != top && folder.has_parent_path();
       folder = folder.parent_path()) {
    if (fs::exists(folder / ".git", ignored)) return true;
  }
  return false;
}

Status check_start(const State& state, execute::Git& repository, const fs::path& prefix) {
  const fs::path& top = repository.directory();
  if (repository.unfinished())
    return refused(fmt::format("a merge or rebase is under way in {}", top.string()), "finish it first");
  RIDGE_TRY(dirty, repository.changes());
  for (const record::SourceFile& source : state.created->baseline.sources) {
    const std::string path = inside(prefix, source.path);
    if (in_submodule(top, path)) {
      return refused(fmt::format("{} belongs to a submodule", path), "hand back to the submodule's own repository");
    }
    if (std::find(dirty.begin(), dirty.end(), path) != dirty.end()) {
      return refused(fmt::format("{} has changes that are not committed", path), "commit or stash them first");
    }
    const Result<std::string> now = read_file(top / path);
    if (!now || *now != source.text) {
      return refused(fmt::format("{} is not what the campaign started from", path),
                     "check out the commit that the campaign started from, hand back, and merge the branch");
    }
  }
  return ok_status();
}

// Whether a commit has the files that the campaign started from, where its rounds would change them.
Status check_commit(const State& state, const Upstream& upstream, execute::Git& repository) {
  RIDGE_TRY(folder, TempDir::create("ridge-upstream"));
  RIDGE_CHECK_OK(repository.export_tree(upstream.commit, upstream.folder, folder.path() / "then"));
  for (const record::SourceFile& source : state.created->baseline.sources) {
    const Result<std::string> then = read_file(folder.path() / "then" / source.path);
    if (then && *then == source.text) continue;
    return refused(fmt::format("{} is not at {} what the campaign started from", inside(upstream.folder, source.path),
                               upstream.commit.substr(0, 12)),
                   "the manifest names another folder or commit than the files of project/ are of: `ridge campaign "
                   "verify` shows what it was");
  }
  return ok_status();
}

// The commit that the branch starts from.
Result<std::string> base_of(const fs::path& directory, const State& state, const std::optional<Upstream>& upstream,
                            execute::Git& repository, bool at_start) {
  RIDGE_TRY(head, repository.head());
  if (!upstream || (upstream->commit == head && !at_start)) return head;
  if (!repository.tree(upstream->commit)) {
    return refused(fmt::format("{} no longer has the commit {} that was extracted", repository.directory().string(),
                               upstream->commit.substr(0, 12)),
                   "fetch it from where it still is; the accepted kernels are in the campaign's src/");
  }
  if (at_start) {
    RIDGE_CHECK_OK(check_commit(state, *upstream, repository));
    return upstream->commit;
  }
  RIDGE_TRY(now, TempDir::create("ridge-upstream"));
  RIDGE_CHECK_OK(repository.export_tree(upstream->commit, upstream->folder, now.path() / "then"));
  RIDGE_CHECK_OK(repository.export_tree(head, upstream->folder, now.path() / "now"));
  RIDGE_TRY(before, file_digests(now.path() / "then"));
  RIDGE_TRY(after, file_digests(now.path() / "now"));
  if (before == after) return head;
  Tree both = before;
  both.insert(after.begin(), after.end());
  const auto differs = [&](const auto& file) {
    return !before.contains(file.first) || !after.contains(file.first) || before.at(file.first) != after.at(file.first);
  };
  const auto first = std::ranges::find_if(both, differs);
  return refused(
      fmt::format("the project has moved on: {} is not at {} what it was at {}, the commit that was extracted",
                  first->first, head.substr(0, 12), upstream->commit.substr(0, 12)),
      fmt::format("ridge campaign hand-back {} --at-start makes the branch from {}; merge or rebase it then",
                  directory.string(), upstream->commit.substr(0, 12)));
}

// The files as the project builds them: the values of tunables stand in the sources.
Result<Tree> with_prefix(const record::Candidate& candidate, const fs::path& prefix) {
  RIDGE_TRY(sources, record::configured_sources(candidate));
  Tree tree;
  for (const record::SourceFile& source : sources) tree[inside(prefix, source.path)] = source.text;
  return tree;
}

std::string message_of(const State& state, const Round& round) {
  CommitText text;
  text.op = state.spec().op;
  text.backend = state.spec().backend;
  text.round = round.number;
  text.summary = round.last().proposal.hypothesis.title;
  text.hypothesis = round.last().proposal.hypothesis.reasoning;
  text.result = round.decision->reason;
  text.details = fmt::format("{}, round-{}", state.spec().id, round.number);
  return commit_message(text);
}

}  // namespace

Result<fs::path> repository_above(const fs::path& path) {
  std::error_code ignored;
  // Without a slash at its end, below which nothing would lie.
  for (fs::path folder = (fs::absolute(path) / "").lexically_normal().parent_path();; folder = folder.parent_path()) {
    if (fs::exists(folder / ".git", ignored)) return folder;
    if (folder == folder.parent_path()) {
      return make_error(ErrorCode::kNotFound, "{} is in no git repository", path.string());
    }
  }
}

Result<HandBack> hand_back(const fs::path& directory, const State& state, execute::Git& repository,
                           const fs::path& given_prefix, bool at_start) {
  if (state.open_round() != nullptr || !state.baseline_committed) {
    return refused("a round is open",
                   fmt::format("finish or stop the campaign first: ridge campaign stop {}", directory.string()));
  }
  const std::optional<Upstream> upstream = upstream_of(state.spec());
  if (at_start && !upstream)
    return with_hint(invalid("--at-start is for a campaign of --mode workspace, which knows its commit"),
                     "leave it out");
  const fs::path prefix = upstream ? fs::path(upstream->folder) : given_prefix;
  if (!at_start) RIDGE_CHECK_OK(check_start(state, repository, prefix));
  HandBack result;
  result.branch = branch_name(state.spec()).empty() ? "optimize/" + state.spec().id : branch_name(state.spec());
  RIDGE_TRY(base, base_of(directory, state, upstream, repository, at_start));
  result.base = base;
  const fs::path worktree = fs::absolute(directory) / "handback";
  if (const Status added = repository.add_worktree(worktree, result.branch, base); !added) {
    return with_hint(
        in_context("hand-back", added.error()),
        fmt::format("the branch {} may be there from an earlier hand-back; rename or delete it", result.branch));
  }
  const std::unique_ptr<execute::Git> own = repository.at(worktree);
  RIDGE_TRY(before, with_prefix(state.created->baseline, prefix));
  Status failed = ok_status();
  for (const Round& round : state.rounds) {
    if (!round.committed || !failed) continue;
    const Result<Tree> tree = with_prefix(round.last().evaluated->candidate, prefix);
    const Result<std::string> commit =
        tree ? commit_tree(*own, *tree, before, message_of(state, round)) : Result<std::string>(tree.error());
    if (commit)
      result.commits.push_back(*commit);
    else
      failed = commit.error();
    if (tree) before = *tree;
  }
  RIDGE_CHECK_OK(repository.remove_worktree(worktree));
  RIDGE_CHECK_OK(failed);
  return result;
}

}  // namespace ridge::campaign
