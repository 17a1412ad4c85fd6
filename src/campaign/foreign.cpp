#include "campaign/foreign.h"

#include "base/inside.h"
#include "campaign/campaign.h"
#include "campaign/files.h"
#include "campaign/foreign_table.h"
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
#include "campaign/skew.h"
#include "campaign/target.h"
#include "campaign/verify.h"
#include "knowledge/tips.h"
#include "record/foreign.h"
#include "record/json.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr double kTrendSlack = 0.99;
constexpr double kLastDigit = 0.0005;  // a trend has three decimals
constexpr double kLeastGain = 0.02;    // below it the written rule asks for a second measurement
constexpr double kMostRounds = 1e6;
constexpr std::string_view kManifestKeys[] = {"target_op",      "target_backend",    "target_lang",   "target_gpu",
                                              "execution_mode", "primary_metric",    "target_shapes", "kernel_source",
                                              "test_command",   "benchmark_command", "quick_command"};
constexpr std::string_view kLogSections[] = {"## Basic Information",    "## Baseline",
                                             "## Optimization History", "## Current Best",
                                             "## Directions to Try",    "## Verified Ineffective Directions",
                                             "## Final Report"};
constexpr std::string_view kSummarySections[] = {"## Hypothesis", "## Single change", "## Results",
                                                 "## Decision",   "## Attribution",   "## Next direction"};
std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
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
  std::optional<double> forward, forward_peak, backward, backward_peak, step;
  bool in_bytes = false;  // GB/s: then the TFLOPS of a table are not its numbers
};

// The labels that a manifest names under a key: texts, or maps with a label; none where it says "all".
std::set<std::string> labels_in(const YAML::Node& shapes) {
  std::set<std::string> labels;
  if (!shapes || !shapes.IsSequence()) return labels;
  for (const YAML::Node& shape : shapes) {
    const YAML::Node label = shape.IsMap() ? shape["label"] : shape;
    if (label && label.IsScalar()) labels.insert(label.Scalar());
  }
  return labels;
}

// Whether a folder is what its journal renders: no file of a round or a log was changed, and none is beside them. A
// journal that is laid beside the files of others vouches for none of them.
bool is_what_its_journal_gives(const fs::path& directory, const State& state) {
  const Result<VerifyReport> verified = verify_campaign(directory);
  if (!verified || !verified->ok()) return false;
  const FileMap rendered = render_campaign(state);
  std::error_code error;
  for (const char* folder : {"rounds", "logs"}) {
    for (fs::recursive_directory_iterator it(directory / folder, error), end; !error && it != end;
         it.increment(error)) {
      const std::string path = it->path().lexically_relative(directory).generic_string();
      if (!it->is_directory(error) && !rendered.contains(path) && !path.ends_with(".edited")) return false;
    }
  }
  return true;
}

class Lint {
 public:
  explicit Lint(fs::path directory) : directory_(std::move(directory)) {
    const Result<State> state = load_campaign(directory_);
    if (!state || !state->created) return;
    own_ = is_what_its_journal_gives(directory_, *state);
    if (!own_) note(LintKind::kContradiction, kJournalFile, "the files of the folder are not what it gives");
  }

