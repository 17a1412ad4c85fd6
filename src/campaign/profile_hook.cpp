#include "campaign/profile_hook.h"

#include "base/error.h"
#include "base/files.h"
#include "campaign/escalate.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

std::filesystem::path path_of(const State& state, const std::filesystem::path& directory) {
  return directory / "profiles" / (state.incumbent.build.artifact.substr(0, 24) + ".json");
}

// The engine's own look at the incumbent's build, or null.
const record::Profiled* own_profile(const State& state) {
  for (auto one = state.profiles.rbegin(); one != state.profiles.rend(); ++one) {
    if (one->artifact == state.incumbent.build.artifact) return &*one;
  }
  return nullptr;
}

}  // namespace

std::string profile_trigger(const State& state) {
  if (!state.baseline_committed || state.open_round() != nullptr || state.final_measurement || state.reported)
    return {};
  const std::string profiler = state.prepared->environment.fact(kProfilerFact);
  if (profiler.empty() || profiler.starts_with(kNoProfiler) || own_profile(state) != nullptr) return {};
  if (state.rounds.empty()) return "baseline";
  if (state.terminated()) return state.termination->condition == "T4" ? "" : "end";  // a stop is not kept waiting
  return rollbacks_before(state, state.next_round()) >= 2 ? "rollbacks" : "";
}

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
  if (!std::filesystem::exists(path, ignored)) {
    const record::Profiled* own = own_profile(state);
    return own == nullptr ? std::optional<record::ProfileReport>() : own->report;
  }
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
