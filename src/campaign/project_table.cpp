#include "campaign/project_table.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "campaign/columns.h"
#include "campaign/manifest.h"
#include "campaign/naming.h"

namespace ridge::campaign {
namespace {

double number_or(const std::string& text, double fallback) {
  double value = fallback;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : fallback;
}

bool is_listed(const std::string& list, const std::string& name) {
  const std::vector<std::string> names = csv_cells(list);
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + csv_cell(cell);
  return line;
}

}  // namespace

void describe_table(record::CampaignSpec& spec, const std::vector<std::string>& columns,
                    const std::vector<std::string>& metrics, double min_snr_db, double snr_margin_db) {
  spec.extra[kTableColumns] = yaml_text(csv_line(columns));
  spec.extra[kTableMetrics] = yaml_text(csv_line(metrics));
  if (min_snr_db > 0) spec.extra[kSnrFloor] = fmt::format("{}", min_snr_db);
  spec.extra[kSnrMargin] = fmt::format("{}", snr_margin_db > 0 ? snr_margin_db : NoiseLimits::kMargin);
}

std::string primary_metric_problem(const record::CampaignSpec& spec) {
  const std::string columns = extra_text(spec, kTableColumns), metrics = extra_text(spec, kTableMetrics);
  if (columns.empty()) return metric_problem(spec.primary_metric, benchmark_header(spec.target_cases));
  const Result<record::Metric> metric = record::parse_metric(spec.primary_metric);
  if (!metric) return metric.error().message;
  const bool there = metric->quantity == record::Quantity::kColumn ? is_listed(columns, metric->column)
                                                                   : gives_metric(spec, metric->name);
  if (there) return {};
  return fmt::format(
      "the benchmark's table does not give primary_metric {}: it gives {}, or column:NAME:higher or :lower "
      "of its columns {}",
      spec.primary_metric, metrics, columns);
}

bool gives_metric(const record::CampaignSpec& spec, const std::string& name) {
  return is_listed(extra_text(spec, kTableMetrics), name);
}

std::optional<record::Metric> project_metric(const record::CampaignSpec& spec) {
  if (!spec.extra.contains(kTableMetrics)) return std::nullopt;
  const Result<record::Metric> metric = record::parse_metric(spec.primary_metric);
  return metric ? std::optional(*metric) : std::nullopt;
}

double noise_floor(const record::CampaignSpec& spec) {
  return number_or(extra_text(spec, kSnrFloor), NoiseLimits().floor);
}

NoiseLimits noise_limits(const State& state) {
  NoiseLimits limits;
  limits.floor = noise_floor(state.spec());
  limits.margin = number_or(extra_text(state.spec(), kSnrMargin), limits.margin);
  if (state.baseline) limits.baseline = worst_noise(state.baseline->evaluation.sessions);
  return limits;
}

}  // namespace ridge::campaign
