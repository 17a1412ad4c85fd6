#include "record/bench_table.h"

#include <fmt/format.h>

namespace ridge::record {
namespace {

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

std::string number(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : std::string(); }

}  // namespace

std::string bench_csv(const std::vector<BenchRow>& rows) {
  std::string text =
      "label,implementation,Check,median_s,p10_s,p90_s,min_s,samples,FLOP/s,B/s,roofline_fraction,ratio,ratio_low,"
      "ratio_high\n";
  for (const BenchRow& row : rows) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", quoted(row.label), quoted(row.subject),
                        name_of(row.outcome), row.median, row.p10, row.p90, row.min, row.samples.size(), row.flops,
                        row.bandwidth, row.roofline_fraction, number(row.ratio), number(row.ratio_low),
                        number(row.ratio_high));
  }
  return text;
}

std::string bench_markdown(const std::vector<BenchRow>& rows) {
  std::string text =
      "| case | implementation | check | median (us) | GFLOP/s | GB/s | roofline | ratio |\n"
      "|---|---|---|---:|---:|---:|---:|---:|\n";
  for (const BenchRow& row : rows) {
    text += fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} % | {} |\n", row.label, row.subject,
                        name_of(row.outcome), row.median * 1e6, row.flops / 1e9, row.bandwidth / 1e9,
                        100 * row.roofline_fraction, row.ratio ? fmt::format("{:.3f}", *row.ratio) : std::string("-"));
  }
  return text;
}

}  // namespace ridge::record
