#include "record/bench_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace ridge::record {
namespace {

std::string number(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : std::string(); }

// The parameters of the cases, in the order in which they come up.
std::vector<std::string> parameter_names(const std::vector<Case>& cases) {
  std::vector<std::string> names;
  for (const Case& one : cases) {
    for (const Param& param : one.params) {
      if (std::ranges::find(names, param.name) == names.end()) names.push_back(param.name);
    }
  }
  return names;
}

// A label is what a case is without its operator; one that is none has no parameters.
Case case_of(const BenchRow& row) {
  const auto parsed = parse_case("row " + row.label);
  return parsed ? *parsed : Case{};
}

}  // namespace

std::string bench_csv(const std::vector<BenchRow>& rows) {
  std::string text =
      "label,implementation,Check,median_s,p10_s,p90_s,min_s,samples,sessions,noise,FLOP/s,B/s,roofline_fraction,"
      "ratio,ratio_low,ratio_high";
  std::vector<Case> cases;
  for (const BenchRow& row : rows) cases.push_back(case_of(row));
  const std::vector<std::string> names = parameter_names(cases);
  for (const std::string& name : names) text += "," + csv_cell(name);
  text += "\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BenchRow& row = rows[i];
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", csv_cell(row.label), csv_cell(row.subject),
                        name_of(row.outcome), row.median, row.p10, row.p90, row.min, row.samples.size(), row.sessions,
                        row.noise, row.flops, row.bandwidth, row.roofline_fraction, number(row.ratio),
                        number(row.ratio_low), number(row.ratio_high));
    for (const std::string& name : names) text += "," + csv_cell(cases[i].get(name));
    text += "\n";
  }
  return text;
}

std::string bench_markdown(const std::vector<BenchRow>& rows) {
  std::string text =
      "| case | implementation | check | median (us) | p10 | p90 | GFLOP/s | GB/s | roofline | noise | ratio (95 %) |\n"
      "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const BenchRow& row : rows) {
    if (row.outcome != Outcome::kPass) {
      text += fmt::format("| {} | {} | {} | - | - | - | - | - | - | - | - |\n", row.label, row.subject,
                          name_of(row.outcome));
      continue;
    }
    const std::string ratio = row.ratio
                                  ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", *row.ratio, *row.ratio_low, *row.ratio_high)
                                  : std::string("-");
    const std::string share = row.roofline_fraction > 0 ? fmt::format("{:.1f} %", 100 * row.roofline_fraction) : "-";
    text += fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {} | {:.1f} % | {} |\n",
                        row.label, row.subject, name_of(row.outcome), row.median * 1e6, row.p10 * 1e6, row.p90 * 1e6,
                        row.flops / 1e9, row.bandwidth / 1e9, share, 100 * row.noise, ratio);
  }
  return text;
}

double smallest_visible(const BenchRow& row) {
  if (row.sessions < 2) return std::nan("");
  constexpr double kHalfWidth = 1.96 * 1.2533;  // of a mean; the median of normal values is wider by sqrt(pi / 2)
  return std::expm1(kHalfWidth * row.noise / std::sqrt(static_cast<double>(row.sessions)));
}

}  // namespace ridge::record
