#include "campaign/upstream.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "campaign/handback.h"
#include "campaign/manifest.h"
#include "record/execution.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolderKey = "upstream_folder";
constexpr const char* kCommitKey = "upstream_commit";
constexpr const char* kDigestKey = "upstream_digest";
constexpr const char* kExtractedKey = "extracted";
constexpr const char* kAsItIs = "or leave --mode workspace out: --mode repo copies the folder as it is on the disk";
constexpr const char* kBeginAnew = "begin a new campaign with --mode workspace, which writes the keys of upstream";
constexpr std::size_t kMostNamed = 5;

bool is_hex(const std::string& text, std::initializer_list<std::size_t> lengths) {
  return std::ranges::find(lengths, text.size()) != lengths.end() &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string digest_problem(const std::string& digest) {
  return fmt::format("{} = \"{}\" is no SHA-256, and the files that were extracted are checked against it", kDigestKey,
                     digest);
}

bool lies_below(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

// Files of the project that no commit has. What the project leaves out, and campaigns that lie in it, do not count.
std::vector<std::string> not_committed(const std::vector<std::string>& changes, const std::string& folder,
                                       const project::Project& project) {
  std::vector<std::string> found;
  for (std::string path : changes) {
    if (!folder.empty() && !path.starts_with(folder + "/")) continue;
    if (!folder.empty()) path = path.substr(folder.size() + 1);
    const bool ignored = lies_below(path, "campaigns") ||
                         std::ranges::any_of(project.leave_out, [&](const auto& one) { return lies_below(path, one); });
    if (!ignored) found.push_back(std::move(path));
  }
  return found;
}

std::string digest_of(const std::map<std::string, std::string>& files) {
  std::string text;
  for (const auto& [path, digest] : files) text += digest + " " + path + "\n";
  return sha256(text);
}

Status export_into(const Upstream& upstream, const fs::path& into) {
  const std::unique_ptr<execute::Git> git = execute::make_git(upstream.repository);
  if (!git->tree(upstream.commit)) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} has no commit {}", upstream.repository.string(),
                                upstream.commit.substr(0, 12)),
                     "fetch it, or begin a new campaign");
  }
  const fs::path partial = into.string() + ".partial";
  std::error_code ignored;
  fs::remove_all(partial, ignored);
  RIDGE_CHECK_OK(git->export_tree(upstream.commit, upstream.folder, partial));
  std::error_code error;
  fs::rename(partial, into, error);
  if (error) return make_error(ErrorCode::kIo, "cannot make {}: {}", into.string(), error.message());
  return ok_status();
}

Status check_has(const Upstream& upstream, const fs::path& folder, const std::string& path, const char* key) {
  std::error_code ignored;
  if (fs::exists(folder / path, ignored)) return ok_status();
  return with_hint(
      make_error(ErrorCode::kNotFound, "commit {} of {} has no {}, which {} names", upstream.commit.substr(0, 12),
                 (upstream.repository / upstream.folder).string(), path, key),
      fmt::format("git add --force and commit it, or correct {}", project::kProjectFile));
}

}  // namespace

Result<Upstream> find_upstream(const project::Project& project) {
  Upstream upstream;
  Result<fs::path> top = repository_above(project.root);
  if (!top) return with_hint(top.error(), std::string("git init and commit it; ") + kAsItIs);
  upstream.repository = std::move(*top);
  const fs::path folder = project.root.lexically_relative(upstream.repository);
  upstream.folder = folder == "." ? std::string() : folder.generic_string();
  const std::unique_ptr<execute::Git> git = execute::make_git(upstream.repository);
  Result<std::string> head = git->head();
  if (!head) return with_hint(head.error(), std::string("commit the project; ") + kAsItIs);
  upstream.commit = std::move(*head);
  RIDGE_TRY(changes, git->changes());
  std::vector<std::string> dirty = not_committed(changes, upstream.folder, project);
  if (!dirty.empty()) {
    const std::size_t all = dirty.size();
    if (all > kMostNamed) dirty.resize(kMostNamed);
    return with_hint(make_error(ErrorCode::kConflict, "{} has changes that are not committed: {}{}",
                                project.root.string(), fmt::join(dirty, ", "), all > kMostNamed ? ", ..." : ""),
                     std::string("commit or stash them, or name them in .gitignore; ") + kAsItIs);
  }
  upstream.extracted = project.extract;
  return upstream;
}

