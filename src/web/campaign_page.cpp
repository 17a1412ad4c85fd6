#include "web/campaign_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/charts.h"
#include "report/escape.h"
#include "report/html_parts.h"
#include "report/numbers.h"
#include "report/shape_names.h"
#include "report/words.h"

namespace ridge::web {
namespace {

using report::escape_html;
using report::Model;

std::string heading(const record::CampaignCard& card, std::string_view words) {
  return fmt::format("<p class=\"crumb\">{} › {} {}</p>\n<h1>{}</h1>\n", link("/", "Campaigns"), escape_html(card.id),
                     report::badge(card.state), escape_html(words));
}

std::string warning(const record::CampaignCard& card) {
  if (card.problem.empty()) return {};
  return fmt::format("<div class=\"warning\" role=\"note\"><p><b>Take care.</b> {}</p></div>\n",
                     escape_html(card.problem));
}

std::string now_section(const record::CampaignCard& card, const Model& model) {
  report::Facts facts = {{"State", card.state}, {"Phase", card.phase}};
  if (card.state != "running" && card.state != "finished") facts.emplace_back("Next", card.action);
  facts.emplace_back("Time used", card.budget_seconds > 0
                                      ? fmt::format("{} of {}", report::duration_text(card.active_seconds),
                                                    report::duration_text(card.budget_seconds))
                                      : report::duration_text(card.active_seconds));
  if (card.usage) facts.emplace_back("Language model", report::usage_words(*card.usage));
  facts.emplace_back("Rounds", report::rounds_words(model));
  facts.emplace_back("Last change (UTC)", minute(card.updated));
  return report::section("now", "Now", report::paragraph(model.detail) + report::fact_list(facts));
}

// A round by hand with values of tunables; a changed source goes through the command line.
std::string propose_form(const std::string& path) {
  const auto field = [](std::string_view name, std::string_view words, std::string_view example, int size) {
    return fmt::format("<label>{} <input name=\"{}\" placeholder=\"{}\" size=\"{}\" autocomplete=\"off\"></label>\n",
                       words, name, example, size);
  };
  return fmt::format("<form class=\"control\" data-post=\"{}/propose\">\n", path) +
         field("defines", "Values", "MR=6,NV=2", 14) + field("title", "What changes", "a taller tile", 18) +
         field("reason", "Why it should be faster", "each row of B is used six times", 28) +
         field("expect", "By", "8%", 5) + "<button type=\"submit\">Propose a round</button></form>\n";
}

std::string control_section(const record::CampaignCard& card) {
  const std::string path = escape_html(campaign_path(card.id));
  const auto button = [&](std::string_view what, std::string_view words, std::string_view ask) {
    return fmt::format("<button type=\"button\" data-post=\"{}/{}\" data-ask=\"{}\">{}</button>\n", path, what, ask,
                       words);
  };
  std::string html;
  if (card.state == "running")
    html += button("pause", "Pause", "") + button("stop", "Stop", "Stop the campaign? It measures once more and ends.");
  if (card.state == "paused" || card.state == "stopped") html += button("resume", "Go on", "");
  if (card.state == "paused" || card.state == "stopped") html += propose_form(path);
  if (card.state != "draft") {
    html += fmt::format(
        "<form data-post=\"{}/extend\"><label>More time <input name=\"budget\" placeholder=\"10m\" size=\"6\" "
        "autocomplete=\"off\"></label> <button type=\"submit\">Extend</button></form>\n",
        path);
  }
  if (html.empty()) return {};
  return report::section("control", "Control",
                         "<div class=\"control\">\n" + html + "</div>\n<p id=\"said\" role=\"status\"></p>\n");
}

std::string rounds_section(const record::CampaignCard& card, const Model& model, const http::Request& request) {
  const auto total = static_cast<std::int64_t>(model.rounds.size());
  const std::int64_t pages = (total + kRoundsOfAPage - 1) / kRoundsOfAPage;
  const std::int64_t page = page_number(request, pages);
  // The latest first.
  const std::int64_t end = total - (page - 1) * kRoundsOfAPage, begin = std::max<std::int64_t>(end - kRoundsOfAPage, 0);
  report::Table table({{"Round", true}, {"Verdict"}, {"What was tried"}, {"Result", true}, {"Why"}});
  for (std::int64_t i = end - 1; i >= begin; --i) {
    const record::ReportRound& round = model.rounds[static_cast<std::size_t>(i)];
    table.row({fmt::format("<a class=\"row\" href=\"{0}\" aria-label=\"Round {1}\">{1}</a>",
                           escape_html(round_path(card.id, round.round)), round.round),
               report::badge(report::round_state(round)), escape_html(report::round_title(round)),
               report::not_measured(round) ? std::string("–") : escape_html(report::result_words(round)),
               escape_html(report::round_reason(round))});
  }
  std::string body = table.str();
  if (body.empty()) body = report::paragraph("No round has begun.");
  const std::string links =
      pager(campaign_path(card.id), page, pages, fmt::format("{} to {} of {}", begin + 1, end, total));
  return report::section("rounds", "Rounds", links + body + links);
}

std::string time_section(const Model& model) {
  return report::section("time", "Time",
                         report::wide_figure("When what was done", report::timeline_chart(model)) +
                             report::figure("Where the active time went", report::time_chart(model)));
}

std::string notes_section(const Model& model) {
  report::Table notes({{"Time"}, {"Event"}, {"What"}});
  for (const auto& note : model.notes)
    notes.row({escape_html(note.time), escape_html(note.kind), escape_html(note.text)});
  if (notes.str().empty()) return {};
  return report::section("notes", "Outside of the rounds", notes.str());
}

}  // namespace

Page campaign_page(const record::CampaignCard& card, const Model& recorded, const http::Request& request,
                   bool control) {
  const report::ShapeNames names = report::shape_names(recorded);
  const Model model = report::with_short_labels(recorded, names);
  Page page{card.id, "/", card.id, true, {}};
  page.main_html = heading(card, report::headline(model)) + warning(card);
  if (card.state == "running") page.main_html += "<p class=\"doing\">Now: " + doing_html(card) + "</p>\n";
  page.main_html += report::answers_html(model) + now_section(card, model);
  if (control) page.main_html += control_section(card);
  page.main_html += report::section("stands", "Where the kernel stands", report::standing_html(model, names.shared())) +
                    rounds_section(card, model, request) + time_section(model) + notes_section(model);
  page.main_html += "<p>" + link(campaign_path(card.id) + "/rules", "Every written rule with its verdict") + "</p>\n";
  return page;
}

Page rules_page(const record::CampaignCard& card, const record::RuleTable& rules, std::optional<std::int64_t> round) {
  Page page{"Rules of " + card.id, "/", card.id, false, {}};
  const std::string up = round ? round_path(card.id, *round) : campaign_path(card.id);
  page.main_html = fmt::format(
      "<p class=\"crumb\">{} › <a id=\"up\" href=\"{}\">{}</a></p>\n<h1>Written rules{}</h1>\n", link("/", "Campaigns"),
      escape_html(up), escape_html(card.id), round ? fmt::format(" in round {}", *round) : std::string());
  page.main_html += report::paragraph(rules.ok ? "No rule blocks." : "A rule blocks: its row says why.");
  report::Table table({{"Rule", true}, {"What it asks"}, {"Verdict"}, {"What that rests on"}});
  for (const record::RuleRow& rule : rules.rules) {
    table.row({std::to_string(rule.rule), escape_html(rule.name), report::badge(record::name_of(rule.verdict)),
               escape_html(rule.evidence)});
  }
  page.main_html += table.str();
  return page;
}

Page broken_page(const record::CampaignCard& card) {
  Page page{card.id, "/", card.id, true, {}};
  page.main_html =
      heading(card, card.state == "reading" ? "This campaign is being read" : "This campaign cannot be read") +
      warning(card);
  return page;
}

}  // namespace ridge::web
