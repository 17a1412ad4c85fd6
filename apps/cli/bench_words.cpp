#include "bench_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "record/bench_table.h"
#include "stats/summary.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

using record::BenchReport;
using record::BenchRow;
using record::Outcome;

std::vector<const BenchRow*> passed(const BenchReport& report) {
  std::vector<const BenchRow*> rows;
  for (const BenchRow& row : report.bench) {
    if (row.outcome == Outcome::kPass && !row.samples.empty()) rows.push_back(&row);
  }
  return rows;
}

double worst_guard(const BenchReport& report, const std::string& name) {
  double worst = 0;
  for (const BenchRow& row : report.bench) {
    const auto found = row.guards.find(name);
    if (found != row.guards.end()) worst = std::max(worst, found->second);
  }
  return worst;
}

std::string percent(double fraction) {
  return fraction < 0.0995 ? fmt::format("{:.1f} %", 100 * fraction) : fmt::format("{:.0f} %", 100 * fraction);
}

}  // namespace

std::string bench_table(const BenchReport& report, std::size_t width) {
  std::vector<std::string> labels;
  for (const BenchRow& row : report.bench) labels.push_back(row.label);
  const SplitLabels split = split_labels(labels);
  const bool one_case =
      std::all_of(split.varying.begin(), split.varying.end(), [](const auto& v) { return v.empty(); });
  std::vector<std::string> header = {"subject", "median", "p10",       "p90",      "min",
                                     "samples", "rate",   "bandwidth", "roofline", "noise"};
  if (!one_case) header.insert(header.begin(), "case");
  if (!report.versus.empty()) header.push_back("vs " + report.versus);
  std::vector<std::vector<std::string>> cells;
  std::string failures;
  for (std::size_t i = 0; i < report.bench.size(); ++i) {
    const BenchRow& row = report.bench[i];
    std::vector<std::string> line;
    if (!one_case) line.push_back(split.varying[i]);
    line.push_back(row.subject);
    if (row.outcome != Outcome::kPass) {
      failures += fmt::format("{}, {}: {} {}\n", row.label, row.subject, record::name_of(row.outcome), row.detail);
      line.push_back(std::string(record::name_of(row.outcome)));
      cells.push_back(std::move(line));
      continue;
    }
    line.insert(
        line.end(),
        {format_duration(row.median), format_duration(row.p10), format_duration(row.p90), format_duration(row.min),
         std::to_string(row.samples.size()), format_flops(row.flops), format_bandwidth(row.bandwidth),
         row.roofline_fraction > 0 ? percent(row.roofline_fraction) : std::string("-"), percent(row.noise)});
    if (row.ratio) line.push_back(fmt::format("{:.3f}x [{:.3f}, {:.3f}]", *row.ratio, *row.ratio_low, *row.ratio_high));
    cells.push_back(std::move(line));
  }
  std::string above;
  if (!split.common.empty()) above = fmt::format("{}: {}\n", one_case ? "Case" : "All cases", split.common);
  const TableLayout layout{.width = width,
                           .expendable = {"p10", "p90", "min", "samples", "bandwidth", "noise", "roofline"},
                           .factor_constants = true};
  return above + lay_out_table(header, cells, layout) + (failures.empty() ? "" : "\n" + failures);
}

namespace {

// How much faster one subject is than another, over the cases that both passed: the logarithm of the geometric mean of
// the ratios, and the half-width of its 95 % interval (NaN where a case has one session only).
struct Advantage {
  double log_ratio = 0, half_width = 0;
  std::size_t cases = 0;

  void add(double log_of_case, double half_width_of_case) {
    log_ratio += log_of_case;
    half_width = std::hypot(half_width, half_width_of_case);
    ++cases;
  }
  void finish() {
    log_ratio /= static_cast<double>(cases);
    half_width /= static_cast<double>(cases);
  }
};

std::vector<std::string> subjects_of(const std::vector<const BenchRow*>& rows) {
  std::vector<std::string> names;
  for (const BenchRow* row : rows) {
    if (std::find(names.begin(), names.end(), row->subject) == names.end()) names.push_back(row->subject);
  }
  return names;
}

Advantage paired_advantage(const std::vector<const BenchRow*>& rows, const std::string& subject) {
  Advantage all;
  for (const BenchRow* row : rows) {
    if (row->subject != subject || !row->ratio || !(*row->ratio_low > 0)) continue;
    all.add(std::log(*row->ratio), (std::log(*row->ratio_high) - std::log(*row->ratio_low)) / 2);
  }
  if (all.cases > 0) all.finish();
  return all;
}

Advantage unpaired_advantage(const std::vector<const BenchRow*>& rows, const std::string& subject,
                             const std::string& other) {
  Advantage all;
  for (const BenchRow* row : rows) {
    if (row->subject != subject) continue;
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const BenchRow* one) {
      return one->subject == other && one->label == row->label;
    });
    if (found == rows.end()) continue;
    all.add(std::log((*found)->median / row->median),
            std::hypot(record::smallest_visible(*row), record::smallest_visible(**found)));
  }
  if (all.cases > 0) all.finish();
  return all;
}

