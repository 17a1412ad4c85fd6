#include "web/device_page.h"

#include <fmt/format.h>

#include <map>

#include "hardware/spec.h"
#include "http/url.h"
#include "report/ceilings.h"
#include "report/escape.h"
#include "report/html_parts.h"
#include "report/numbers.h"
#include "report/words.h"

namespace ridge::web {
namespace {

using report::escape_html;

std::string ceilings_section(const report::Model& model) {
  report::Table table({{"Measured ceiling"}, {"Value", true}, {"Threads", true}, {"Samples", true}, {"Method"}});
  for (const record::Ceiling& ceiling : model.ceilings) {
    table.row({escape_html(ceiling.name), escape_html(report::rate_text(ceiling.value, ceiling.unit)),
               std::to_string(ceiling.threads), std::to_string(ceiling.samples.size()), escape_html(ceiling.method)});
  }
  report::Table cited({{"Cited peak"}, {"Value", true}, {"Source"}});
  for (const report::CitedPeak& peak : report::cited_peaks(model))
    cited.row({escape_html(peak.metric), escape_html(peak.words), escape_html(peak.source)});
  const std::string html = table.str() + cited.str();
  return report::section("ceilings", "Limits", html.empty() ? report::paragraph("None is recorded yet.") : html);
}

// The baseline's calibration and those that followed: whether the machine became noisier.
std::string noise_section(const journal::State& state) {
  report::Table table({{"When (UTC)"},
                       {"Noise of a session", true},
                       {"Smallest gain decided", true},
                       {"Bias", true},
                       {"Sessions", true},
                       {"Judgement"}});
  const auto row = [&](const std::string& time, const record::Calibration& calibration) {
    table.row({escape_html(minute(time)), report::percent_text(calibration.noise),
               report::percent_text(calibration.detectable), report::gain_text(calibration.bias),
               std::to_string(calibration.sessions), escape_html(calibration.reason)});
  };
  if (state.baseline) row(state.baseline_at, state.baseline->calibration);
  for (const journal::Occurrence& one : state.occurrences)
    if (const auto* again = std::get_if<record::Calibrated>(&one.what)) row(one.time, again->calibration);
  return report::section("noise", "Noise over time",
                         table.str().empty() ? report::paragraph("Not measured yet.") : table.str());
}

std::string facts_section(const report::Model& model) {
  report::Table facts({{"Fact"}, {"Value"}});
  for (const auto& [name, value] : model.environment.facts) facts.row({escape_html(name), escape_html(value)});
  return report::section("environment", "The machine as it was found", facts.str());
}

std::string fact_value(const hardware::Fact& fact) {
  if (fact.state == hardware::State::kKnown) return fact.value.text;
  return fact.state == hardware::State::kNone ? "none" : "unknown";
}

std::string spec_section(const std::string& product, const std::filesystem::path& data) {
  if (product.empty() || data.empty()) return {};
  const Result<hardware::Database> database = hardware::Database::open(data);
  if (!database) return report::section("spec", "Stated by its documents", report::paragraph(database.error().text()));
  const Result<const hardware::Spec*> spec = database->find(product);
  if (!spec) return report::section("spec", "Stated by its documents", report::paragraph(spec.error().text()));
  report::Table table({{"Fact"}, {"Value", true}, {"Kind"}, {"From"}, {"Note"}});
  for (const hardware::Fact& fact : (*spec)->facts) {
    table.row({escape_html(fact.metric->name), escape_html(fact_value(fact)),
               escape_html(hardware::to_string(fact.evidence)), escape_html(fact.from),
               escape_html(fact.conflict.empty() ? fact.reason : fact.conflict)});
  }
  return report::section("spec", "Stated by its documents: " + (*spec)->product, table.str());
}

}  // namespace

Page devices_page(const std::vector<record::CampaignCard>& cards) {
  Page page{"Devices", "/device", "", true, "<h1>Devices</h1>\n"};
  std::map<std::string, std::pair<const record::CampaignCard*, int>> devices;
  for (const record::CampaignCard& card : cards) {
    if (card.device.empty()) continue;
    auto& [latest, count] = devices[card.device];
    ++count;
    if (latest == nullptr || card.updated > latest->updated) latest = &card;
  }
  report::Table table({{"Device"}, {"Backend"}, {"Campaigns", true}, {"As the latest of them found it"}});
  for (const auto& [name, found] : devices) {
    const auto& [latest, count] = found;
    table.row({escape_html(name), escape_html(latest->backend), std::to_string(count),
               fmt::format("<a class=\"row\" href=\"/device/{}\">{}</a>", escape_html(http::encoded_part(latest->id)),
                           escape_html(latest->id))});
  }
  page.main_html += table.str().empty() ? report::paragraph("No campaign has looked at its machine yet.") : table.str();
  return page;
}

Page device_page(const record::CampaignCard& card, const report::Model& model, const journal::State& state,
                 const std::filesystem::path& data) {
  Page page{report::machine_name(model), "/device", card.id, true, {}};
  page.main_html =
      fmt::format("<p class=\"crumb\"><a id=\"up\" href=\"/device\">Devices</a> › as {} found it</p>\n<h1>{}</h1>\n",
                  link(campaign_path(card.id), card.id), escape_html(report::machine_name(model)));
  page.main_html +=
      ceilings_section(model) + noise_section(state) + spec_section(model.spec.gpu, data) + facts_section(model);
  return page;
}

}  // namespace ridge::web
