#include "campaign/foreign_workspace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/inside.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr double kBestSlack = 1.01;
constexpr std::size_t kMostDirections = 3;

// "v7.json" -> 7
std::optional<std::int64_t> version_of(const std::string& name) {
  if (!name.starts_with('v') || !name.ends_with(".json")) return std::nullopt;
  std::int64_t version = 0;
  const char *begin = name.data() + 1, *end = name.data() + name.size() - 5;
  const auto [stop, error] = std::from_chars(begin, end, version);
  if (error != std::errc() || stop != end || begin == end || version < 0) return std::nullopt;
  return version;
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class WorkspaceLint {
 public:
  explicit WorkspaceLint(fs::path directory) : directory_(std::move(directory)) {}

  LintReport run() {
    for (const std::string& name : names_in(directory_ / "memory")) read(name);
    for (const auto& [version, one] : versions_) check(version, one);
    std::error_code error;
    if (!fs::exists(directory_ / "README.md", error)) note(LintKind::kMissing, "README.md", "says what it is about");
    note(LintKind::kMissing, "journal.jsonl", "there are no raw samples: no decision can be computed again");
    report_.rounds = static_cast<std::int64_t>(versions_.size());
    report_.campaign.layout = "atrex";
    return std::move(report_);
  }

 private:
  void note(LintKind kind, std::string path, std::string what) {
    report_.findings.push_back({kind, std::move(path), std::move(what)});
  }

  void read(const std::string& name) {
    const std::string path = "memory/" + name;
    const std::optional<std::int64_t> version = version_of(name);
    if (!version) {
      if (name.ends_with(".json")) note(LintKind::kMalformed, path, "is not called v<N>.json");
      return;
    }
    std::error_code error;
    const auto size = fs::file_size(directory_ / path, error);
    if (error || !fs::is_regular_file(directory_ / path, error))
      return note(LintKind::kMalformed, path, "is a folder, a pipe or a device, and no file");
    if (size > kLargestForeignFile)
      return note(LintKind::kMalformed, path, fmt::format("has {} bytes and was not read", size));
    if (!lies_in(directory_ / path, directory_)) {
      return note(LintKind::kForbidden, path, "is a link that leads out of the folder, and was not read");
    }
    const Result<std::string> text = read_file(directory_ / path);
    if (!text) return note(LintKind::kMalformed, path, text.error().message);
    ++report_.files;
    std::vector<std::string> oddities;
    Result<record::ForeignIteration> one = record::parse_foreign_iteration(*text, oddities);
    if (!one) return note(LintKind::kMalformed, path, one.error().message);
    for (std::string& oddity : oddities) note(LintKind::kMalformed, path, std::move(oddity));
    if (one->version + ".json" != name) {
      note(LintKind::kContradiction, path, fmt::format("calls itself \"{}\"", one->version.substr(0, 60)));
    }
    versions_.insert_or_assign(*version, std::move(*one));
  }

  void check(std::int64_t version, const record::ForeignIteration& one) {
    const std::string path = fmt::format("memory/v{}.json", version);
    if (version != expected_) {
      note(LintKind::kMissing, fmt::format("memory/v{}.json", expected_), fmt::format("v{} is there", version));
    }
    expected_ = version + 1;
    const std::string& said = one.quality_gate.result;
    const bool passed = said == "PASS", failed = said == "FAIL" || said == "TIMEOUT_FAIL";
    const std::string open = said == "NOT_MEASURED" ? "NOT MEASURED" : said == "NOT_SETTLED" ? "NOT SETTLED" : "";
    const bool known = passed || failed || !open.empty();
    if (!known) note(LintKind::kMalformed, path, fmt::format("quality_gate.result is \"{}\"", said.substr(0, 60)));
    if (passed && one.correctness.status != "PASS") {
      note(LintKind::kContradiction, path, "passes its gate, and its correctness does not");
    }
    if (known && !passed && !one.quality_gate.reason) {
      note(LintKind::kMissing, path, "does not say why it did not pass");
    }
    if (one.open_directions.size() > kMostDirections) {
      note(LintKind::kMalformed, path, fmt::format("{} open directions", one.open_directions.size()));
    }
    if (one.commit && one.commit->find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      note(LintKind::kMalformed, path, "git_commit_hash is no hash");
    }
    check_latency(path, one.performance, passed);
    const std::string status = version == 0 ? "BASELINE" : passed ? "ACCEPTED" : failed ? "ROLLBACK" : open;
    report_.accepted += status == "ACCEPTED" ? 1 : 0;
    record::ForeignCampaign::Round round{version + 1,
                                         status,
                                         one.optimization.description,
                                         one.quality_gate.reason.value_or(""),
                                         one.performance.tflops,
                                         one.performance.latency_us,
                                         {}};
    for (const auto& [label, latency] : one.performance.by_shape) {
      record::ForeignCampaign::Shape& shape = round.shapes.emplace_back();
      shape.label = label;
      shape.latency_us = latency;
    }
    report_.campaign.rounds.push_back(std::move(round));
    for (const record::ForeignIteration::Open& idea : one.open_directions)
      report_.campaign.directions.push_back({"open", idea.direction, idea.rationale, version + 1});
  }

  void check_latency(const std::string& path, const record::ForeignIteration::Performance& performance, bool passed) {
    const std::optional<double>& latency = performance.latency_us;
    if (!latency) {
      if (passed) note(LintKind::kMissing, path, "passes without a latency");
      return;
    }
    if (!(*latency > 0) || !std::isfinite(*latency)) {
      return note(LintKind::kMalformed, path, fmt::format("latency_us = {}", *latency));
    }
    std::vector<double> shapes;
    for (const auto& [label, value] : performance.by_shape) shapes.push_back(value);
    const double mean = stats::geomean(shapes);
    if (!shapes.empty() && !(std::abs(mean / *latency - 1) <= kForeignRounding)) {
      note(LintKind::kContradiction, path,
           fmt::format("latency_us is {:g}, the geometric mean of its shapes {:g}", *latency, mean));
    }
    if (!passed) return;
    if (best_ && *latency > kBestSlack * *best_) {
      note(LintKind::kContradiction, path, fmt::format("passes with {:g} us, after {:g} us", *latency, *best_));
    }
    best_ = best_ ? std::min(*best_, *latency) : *latency;
  }

  fs::path directory_;
  LintReport report_;
  std::map<std::int64_t, record::ForeignIteration> versions_;
  std::int64_t expected_ = 0;
  std::optional<double> best_;
};

}  // namespace

bool is_workspace(const fs::path& directory) {
  std::error_code error;
  if (fs::exists(directory / "manifest.yaml", error) || fs::exists(directory / "rounds", error)) return false;
  const std::vector<std::string> names = names_in(directory / "memory");
  return std::any_of(names.begin(), names.end(), [](const std::string& name) { return version_of(name).has_value(); });
}

LintReport lint_workspace(const fs::path& directory) { return WorkspaceLint(directory).run(); }

}  // namespace ridge::campaign