Result<project::Project> extract_first(Upstream& upstream, const fs::path& into) {
  RIDGE_CHECK_OK(export_into(upstream, into));
  RIDGE_TRY(files, file_digests(into));
  upstream.digest = digest_of(files);
  return extract(upstream, into);
}

Result<project::Project> extract(const Upstream& upstream, const fs::path& into) {
  if (!is_hex(upstream.digest, {64})) return with_hint(invalid("{}", digest_problem(upstream.digest)), kBeginAnew);
  std::error_code ignored;
  if (!fs::exists(into, ignored)) RIDGE_CHECK_OK(export_into(upstream, into));
  RIDGE_TRY(files, file_digests(into));
  if (digest_of(files) != upstream.digest) {
    return with_hint(make_error(ErrorCode::kConflict, "{} is not what was extracted at commit {}", into.string(),
                                upstream.commit.substr(0, 12)),
                     fmt::format("remove {}: it is extracted again", into.string()));
  }
  RIDGE_CHECK_OK(check_has(upstream, into, project::kProjectFile, "--project"));
  RIDGE_TRY(project, project::read_project(into));
  for (const std::string& path : project.kernel) RIDGE_CHECK_OK(check_has(upstream, into, path, "project.kernel"));
  for (const std::string& path : upstream.extracted) RIDGE_CHECK_OK(check_has(upstream, into, path, "project.extract"));
  return project;
}

void describe_upstream(record::CampaignSpec& spec, const Upstream& upstream) {
  spec.execution_mode = record::kWorkspaceMode;
  spec.extra[record::kUpstreamKey] = yaml_text(upstream.repository.string());
  spec.extra[kFolderKey] = yaml_text(upstream.folder);
  spec.extra[kCommitKey] = yaml_text(upstream.commit);
  spec.extra[kDigestKey] = yaml_text(upstream.digest);
  std::string list;
  for (const std::string& path : upstream.extracted) list += "- " + yaml_text(path) + "\n";
  if (!list.empty()) spec.extra[kExtractedKey] = list;
}

std::optional<Upstream> upstream_of(const record::CampaignSpec& spec) {
  if (!record::is_extracted(spec)) return std::nullopt;
  return Upstream{extra_text(spec, record::kUpstreamKey), extra_text(spec, kFolderKey), extra_text(spec, kCommitKey),
                  extra_text(spec, kDigestKey), extra_texts(spec, kExtractedKey)};
}

std::string upstream_problem(const record::CampaignSpec& spec) {
  const std::optional<Upstream> upstream = upstream_of(spec);
  if (!upstream) return {};
  if (!upstream->repository.is_absolute())
    return fmt::format("{} = \"{}\" is no absolute path", record::kUpstreamKey, upstream->repository.string());
  if (!is_hex(upstream->commit, {40, 64}))
    return fmt::format("{} = \"{}\" is no full name of a commit", kCommitKey, upstream->commit);
  return is_hex(upstream->digest, {64}) ? std::string() : digest_problem(upstream->digest);
}

std::string text_of(const Upstream& upstream) {
  const std::string what =
      upstream.extracted.empty() ? "all files" : fmt::format("{}", fmt::join(upstream.extracted, ", "));
  return fmt::format("{} of {} at {}", what, (upstream.repository / upstream.folder).lexically_normal().string(),
                     upstream.commit.substr(0, 12));
}

Result<std::map<std::string, std::string>> file_digests(const fs::path& folder) {
  std::map<std::string, std::string> digests;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().lexically_relative(folder).generic_string();
    if (it->is_symlink()) {
      digests[path] = sha256("link " + fs::read_symlink(it->path(), error).string());
    } else if (it->is_regular_file()) {
      RIDGE_TRY(text, read_file(it->path()));
      const bool runs = (it->status().permissions() & fs::perms::owner_exec) != fs::perms::none;
      digests[path] = sha256((runs ? "program " : "file ") + text);
    }
  }
  if (error) return make_error(ErrorCode::kIo, "cannot read {}: {}", folder.string(), error.message());
  return digests;
}

}  // namespace ridge::campaign
