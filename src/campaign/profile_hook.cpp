#include "campaign/profile_hook.h"

#include "base/error.h"
#include "base/files.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

std::filesystem::path path_of(const State& state, const std::filesystem::path& directory) {
  return directory / "profiles" / (state.incumbent.build.artifact.substr(0, 24) + ".json");
}

}  // namespace

Result<std::string> keep_profile(const State& state, const std::filesystem::path& directory,
                                 const record::ProfileReport& report) {
  if (state.incumbent.build.artifact.empty()) {
    return with_hint(make_error(ErrorCode::kConflict, "{} has no incumbent yet", directory.string()),
                     "run it until its baseline is measured");
  }
  const std::filesystem::path path = path_of(state, directory);
  RIDGE_CHECK_OK(make_directories(path.parent_path()));
  RIDGE_CHECK_OK(write_file_durably(path, record::to_pretty(report) + "\n"));
  return path.string();
}

Result<std::optional<record::ProfileReport>> profile_of_incumbent(const State& state,
                                                                  const std::filesystem::path& directory) {
  const std::filesystem::path path = path_of(state, directory);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<record::ProfileReport>();
  RIDGE_TRY(text, read_file(path));
  RIDGE_TRY(report, record::parse_record<record::ProfileReport>(text, path.string()));
  return std::optional(std::move(report));
}

std::vector<std::string> findings_of(const record::ProfileReport& report) {
  std::vector<std::string> findings = {fmt::format("{} of {}: {}", report.tool, report.kernel, report.verdict)};
  for (const record::ProfileHypothesis& one : report.hypotheses) {
    findings.push_back(fmt::format("{} suggests {} (at most {:+.0f} %): {}; {}", report.tool, one.name, 100 * one.gain,
                                   one.evidence, one.action));
  }
  return findings;
}

}  // namespace ridge::campaign