  LintReport run() {
    check_manifest();
    check_log();
    check_trend();
    check_rounds();
    check_accepted();
    check_loads();
    check_ineffective();
    check_costs();
    check_run_json();
    read_profiles();
    check_record();
    report_.rounds = static_cast<std::int64_t>(trend_.size());
    for (const auto& [round, row] : trend_) {
      report_.accepted += row.status == "ACCEPTED" ? 1 : 0;
      report_.campaign.rounds.push_back(
          {round, row.status, row.description, row.finding, row.step ? row.step : row.forward, std::nullopt, {}});
      if (const auto table = tables_.find(round); table != tables_.end())
        report_.campaign.rounds.back().shapes = std::move(table->second.shapes);
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
    if (!fs::exists(directory_ / path, error)) {
      if (needed) note(LintKind::kMissing, path, "is not there");
      return std::nullopt;
    }
    const auto size = fs::file_size(directory_ / path, error);
    if (error || !fs::is_regular_file(directory_ / path, error)) {
      note(LintKind::kMalformed, path, "is a folder, a pipe or a device, and no file");
      return std::nullopt;
    }
    if (!lies_in(directory_ / path, directory_)) {
      note(LintKind::kForbidden, path, "is a link that leads out of the folder, and was not read");
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
        const bool empty = !node || node.IsNull() || (node.IsScalar() && node.Scalar().empty());
        if (empty && own_ && key.ends_with("_command")) {
          ++report_.without_commands;
        } else if (empty) {
          note(LintKind::kMissing, "manifest.yaml", fmt::format("{} is missing or empty", key));
        }
      }
      targets_ = labels_in(root["target_shapes"]);
      representatives_ = labels_in(root["representative_shapes"]);
      report_.campaign.shapes.assign(targets_.begin(), targets_.end());
      report_.campaign.op = root["target_op"].as<std::string>("");
      report_.campaign.backend = root["target_backend"].as<std::string>("");
      report_.campaign.gpu = root["target_gpu"].as<std::string>("");
      if (const YAML::Node target = root["performance_target"]; target && target.IsScalar()) {
        const Result<record::Target> parsed = parse_target(target.Scalar());
        if (!parsed && target.Scalar() != "null") note(LintKind::kMalformed, "manifest.yaml", parsed.error().message);
      }
      if (const YAML::Node most = root["max_iterations"]; most && most.IsScalar()) {
        const std::optional<double> value = number_of(most.Scalar());
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
    report_.campaign.directions = read_foreign_directions(*text);
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
    if (!text->empty() && !text->ends_with('\n')) note(LintKind::kMalformed, path, "ends in the middle of a line");
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
    const std::optional<double> round = digits == std::string::npos ? std::nullopt : number_of(cells[0].substr(digits));
    if (!round || *round < 1 || *round > kMostRounds)
      return note(LintKind::kMalformed, path, fmt::format("\"{}\" names no round", cells[0].substr(0, 60)));
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
      for (const char* unit : {"TFLOPS", "GB/s"}) {
        row.in_bytes = row.in_bytes || names[i] == "Fwd Avg GB/s";
        if (names[i] == fmt::format("Fwd Avg {}", unit)) row.forward = number_of(cells[i]);
        if (names[i] == fmt::format("Fwd Peak {}", unit)) row.forward_peak = number_of(cells[i]);
        if (names[i] == fmt::format("Bwd Avg {}", unit)) row.backward = number_of(cells[i]);
        if (names[i] == fmt::format("Bwd Peak {}", unit)) row.backward_peak = number_of(cells[i]);
      }
      for (const char* name : {"Combined Step TFLOPS", "Combined Step GB/s", "Step Geomean TFLOPS"}) {
        if (names[i] == name) row.step = number_of(cells[i]);
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
      const std::optional<double> round = name.starts_with("round-") ? number_of(name.substr(6)) : std::nullopt;
      if (!round || *round < 1 || *round > kMostRounds) {
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
    // A round of ours whose sweep was given up has neither kernel nor numbers, as its journal says.
    if (!own_ && !fs::is_directory(directory_ / path / "kernel_snapshot", error)) {
      note(LintKind::kMissing, path + "/kernel_snapshot", "nothing could be restored from this round");
    }
    if (const std::optional<std::string> summary = read(path + "/summary.md", true)) {
      check_summary(path + "/summary.md", *summary, trend == trend_.end() ? nullptr : &trend->second);
    }
    if (const std::optional<std::string> table = read(path + "/artifacts/benchmark.csv", !own_)) {
      check_table(path + "/artifacts/benchmark.csv", *table, round, trend == trend_.end() ? nullptr : &trend->second);
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

  void check_table(const std::string& path, const std::string& text, long round, const TrendRow* trend) {
    ForeignBenchmark table = read_foreign_benchmark(text);
    for (std::string& what : table.malformed) note(LintKind::kMalformed, path, std::move(what));
    for (std::string& what : table.contradictions) note(LintKind::kContradiction, path, std::move(what));
    if (header_.empty()) header_ = table.header;
    if (table.header != header_) note(LintKind::kContradiction, path, "its header is not the one of the first round");
    if (!table.header.empty() && !table.has_label)
      return note(LintKind::kMalformed, path, "has no label or no Check column");
    if (table.shapes.empty()) return note(LintKind::kMissing, path, "holds no row");
    if (!table.has_metric) note(LintKind::kMalformed, path, "has no column of a throughput or a time");
    for (const ForeignBenchmark::Shape& shape : table.shapes) check_row(path, shape, table, trend);
    if (table.deviations_are_zero && !own_) {
      note(LintKind::kContradiction, path,
           "every deviation is 0: repeated measurements do not agree to the last digit, so nothing was repeated");
    }
    check_shapes(path, table.labels(), round);
    if (trend != nullptr && !trend->in_bytes) {
      check_aggregate(path, "forward", table.rates(false), trend->forward, trend->forward_peak);
      check_aggregate(path, "backward", table.rates(true), trend->backward, trend->backward_peak);
    }
    tables_.emplace(round, std::move(table));
  }

  void check_row(const std::string& path, const ForeignBenchmark::Shape& shape, const ForeignBenchmark& table,
                 const TrendRow* trend) {
    const bool passed = shape.check == "PASS";
    if (passed && table.has_forward && !(shape.forward && *shape.forward > 0))
      note(LintKind::kContradiction, path, shape.label + " passes without a throughput");
    for (const std::optional<double>& time : {shape.forward_ms, shape.backward_ms}) {
      if (passed && time && *time <= 0)
        note(LintKind::kContradiction, path, fmt::format("{} passes with a time of {:g} ms", shape.label, *time));
    }
    if (passed || trend == nullptr) return;
    if (trend->status == "ACCEPTED")
      note(LintKind::kContradiction, path, shape.label + " did not pass, and the round was accepted");
    if (trend->status == "BASELINE")
      note(LintKind::kContradiction, path, shape.label + " did not pass, and the round is the baseline");
  }

  // A table has all target shapes, or the representative ones of a quick look; the baseline has the former.
  void check_shapes(const std::string& path, const std::set<std::string>& labels, long round) {
    if (labels_.empty()) labels_ = labels;
    const bool quick = round > 1 && !representatives_.empty() && labels == representatives_;
    if (labels != labels_ && !quick) note(LintKind::kContradiction, path, "measures other shapes than the first round");
    if (targets_.empty()) return;
    std::string unknown, absent;
    for (const std::string& label : labels) {
      if (!targets_.contains(label) && !representatives_.contains(label) && unknown.empty()) unknown = label;
    }
    for (const std::string& label : targets_) {
      if (!labels.contains(label) && !quick && absent.empty()) absent = label;
    }
    if (!unknown.empty())
      note(LintKind::kContradiction, path, fmt::format("measures {}, which the manifest does not name", unknown));
    if (!absent.empty() && labels != representatives_)
      note(LintKind::kContradiction, path, fmt::format("lacks {}, which the manifest names", absent));
  }

  void check_aggregate(const std::string& path, const char* direction, const std::vector<double>& rates,
                       const std::optional<double>& average, const std::optional<double>& peak) {
    if (rates.empty()) return;
    const double mean = stats::geomean(rates), largest = *std::ranges::max_element(rates);
    const bool other = average && std::isfinite(mean) &&
                       std::abs(mean - *average) > kForeignRounding * std::abs(*average) + kLastDigit;
    if (other) {
      note(LintKind::kContradiction, path,
           fmt::format("{}: the geometric mean of its rows is {:.3f} TFLOPS, the trend says {:.3f}", direction, mean,
                       *average));
    }
    if (peak && *peak > largest * (1 + kForeignRounding) + kLastDigit) {
      note(LintKind::kContradiction, path,
           fmt::format("{}: the largest row is {:.3f} TFLOPS, the trend's peak {:.3f}", direction, largest, *peak));
    }
  }

  // Whether a round was measured more than once: a second table beside the first, or a finding "over 27 sessions".
  [[nodiscard]] bool measured_again(long round, const TrendRow& row) const {
    const std::size_t over = row.finding.find(" over ");
    if (over != std::string::npos) {
      const std::string rest = row.finding.substr(over + 6);
      const std::size_t digits = rest.find_first_not_of("0123456789");
      const std::optional<double> sessions = number_of(rest.substr(0, digits));
      if (sessions && *sessions > 1 && rest.substr(std::min(digits, rest.size())).starts_with(" sessions")) return true;
    }
    std::error_code error;
    int tables = 0;
    const fs::path folder = directory_ / fmt::format("rounds/round-{}/artifacts", round);
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      tables += name.ends_with(".csv") && name != "project_benchmark.csv" ? 1 : 0;
    }
    return tables > 1;
  }

  // A gain that the noise of the table can make is none before it was measured again. Our own rounds are decided on
  // sessions, which the journal has.
  void check_accepted() {
    if (own_) return;
    std::optional<double> best;
    for (const auto& [round, row] : trend_) {
      if (row.status != "ACCEPTED" && row.status != "BASELINE") continue;
      const std::optional<double> now = row.step ? row.step : row.forward;
      if (row.status == "ACCEPTED" && now && best && *best > 0 && !measured_again(round, row)) {
        const auto table = tables_.find(round);
        const double noise = table != tables_.end() ? table->second.worst_noise.value_or(0) : 0;
        const double gain = *now / *best - 1, needed = std::max(kLeastGain, 2 * noise);
        if (gain < needed) {
          note(LintKind::kContradiction, fmt::format("rounds/round-{}", round),
               fmt::format("accepted at {:+.2f} %, below the noise of {:.2f} %, without a second measurement",
                           100 * gain, 100 * needed));
        }
      }
      if (now) best = std::max(best.value_or(0), *now);
    }
  }

  // Of an operator that spreads its work over groups some shape must be uneven.
  void check_loads() {
    if (!is_grouped(in_lower_case(report_.campaign.op), {})) return;
    std::set<std::string> labels = targets_;
    for (const auto& [round, table] : tables_) labels.merge(table.labels());
    const bool skewed = std::ranges::any_of(labels, [](const std::string& label) {
      const std::string word = in_lower_case(label);
      record::Case one;
      one.set("label", label);
      return load_of(one).skewed() || word.find("skew") != std::string::npos ||
             word.find("degenerate") != std::string::npos || word.find("cf=1.25") != std::string::npos;
    });
    if (!skewed && !labels.empty()) {
      note(LintKind::kMissing, "manifest.yaml",
           "no shape with a skewed load: a gain on even groups may be none where tokens are routed");
    }
  }

  void check_costs() {
    const std::string path = "logs/cost.md";
    const std::optional<std::string> text = read(path, false);
    if (!text) {
      if (has_run_json()) note(LintKind::kMissing, path, "is not there: no phase says what it took");
      return;
    }
    ForeignCosts costs = read_foreign_costs(*text);
    for (std::string& what : costs.malformed) note(LintKind::kMalformed, path, std::move(what));
    std::set<std::pair<std::int64_t, std::string>> there;
    for (const record::ForeignCampaign::Cost& cost : costs.rows)
      there.emplace(cost.round.value_or(0), cost.phase.substr(0, cost.phase.find(" (")));
    for (const auto& [round, row] : trend_) {
      if (own_) break;  // its rows are named by events
      std::vector<std::string> phases = {"ANALYZE"};
      if (row.status == "BASELINE") phases = {"BASELINE"};
      if (row.status == "ACCEPTED") phases.emplace_back("VALIDATE");
      for (const std::string& phase : phases) {
        if (!there.contains({round, phase}))
          note(LintKind::kMissing, path, fmt::format("no {} of round {}", phase, round));
      }
    }
    report_.campaign.costs = std::move(costs.rows);
  }

  // profiles/round-N_<trigger>/ with a summary, and the launches of the newest trace in it.
  void read_profiles() {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator it(directory_ / "profiles", error), end; !error && it != end; it.increment(error)) {
      if (it->is_directory(error)) names.push_back(it->path().filename().string());
    }
    std::ranges::sort(names);
    for (const std::string& name : names) {
      const std::size_t mark = name.find('_');
      const std::optional<double> round =
          name.starts_with("round-") && mark != std::string::npos ? number_of(name.substr(6, mark - 6)) : std::nullopt;
      if (!round || *round < 1 || *round > kMostRounds) {
        note(LintKind::kMalformed, "profiles/" + name, "is not called round-N_<trigger>");
        continue;
      }
      record::ForeignCampaign::Profile profile;
      profile.round = static_cast<std::int64_t>(*round);
      profile.trigger = name.substr(mark + 1);
      profile.path = "profiles/" + name;
      profile.summary = read(profile.path + "/profile_summary.md", false).value_or("");
      profile.kernels = kernels_in(profile.path);
      report_.campaign.profiles.push_back(std::move(profile));
    }
  }

  std::vector<record::ForeignCampaign::ProfiledKernel> kernels_in(const std::string& folder) {
    std::error_code error;
    std::vector<std::string> traces;
    for (fs::recursive_directory_iterator it(directory_ / folder, error), end; !error && it != end;
         it.increment(error)) {
      const std::string path = it->path().lexically_relative(directory_).string();
      if (path.ends_with("_kernel_trace.csv")) traces.push_back(path);
    }
    std::ranges::sort(traces);
    std::vector<record::ForeignCampaign::ProfiledKernel> kernels;
    for (const std::string& path : traces) {
      if (const std::optional<std::string> text = read(path, false); text && kernels.empty())
        kernels = read_foreign_trace(*text);
    }
    return kernels;
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
    if (found.empty() && !own_) {
      note(LintKind::kMissing, "state/<id>/run.json", "phase, best round and decisions are known from prose alone");
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

  [[nodiscard]] bool has_run_json() const {
    std::error_code error;
    for (fs::directory_iterator it(directory_ / "state", error), end; !error && it != end; it.increment(error)) {
      if (fs::exists(it->path() / "run.json", error)) return true;
    }
    return false;
  }

  void check_record() {
    std::error_code error;
    if (!fs::exists(directory_ / kJournalFile, error)) {
      note(LintKind::kMissing, "journal.jsonl", "there are no raw samples: no decision can be computed again");
    }
  }

  fs::path directory_;
  bool own_ = false;  // its journal says in full what is asked of the files of others
  LintReport report_;
  std::map<long, TrendRow> trend_;
  std::map<long, ForeignBenchmark> tables_;
  std::string header_;
  std::set<std::string> labels_, targets_, representatives_;
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

namespace {

bool is_slim(const fs::path& directory) {
  std::error_code error;
  return fs::exists(directory / kJournalFile, error) && !fs::exists(directory / "logs", error) &&
         !fs::exists(directory / "rounds", error);
}

// A record of which the journal alone is kept: its other files are what that renders.
Result<LintReport> lint_rendered(const fs::path& directory, const State& state) {
  RIDGE_TRY(folder, TempDir::create("ridge-check"));
  RIDGE_CHECK_OK(write_campaign_files(folder.path(), render_campaign(state)));
  RIDGE_TRY(journal, read_file(directory / kJournalFile));
  RIDGE_CHECK_OK(write_file_durably(folder.path() / kJournalFile, journal));
  return Lint(folder.path()).run();
}

}  // namespace

Result<LintReport> lint_foreign(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} is not a folder", directory.string()),
                     "name the folder of a campaign");
  }
  if (is_workspace(directory)) return lint_workspace(directory);
  if (is_slim(directory)) {
    if (const Result<State> state = load_campaign(directory); state && state->created)
      return lint_rendered(directory, *state);
  }
  return Lint(directory).run();
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
