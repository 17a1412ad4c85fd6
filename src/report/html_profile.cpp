// What a profiler saw of a build.
#include <fmt/format.h>

#include <algorithm>

#include "report/escape.h"
#include "report/html_parts.h"
#include "report/numbers.h"

namespace ridge::report {
namespace {

std::string metric_text(const record::ProfileMetric& metric, double value) {
  if (metric.unit == "s") return latency_text(value);
  if (metric.unit == "B" || metric.unit == "B/s") return speed_unit(value, metric.unit).text(value);
  return plain(value);
}

const record::ProfileMetric* find_metric(const record::Profiled* profiled, const std::string& name) {
  if (profiled == nullptr || !profiled->report) return nullptr;
  const auto& metrics = profiled->report->metrics;
  const auto found = std::ranges::find(metrics, name, &record::ProfileMetric::name);
  return found == metrics.end() ? nullptr : &*found;
}

std::string metric_table(const record::ProfileReport& report, const record::Profiled* before) {
  Table table(
      {{"Measured"}, {"Value", true}, {"Range over launches", true}, {"Profile before", true}, {"Tool's name"}});
  for (const record::ProfileMetric& metric : report.metrics) {
    const record::ProfileMetric* old = find_metric(before, metric.name);
    table.row({escape_html(metric.name), escape_html(metric_text(metric, metric.median)),
               escape_html(metric_text(metric, metric.low) + " to " + metric_text(metric, metric.high)),
               old == nullptr ? std::string("–") : escape_html(metric_text(*old, old->median)), code(metric.source)});
  }
  return table.str();
}

std::string limit_table(const record::ProfileReport& report) {
  Table table({{"What limits it"}, {"May gain", true}, {"Evidence"}, {"What to do"}});
  for (const record::ProfileHypothesis& one : report.hypotheses)
    table.row({escape_html(one.name), gain_text(one.gain), escape_html(one.evidence), escape_html(one.action)});
  return table.str();
}

}  // namespace

std::string profile_panel(const record::Profiled& profiled, const record::Profiled* before) {
  std::string html = fact_list(
      {{"Profiled", fmt::format("the incumbent of round {}, build {}", profiled.round, short_id(profiled.artifact))},
       {"Asked for by", profiled.trigger}});
  if (!profiled.report) return html + paragraph("No profile: " + profiled.note);
  const record::ProfileReport& report = *profiled.report;
  html += paragraph(report.verdict, "why") + limit_table(report) + metric_table(report, before);
  if (!report.missing.empty())
    html += paragraph(fmt::format("{} did not say: {}", report.tool, fmt::join(report.missing, "; ")), "does");
  return html;
}

}  // namespace ridge::report
