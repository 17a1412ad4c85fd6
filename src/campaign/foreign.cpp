#include "campaign/foreign.h"

#include "campaign/foreign_workspace.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/malformed.h"
#include "base/text.h"
#include "campaign/render.h"
#include "campaign/target.h"
#include "knowledge/tips.h"
#include "record/foreign.h"
#include "record/json.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr double kTrendSlack = 0.99;
constexpr double kLastDigit = 0.0005;  // a trend has three decimals
constexpr std::string_view kManifestKeys[] = {"target_op",      "target_backend",    "target_lang",   "target_gpu",
                                              "execution_mode", "primary_metric",    "target_shapes", "kernel_source",
                                              "test_command",   "benchmark_command", "quick_command"};
constexpr std::string_view kLogSections[] = {"## Basic Information",    "## Baseline",
                                             "## Optimization History", "## Current Best",
                                             "## Directions to Try",    "## Verified Ineffective Directions",
                                             "## Final Report"};
constexpr std::string_view kSummarySections[] = {"## Hypothesis", "## Single change", "## Results",
                                                 "## Decision",   "## Attribution",   "## Next direction"};
constexpr std::string_view kPassWords[] = {"PASS", "PASSED", "TRUE", "1", "YES", "OK"};
constexpr std::string_view kFailWords[] = {"FAIL", "FAILED", "FALSE", "0", "NO", "ERROR"};

