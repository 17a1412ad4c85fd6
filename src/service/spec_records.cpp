#include "service/spec_records.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::service {
namespace {

std::string shown(const hardware::Fact* fact) {
  if (fact == nullptr || fact->state == hardware::State::kNone) return "-";
  return fact->state == hardware::State::kUnknown ? "UNKNOWN" : fact->value.text;
}

void add(record::LintReport& report, const std::vector<hardware::Finding>& findings) {
  for (const hardware::Finding& f : findings) report.findings.push_back({f.file, f.line, f.rule, f.message});
}

}  // namespace

record::SpecFact fact_of(const hardware::Fact& fact, const hardware::Wiki& wiki) {
  record::SpecFact record;
  record.metric = fact.metric->name;
  record.state = fact.state == hardware::State::kKnown  ? "known"
                 : fact.state == hardware::State::kNone ? "none"
                                                        : "unknown";
  record.note = fact.reason;
  record.citation = fact.citation();
  record.base_unit = hardware::to_string(fact.metric->dimension);
  if (fact.state != hardware::State::kKnown) return record;
  record.value = fact.value.text;
  record.base_value = fact.value.value;
  record.from = fact.from;
  record.evidence = hardware::to_string(fact.evidence);
  record.formula = fact.formula;
  record.conflict = fact.conflict_status();
  for (const hardware::OtherSource& other : fact.also) record.also.push_back({other.value.text, other.from});
  const auto page = wiki.pages().find(fact.from.substr(0, fact.from.find(':')));
  if (page != wiki.pages().end()) {
    const auto row = wiki.resolve(fact.from, record.metric);
    record.document = fmt::format("{}, {}, {}{}", page->second.title, page->second.publisher, page->second.version,
                                  row ? ", " + (*row)->where : "");
  }
  return record;
}

record::SpecSheet sheet_of(const hardware::Spec& spec, const hardware::Wiki& wiki) {
  record::SpecSheet sheet{spec.name, spec.product, spec.vendor, spec.kind, spec.architecture, spec.target, {}};
  for (const hardware::Fact& fact : spec.facts) sheet.facts.push_back(fact_of(fact, wiki));
  return sheet;
}

record::SpecSummary summary_of(const hardware::Spec& spec) {
  record::SpecSummary summary{spec.name, spec.product, spec.vendor, spec.kind, spec.architecture, spec.target};
  for (const hardware::Fact& fact : spec.facts) {
    summary.known += fact.state == hardware::State::kKnown ? 1 : 0;
    summary.unknown += fact.state == hardware::State::kUnknown ? 1 : 0;
  }
  return summary;
}

std::vector<record::SpecDifference> differences_of(const hardware::Spec& left, const hardware::Spec& right) {
  std::vector<record::SpecDifference> differences;
  for (const hardware::Metric& metric : hardware::metrics()) {
    const hardware::Fact *a = left.find(metric.name), *b = right.find(metric.name);
    record::SpecDifference d{std::string(metric.name), shown(a), shown(b), {}};
    const double x = left.value_or(metric.name, 0), y = right.value_or(metric.name, 0);
    if (x > 0 && y > 0) d.ratio = y / x;
    if (d.left != d.right && d.ratio.value_or(0) != 1.0) differences.push_back(std::move(d));
  }
  return differences;
}

record::LintReport report_of(const hardware::Database& database) {
  record::LintReport report;
  for (const hardware::Spec& spec : database.specs()) {
    const record::SpecSummary summary = summary_of(spec);
    ++report.products;
    report.facts += summary.known;
    report.unknown += summary.unknown;
    for (const hardware::Fact& fact : spec.facts) {
      if (fact.state == hardware::State::kUnknown)
        report.gaps.push_back(spec.name + " " + std::string(fact.metric->name));
    }
  }
  add(report, hardware::lint_database(database));
  return report;
}

void add_text(record::LintReport& report, const hardware::TextLint& lint) {
  ++report.files;
  report.citations += lint.citations;
  report.gaps.insert(report.gaps.end(), lint.gaps.begin(), lint.gaps.end());
  add(report, lint.findings);
}

}  // namespace ridge::service