std::string sentence(const std::string& subject, const std::string& other, Advantage by) {
  const bool faster = by.log_ratio >= 0;
  const double ratio = std::exp(std::fabs(by.log_ratio));
  const double spread = ratio * std::sinh(by.half_width);
  const int digits = ratio < 10 ? 2 : 1;
  const std::string times = std::isfinite(spread) ? fmt::format("{:.{}f} ± {:.{}f}", ratio, digits, spread, digits)
                                                  : fmt::format("about {:.{}f}", ratio, digits);
  if (std::isfinite(spread) && std::fabs(by.log_ratio) <= by.half_width)
    return fmt::format("  {} and {}: no difference can be seen ({} times)\n", subject, other, times);
  return fmt::format("  {} ran {} times faster than {}\n", faster ? subject : other, times, faster ? other : subject);
}

}  // namespace

std::string summary_words(const BenchReport& report) {
  const std::vector<const BenchRow*> rows = passed(report);
  const std::vector<std::string> subjects = subjects_of(rows);
  std::string best = report.versus, lines;
  std::size_t cases = 0;
  if (best.empty()) {
    const auto fastest = std::max_element(subjects.begin(), subjects.end(), [&](const auto& a, const auto& b) {
      return unpaired_advantage(rows, b, a).log_ratio > 0;
    });
    if (fastest != subjects.end()) best = *fastest;
  }
  for (const std::string& subject : subjects) {
    if (subject == best) continue;
    const Advantage by =
        report.versus.empty() ? unpaired_advantage(rows, best, subject) : paired_advantage(rows, subject);
    if (by.cases == 0) continue;
    cases = std::max(cases, by.cases);
    lines += report.versus.empty() ? sentence(best, subject, by) : sentence(subject, best, by);
  }
  if (lines.empty()) return lines;
  const std::string over = cases > 1 ? fmt::format(", geometric mean of {} cases", cases) : std::string();
  return fmt::format("Summary (95 % interval{}{})\n{}", report.versus.empty() ? ", not paired" : ", paired", over,
                     lines);
}

std::string noise_words(const BenchReport& report) {
  const std::vector<const BenchRow*> rows = passed(report);
  if (rows.empty()) return {};
  std::vector<double> noises, visible;
  const BenchRow* noisiest = rows[0];
  for (const BenchRow* row : rows) {
    const double smallest = record::smallest_visible(*row);
    if (!std::isfinite(smallest)) continue;
    noises.push_back(row->noise);
    visible.push_back(smallest);
    if (!(smallest <= record::smallest_visible(*noisiest))) noisiest = row;
  }
  if (noises.empty())
    return "Only one session was measured: the noise is not known. Give it more time (--time-limit).\n";
  std::string text = fmt::format(
      "Noise {} between sessions (median over rows): a difference under {} cannot be seen here; worst {} for {}, {}.\n",
      percent(stats::median(noises)), percent(stats::median(visible)), percent(record::smallest_visible(*noisiest)),
      noisiest->subject, noisiest->label);
  const double steal = worst_guard(report, "steal_fraction"), foreign = worst_guard(report, "foreign_load");
  if (steal > report.protocol.max_steal || foreign > report.protocol.max_foreign_load) {
    text += fmt::format(
        "Disturbed: other programs used up to {} of the processors, the hypervisor took up to {}. Too "
        "few undisturbed sessions were left for that case.\n",
        percent(foreign), percent(steal));
  }
  if (const double dropped = worst_guard(report, "dropped_sessions"); dropped > 0) {
    text += fmt::format("Up to {:.0f} sessions of a case were disturbed, dropped and repeated.\n", dropped);
  }
  if (!report.versus.empty()) {
    text +=
        "Ratios are paired (interleaved in the same sessions); brackets: 95 % interval. No error control over many "
        "comparisons: to decide, run `ridge compare` or a campaign.\n";
  } else {
    text += "Subjects ran interleaved; for ratios with intervals name one with --vs.\n";
  }
  return text;
}

std::string earlier_words(const std::vector<service::EarlierRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const service::EarlierRow& row : rows) {
    const char* const verdict = row.slower       ? "SLOWER"
                                : !row.differs() ? "cannot tell"
                                : row.ratio > 1  ? "faster"
                                                 : "slower, within tolerance";
    cells.push_back({row.label, row.subject, format_duration(row.before), format_duration(row.now),
                     fmt::format("{:.3f}x", row.ratio), fmt::format("+-{}", percent(row.noise)), verdict});
  }
  return table({"case", "subject", "before", "now", "speed", "noise", ""}, cells) +
         "Not paired: the two runs met the machine at different times, and whatever changed between them (clock, "
         "neighbours, libraries) is in the figure. For a claim, measure both together with --vs.\n";
}

}  // namespace ridge::cli
