#include "execute/git.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "base/text.h"

extern char** environ;

namespace ridge::execute {
namespace {

// What git finds while an operation waits for its end, by the name that `git rev-parse --git-path` takes. A rebase that
// stopped at `break` or `edit` and `git am` have folders alone; "sequencer" is there between two commits of a
// cherry-pick, and a bisection ends by leaving what was committed on its detached HEAD.
constexpr const char* kUnfinished[] = {"MERGE_HEAD",   "REBASE_HEAD",  "CHERRY_PICK_HEAD", "REVERT_HEAD",
                                       "rebase-merge", "rebase-apply", "sequencer",        "BISECT_LOG"};

// Variables of git that say who commits and where the user's settings are. The others (GIT_DIR, GIT_WORK_TREE,
// GIT_INDEX_FILE, ...), which a git that started this program sets, name another repository than the one asked for.
constexpr std::string_view kKeptVariables[] = {"GIT_AUTHOR_",       "GIT_COMMITTER_",      "GIT_CONFIG_COUNT",
                                               "GIT_CONFIG_KEY_",   "GIT_CONFIG_VALUE_",   "GIT_CONFIG_GLOBAL",
                                               "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"};

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t end = text.find('=');
    const std::string_view name = text.substr(0, end);
    const bool known = !name.starts_with("GIT_") ||
                       std::ranges::any_of(kKeptVariables, [&](auto prefix) { return name.starts_with(prefix); });
    if (known && end != std::string_view::npos) kept[std::string(name)] = text.substr(end + 1);
  }
  return kept;
}

class CommandGit final : public Git {
 public:
  explicit CommandGit(std::filesystem::path directory) : directory_(std::move(directory)) {}

  Status init(const std::string& branch) override {
    if (is_repository()) return ok_status();
    RIDGE_CHECK_OK(make_directories(directory_));
    return nothing(run({"init", "--quiet", "--initial-branch=" + branch}));
  }

  // A folder inside another repository is none: what a campaign commits must never land there.
  bool is_repository() override {
    std::error_code ignored;
    return std::filesystem::exists(directory_ / ".git", ignored) && run({"rev-parse", "--git-dir"}).ok();
  }

  Result<std::string> head() override {
    Result<std::string> commit = run({"rev-parse", "--verify", "--quiet", "HEAD^{commit}"});
    if (!commit) return make_error(ErrorCode::kNotFound, "{} has no commit yet", directory_.string());
    return commit;
  }

  Result<std::string> branch() override { return run({"symbolic-ref", "--short", "HEAD"}); }

  Result<std::string> tree(const std::string& commit) override {
    return run({"rev-parse", "--verify", "--quiet", commit + "^{tree}"});
  }

  Result<std::vector<std::string>> changes() override {
    RIDGE_TRY(text, run({"status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"}, false));
    std::vector<std::string> paths;
    for (std::size_t start = 0; start + 3 < text.size();) {
      const std::size_t end = text.find('\0', start);
      paths.push_back(text.substr(start + 3, end - start - 3));
      if (end == std::string::npos) break;
      start = end + 1;
    }
    return paths;
  }

  Result<std::string> commit(const std::string& message, const std::vector<std::string>& paths) override {
    if (paths.empty()) return make_error(ErrorCode::kToolFailed, "git commit: no path is named");
    // git does not know new files before they are added.
    std::vector<std::string> add = {"add", "--all", "--force", "--"};
    add.insert(add.end(), paths.begin(), paths.end());
    RIDGE_CHECK_OK(run(std::move(add)));
    std::vector<std::string> arguments;
    if (!run({"config", "user.email"}).ok()) {
      arguments = {"-c", "user.name=Ridgeline", "-c", "user.email=ridge@localhost"};
    }
    for (const char* word :
         {"-c", "commit.gpgsign=false", "commit", "--quiet", "--no-verify", "-F", "-", "--only", "--"}) {
      arguments.emplace_back(word);
    }
    arguments.insert(arguments.end(), paths.begin(), paths.end());
    RIDGE_CHECK_OK(run(std::move(arguments), true, message));
    return head();
  }

  bool unfinished() override {
    for (const char* file : kUnfinished) {
      const Result<std::string> path = run({"rev-parse", "--git-path", file});
      std::error_code ignored;
      if (path && std::filesystem::exists(directory_ / *path, ignored)) return true;
    }
    return false;
  }

  Status export_tree(const std::string& commit, const std::string& folder, const std::filesystem::path& into) override {
    RIDGE_CHECK_OK(make_directories(into));
    RIDGE_TRY(own, TempDir::create("ridge-index"));
    const std::map<std::string, std::string> index = {{"GIT_INDEX_FILE", (own.path() / "index").string()}};
    RIDGE_CHECK_OK(run({"read-tree", commit + (folder.empty() ? "^{tree}" : ":" + folder)}, true, {}, index));
    return nothing(
        run({"checkout-index", "--all", "--force", "--prefix=" + std::filesystem::absolute(into).string() + "/"}, true,
            {}, index));
  }

  Status add_worktree(const std::filesystem::path& path, const std::string& branch,
                      const std::string& commit) override {
    return nothing(run({"worktree", "add", "--quiet", "-b", branch, path.string(), commit}));
  }

  Status remove_worktree(const std::filesystem::path& path) override {
    if (std::filesystem::exists(path)) RIDGE_CHECK_OK(run({"worktree", "remove", "--force", path.string()}));
    return nothing(run({"worktree", "prune"}));
  }

  std::unique_ptr<Git> at(const std::filesystem::path& path) override { return make_git(path); }
  [[nodiscard]] const std::filesystem::path& directory() const override { return directory_; }

 private:
  static Status nothing(Result<std::string> result) {
    RIDGE_CHECK_OK(result);
    return ok_status();
  }

  [[nodiscard]] Result<std::string> run(std::vector<std::string> arguments, bool trim = true,
                                        const std::string& input = {},
                                        const std::map<std::string, std::string>& environment = {}) const {
    ProcessSpec spec;
    // No hook of the user runs; --no-verify of a commit leaves out two of them only.
    spec.argv = {"git", "-C", directory_.string(), "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"};
    spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
    spec.standard_input = input;
    spec.timeout = 120.0;
    // Nothing may ask a question, nor may git look for a repository above the directory, or read a name as a pattern.
    spec.clear_environment = true;
    spec.environment = {{"GIT_TERMINAL_PROMPT", "0"},
                        {"GIT_OPTIONAL_LOCKS", "0"},
                        {"GIT_LITERAL_PATHSPECS", "1"},
                        {"GIT_CEILING_DIRECTORIES", std::filesystem::absolute(directory_).parent_path().string()},
                        {"LC_ALL", "C"}};
    for (const auto& [name, value] : environment) spec.environment[name] = value;
    spec.environment.merge(own_environment());
    RIDGE_TRY(ended, run_process(spec));
    if (!ended.succeeded()) {
      const std::string said(trimmed(ended.error_output.empty() ? ended.output : ended.error_output, "\r\n"));
      return make_error(ErrorCode::kToolFailed, "{} {}: {}", quote_command(spec.argv), ended.describe(), said);
    }
    return trim ? std::string(trimmed(ended.output, "\r\n")) : std::move(ended.output);
  }

  std::filesystem::path directory_;
};

}  // namespace

std::unique_ptr<Git> make_git(std::filesystem::path directory) {
  return std::make_unique<CommandGit>(std::move(directory));
}

}  // namespace ridge::execute