std::vector<std::string> lines_of_text(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

// "| a | b |" -> "a", "b"
std::vector<std::string> table_cells(std::string_view line) {
  line = trimmed(line).substr(1);
  if (line.ends_with('|')) line.remove_suffix(1);
  std::vector<std::string> cells = split(line, '|');
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

template <std::size_t N>
bool is_one_of(const std::string& word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

// Every spelling of the outcomes that is in use; the last two are our own.
std::string decision_word(std::string text) {
  text = in_capitals(std::string(trimmed(text)));
  for (const char* own : {"NOT SETTLED", "NOT MEASURED"}) {
    if (text.starts_with(own)) return own;
  }
  if (text.find("BASELINE") != std::string::npos) return "BASELINE";
  if (text.find("ROLL") != std::string::npos) return "ROLLBACK";
  if (text.find("ACCEPT") != std::string::npos) return "ACCEPTED";
  return {};
}

struct TrendRow {
  std::string status, description, finding;
  std::optional<double> forward, step;
};

class Lint {
 public:
  explicit Lint(fs::path directory) : directory_(std::move(directory)) {}

  LintReport run() {
    check_manifest();
    check_log();
    check_trend();
    check_rounds();
    check_ineffective();
    check_run_json();
    check_record();
    report_.rounds = static_cast<std::int64_t>(trend_.size());
    for (const auto& [round, row] : trend_) {
      report_.accepted += row.status == "ACCEPTED" ? 1 : 0;
      report_.campaign.rounds.push_back(
          {round, row.status, row.description, row.finding, row.step ? row.step : row.forward, std::nullopt});
    }
    report_.campaign.layout = "turbo-view";
    return std::move(report_);
  }

 private:
  void note(LintKind kind, std::string path, std::string what) {
    report_.findings.push_back({kind, std::move(path), std::move(what)});
  }

  std::optional<std::string> read(const std::string& path, bool needed) {
    std::error_code error;
    const auto size = fs::file_size(directory_ / path, error);
    if (error || !fs::is_regular_file(directory_ / path, error)) {
      if (needed) note(LintKind::kMissing, path, "is not there");
      return std::nullopt;
    }
    if (size > kLargestForeignFile) {
      note(LintKind::kMalformed, path, fmt::format("has {} bytes and was not read", size));
      return std::nullopt;
    }
    Result<std::string> text = read_file(directory_ / path);
    if (!text) {
      note(LintKind::kMalformed, path, text.error().message);
      return std::nullopt;
    }
    ++report_.files;
    return std::move(*text);
  }

  void check_manifest() {
    const std::optional<std::string> text = read("manifest.yaml", true);
    if (!text) return;
    try {
      const YAML::Node root = YAML::Load(*text);
      if (!root.IsMap()) return note(LintKind::kMalformed, "manifest.yaml", "is not a map of keys");
      for (const std::string_view key : kManifestKeys) {
        const YAML::Node node = root[std::string(key)];
        if (!node || node.IsNull())
          note(LintKind::kMissing, "manifest.yaml", fmt::format("{} is missing or empty", key));
      }
      report_.campaign.op = root["target_op"].as<std::string>("");
      report_.campaign.backend = root["target_backend"].as<std::string>("");
      report_.campaign.gpu = root["target_gpu"].as<std::string>("");
      if (const YAML::Node target = root["performance_target"]; target && target.IsScalar()) {
        const Result<record::Target> parsed = parse_target(target.Scalar());
        if (!parsed && target.Scalar() != "null") note(LintKind::kMalformed, "manifest.yaml", parsed.error().message);
      }
      if (const YAML::Node most = root["max_iterations"]; most && most.IsScalar()) {
        const std::optional<double> value = number(most.Scalar());
        if (value && (*value < 1 || *value > 119)) {
          note(LintKind::kMalformed, "manifest.yaml", fmt::format("max_iterations = {} is not 1..119", most.Scalar()));
        }
      }
    } catch (const YAML::Exception& error) {
      const auto line = static_cast<std::size_t>(std::max(error.mark.line, 0) + 1);
      note(LintKind::kMalformed, "manifest.yaml",
           fmt::format("line {}: {}", line, yaml_problem(*text, line, error.msg)));
    }
    const std::optional<std::string> confirmed = read("manifest.confirmed", false);
    if (!confirmed) {
      note(LintKind::kMissing, "manifest.confirmed", "the manifest was not confirmed");
    } else if (confirmed->size() < 64) {
      note(LintKind::kMissing, "manifest.confirmed", "holds no digest: the manifest may have changed afterwards");
    }
  }

  void check_log() {
    const std::optional<std::string> text = read("logs/optimize.md", true);
    if (!text) return;
    std::size_t at = 0;
    for (const std::string_view section : kLogSections) {
      const std::size_t found = text->find(section);
      if (found == std::string::npos) {
        note(LintKind::kMissing, "logs/optimize.md", fmt::format("section \"{}\"", section));
      } else {
        if (found < at)
          note(LintKind::kMalformed, "logs/optimize.md", fmt::format("section \"{}\" is out of order", section));
        at = found;
      }
    }
  }

  void check_trend() {
    const std::string path = "logs/performance_trend.md";
    const std::optional<std::string> text = read(path, true);
    if (!text) return;
    std::vector<std::string> names;
    for (const std::string& line : lines_of_text(*text)) {
      if (!line.starts_with("|")) continue;
      std::vector<std::string> cells = table_cells(line);
      if (names.empty()) {
        names = cells;
        check_trend_header(path, names);
      } else if (!cells.empty() && cells[0].find("---") == std::string::npos) {
        add_trend_row(path, names, cells);
      }
    }
    check_trend_rises(path);
  }

  void check_trend_header(const std::string& path, const std::vector<std::string>& names) {
    const bool combined = std::any_of(names.begin(), names.end(), [](const std::string& name) {
      return name == "Combined Step TFLOPS" || name == "Combined Step GB/s";  // the latter where memory bounds all
    });
    const bool geomean = std::find(names.begin(), names.end(), "Step Geomean TFLOPS") != names.end();
    if (!combined && !geomean) note(LintKind::kMalformed, path, "has no column of the whole step");
    if (geomean) {
      note(LintKind::kContradiction, path,
           "\"Step Geomean TFLOPS\" is sqrt(forward x backward), which can rise while a step gets slower");
    }
  }

  void add_trend_row(const std::string& path, const std::vector<std::string>& names,
                     const std::vector<std::string>& cells) {
    const std::size_t digits = cells[0].find_first_of("0123456789");
    const std::optional<double> round = digits == std::string::npos ? std::nullopt : number(cells[0].substr(digits));
    if (!round) return note(LintKind::kMalformed, path, fmt::format("\"{}\" names no round", cells[0].substr(0, 60)));
    if (cells.size() < names.size()) {
      note(LintKind::kMalformed, path,
           fmt::format("{} has {} cells where {} belong", cells[0], cells.size(), names.size()));
    }
    TrendRow row;
    row.status = cells.size() > 1 ? decision_word(cells[1]) : std::string();
    if (row.status.empty()) note(LintKind::kMalformed, path, fmt::format("{} has no known status", cells[0]));
    for (std::size_t i = 0; i < std::min(names.size(), cells.size()); ++i) {
      if (names[i] == "Description") row.description = cells[i];
      if (names[i] == "Key Finding") row.finding = cells[i];
      if (names[i] == "Fwd Avg TFLOPS" || names[i] == "Fwd Avg GB/s") row.forward = number(cells[i]);
      for (const char* name : {"Combined Step TFLOPS", "Combined Step GB/s", "Step Geomean TFLOPS"}) {
        if (names[i] == name) row.step = number(cells[i]);
      }
    }
    if (!trend_.emplace(static_cast<long>(*round), row).second) {
      note(LintKind::kContradiction, path, fmt::format("{} is there twice", cells[0]));
    }
  }

  void check_trend_rises(const std::string& path) {
    double best = 0;
    long expected = 1;
    for (const auto& [round, row] : trend_) {
      if (round != expected)
        note(LintKind::kContradiction, path, fmt::format("round {} comes after round {}", round, expected - 1));
      expected = round + 1;
      if (row.status != "ACCEPTED" && row.status != "BASELINE") continue;
      if (row.step && *row.step < kTrendSlack * best) {
        note(LintKind::kContradiction, path,
             fmt::format("round {} was accepted at {:g}, after {:g}", round, *row.step, best));
      }
      if (row.step) best = std::max(best, *row.step);
    }
  }

  void check_rounds() {
    std::error_code error;
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_ / "rounds", error))
      names.push_back(entry.path().filename().string());
    if (names.empty()) return note(LintKind::kMissing, "rounds", "holds no round");
    std::sort(names.begin(), names.end());
    std::set<long> there;
    for (const std::string& name : names) {
      const std::optional<double> round = name.starts_with("round-") ? number(name.substr(6)) : std::nullopt;
      if (!round) {
        note(LintKind::kMalformed, "rounds/" + name, "is not called round-N");
        continue;
      }
      there.insert(static_cast<long>(*round));
      check_round("rounds/" + name, static_cast<long>(*round));
    }
    for (const auto& [round, row] : trend_) {
      if (!there.contains(round))
        note(LintKind::kMissing, fmt::format("rounds/round-{}", round), "the trend has this round");
    }
  }

  void check_round(const std::string& path, long round) {
    const auto trend = trend_.find(round);
    if (trend == trend_.end()) note(LintKind::kContradiction, path, "the trend does not have this round");
    std::error_code error;
    if (!fs::is_directory(directory_ / path / "kernel_snapshot", error)) {
      note(LintKind::kMissing, path + "/kernel_snapshot", "nothing could be restored from this round");
    }
    if (const std::optional<std::string> summary = read(path + "/summary.md", true)) {
      check_summary(path + "/summary.md", *summary, trend == trend_.end() ? nullptr : &trend->second);
    }
    if (const std::optional<std::string> table = read(path + "/artifacts/benchmark.csv", true)) {
      check_table(path + "/artifacts/benchmark.csv", *table, trend == trend_.end() ? nullptr : &trend->second);
    }
  }

  void check_summary(const std::string& path, const std::string& text, const TrendRow* trend) {
    for (const std::string_view section : kSummarySections) {
      if (text.find(section) == std::string::npos)
        note(LintKind::kMissing, path, fmt::format("section \"{}\"", section));
    }
    if (text.find("## Real-training transfer check") == std::string::npos) {
      note(LintKind::kMissing, path, "no check of whether training will see the gain");
    }
    const std::size_t at = text.find("## Decision");
    const std::string said = at == std::string::npos ? std::string() : decision_word(text.substr(at + 11, 200));
    if (trend != nullptr && !said.empty() && !trend->status.empty() && said != trend->status) {
      note(LintKind::kContradiction, path, fmt::format("says {}, the trend says {}", said, trend->status));
    }
    const std::string praise = knowledge::hygiene_problem(text);
    if (!praise.empty() && said == "ACCEPTED") note(LintKind::kForbidden, path, praise);
  }

  void check_table(const std::string& path, const std::string& text, const TrendRow* trend) {
    const std::vector<std::string> lines = lines_of_text(text);
    if (lines.size() < 2) return note(LintKind::kMissing, path, "holds no row");
    if (header_.empty()) header_ = lines[0];
    if (lines[0] != header_) note(LintKind::kContradiction, path, "its header is not the one of the first round");
    const std::vector<std::string> names = csv_cells(lines[0]);
    const auto column = [&](std::string_view name) {
      return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    };
    const std::size_t label = column("label"), check = std::min(column("Check"), column("correct"));
    const std::size_t forward = std::min(column("Forward TFLOPS"), column("fwd_tflops_mean"));
    if (label == names.size() || check == names.size())
      return note(LintKind::kMalformed, path, "has no label or no Check column");
    const bool has_metric = std::any_of(names.begin(), names.end(), [](const std::string& name) {
      return in_capitals(name).find("FLOPS") != std::string::npos ||
             in_capitals(name).find("B/S") != std::string::npos || in_capitals(name).find("TIME") != std::string::npos;
    });
    if (!has_metric) note(LintKind::kMalformed, path, "has no column of a throughput or a time");
    std::set<std::string> labels;
    std::vector<double> speeds;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const std::vector<std::string> cells = csv_cells(lines[i]);
      if (cells.size() <= std::max(label, check)) {
        if (!lines[i].empty()) note(LintKind::kMalformed, path, fmt::format("line {} is cut short", i + 1));
        continue;
      }
      if (!labels.insert(cells[label]).second) note(LintKind::kContradiction, path, cells[label] + " is there twice");
      const std::string word = in_capitals(cells[check]);
      const bool passed = is_one_of(word, kPassWords);
      if (!passed && !word.empty() && !is_one_of(word, kFailWords)) {
        note(LintKind::kMalformed, path, fmt::format("{}: Check is \"{}\"", cells[label], cells[check].substr(0, 60)));
      }
      const std::optional<double> speed = forward < cells.size() ? number(cells[forward]) : std::nullopt;
      if (passed && forward < names.size() && !(speed && std::isfinite(*speed) && *speed > 0)) {
        note(LintKind::kContradiction, path, cells[label] + " passes without a throughput");
      }
      if (passed && speed) speeds.push_back(*speed);
      if (!passed && trend != nullptr && trend->status == "ACCEPTED") {
        note(LintKind::kContradiction, path, cells[label] + " did not pass, and the round was accepted");
      }
      if (!passed && trend != nullptr && trend->status == "BASELINE") {
        note(LintKind::kContradiction, path, cells[label] + " did not pass, and the round is the baseline");
      }
    }
    if (labels_.empty()) labels_ = labels;
    if (labels != labels_) note(LintKind::kContradiction, path, "measures other shapes than the first round");
    const double mean = stats::geomean(speeds);
    const bool differs = trend != nullptr && trend->forward && std::isfinite(mean) &&
                         std::abs(mean - *trend->forward) > kForeignRounding * *trend->forward + kLastDigit;
    if (differs) {
      note(LintKind::kContradiction, path,
           fmt::format("geometric mean {:.3f} TFLOPS, the trend says {:.3f}", mean, *trend->forward));
    }
  }

  void check_ineffective() {
    const std::string path = "verified_ineffective.jsonl";
    const std::optional<std::string> text = read(path, false);
    if (!text) return;
    std::size_t number_of_line = 0;
    for (const std::string& line : lines_of_text(*text)) {
      ++number_of_line;
      const Result<record::Ineffective> entry = record::parse_record<record::Ineffective>(line, "line");
      if (!entry) {
        note(LintKind::kMalformed, path, fmt::format("line {}: {}", number_of_line, entry.error().message));
        continue;
      }
      const auto row = trend_.find(static_cast<long>(entry->round));
      if (row == trend_.end()) {
        note(LintKind::kContradiction, path, fmt::format("round {} is not in the trend", entry->round));
      } else if (row->second.status == "ACCEPTED") {
        note(LintKind::kContradiction, path,
             fmt::format("round {} was accepted, and its idea is called ineffective", entry->round));
      } else if (row->second.status == "NOT MEASURED" || row->second.status == "NOT SETTLED") {
        note(LintKind::kContradiction, path,
             fmt::format("round {} refuted nothing, and its idea is called ineffective", entry->round));
      }
    }
  }

  void check_run_json() {
    std::error_code error;
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(directory_ / "state", error)) {
      if (fs::exists(entry.path() / "run.json", error)) found.push_back(entry.path() / "run.json");
    }
    for (const fs::path& path : found) {
      const std::string name = path.lexically_relative(directory_).string();
      const std::optional<std::string> text = read(name, true);
      if (!text) continue;
      const Result<record::ForeignRun> run = record::parse_foreign_run(*text);
      if (!run) {
        note(LintKind::kMalformed, name, run.error().message);
        continue;
      }
      std::set<std::int64_t> rounds;
      for (const record::ForeignRun::Entry& entry : run->history) {
        if (!rounds.insert(entry.round).second)
          note(LintKind::kContradiction, name, fmt::format("round {} is there twice", entry.round));
        const auto row = trend_.find(static_cast<long>(entry.round));
        const std::string said = decision_word(entry.decision);
        if (said.empty()) {
          note(LintKind::kMalformed, name,
               fmt::format("round {}: \"{}\" is no decision", entry.round, entry.decision.substr(0, 60)));
        } else if (row == trend_.end()) {
          note(LintKind::kContradiction, name, fmt::format("round {} is not in the trend", entry.round));
        } else if (said != row->second.status) {
          note(LintKind::kContradiction, name,
               fmt::format("round {}: {}, the trend says {}", entry.round, said, row->second.status));
        }
      }
      const auto best = trend_.find(static_cast<long>(run->best_round));
      if (best == trend_.end()) {
        note(LintKind::kContradiction, name, fmt::format("the best round {} is not in the trend", run->best_round));
      } else if (best->second.status != "ACCEPTED" && best->second.status != "BASELINE") {
        note(LintKind::kContradiction, name,
             fmt::format("the best round {} was {}", run->best_round,
                         best->second.status == "ROLLBACK" ? "rolled back" : "not accepted"));
      }
    }
  }

  void check_record() {
    std::error_code error;
    if (!fs::exists(directory_ / "journal.jsonl", error)) {
      note(LintKind::kMissing, "journal.jsonl", "there are no raw samples: no decision can be computed again");
    }
  }

  fs::path directory_;
  LintReport report_;
  std::map<long, TrendRow> trend_;
  std::string header_;
  std::set<std::string> labels_;
};

}  // namespace

std::string_view to_string(LintKind kind) {
  switch (kind) {
    case LintKind::kMissing: return "missing";
    case LintKind::kMalformed: return "malformed";
    case LintKind::kContradiction: return "contradiction";
    case LintKind::kForbidden: break;
  }
  return "forbidden";
}

Result<LintReport> lint_foreign(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} is not a folder", directory.string()),
                     "name the folder of a campaign");
  }
  return is_workspace(directory) ? lint_workspace(directory) : Lint(directory).run();
}

Result<record::ForeignCampaign> import_foreign(const fs::path& directory) {
  RIDGE_TRY(report, lint_foreign(directory));
  if (report.files == 0) {
    return with_hint(make_error(ErrorCode::kNotFound, "nothing in {} is a file of a campaign", directory.string()),
                     "name the folder that holds manifest.yaml, or memory/v0.json");
  }
  for (const LintFinding& one : report.findings) {
    report.campaign.findings.push_back({std::string(to_string(one.kind)), one.path, one.what});
  }
  return std::move(report.campaign);
}

}  // namespace ridge::campaign
