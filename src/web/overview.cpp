#include "web/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/text.h"
#include "report/charts.h"
#include "report/escape.h"
#include "report/html_parts.h"
#include "report/numbers.h"
#include "report/words.h"

namespace ridge::web {
namespace {

using report::escape_html;
using Card = record::CampaignCard;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has_words(const Card& card, const std::string& query) {
  const std::string all =
      lower(fmt::format("{} {} {} {} {} {}", card.id, card.op, card.backend, card.device, card.state, card.proposer));
  const std::vector<std::string> words = split(lower(query), ' ');
  return std::ranges::all_of(words, [&](const std::string& word) { return all.find(word) != std::string::npos; });
}

// What comes first; equal ones by name.
void sort_cards(std::vector<Card>& cards, std::string_view by) {
  const auto before = [by](const Card& a, const Card& b) {
    if (by == "speed" && a.speedup != b.speedup) return a.speedup.value_or(0) > b.speedup.value_or(0);
    if (by == "share" && a.share != b.share) return a.share.value_or(0) > b.share.value_or(0);
    if (by == "rounds" && a.rounds != b.rounds) return a.rounds > b.rounds;
    if (by == "time" && a.active_seconds != b.active_seconds) return a.active_seconds > b.active_seconds;
    if (by == "state" && a.state != b.state) return a.state < b.state;
    if ((by.empty() || by == "updated") && a.updated != b.updated) return a.updated > b.updated;
    return a.id < b.id;
  };
  std::ranges::stable_sort(cards, before);
}

std::string filter_form(const std::vector<Card>& all, const http::Request& request) {
  std::set<std::string> states;
  for (const Card& card : all) states.insert(card.state);
  std::vector<Choice> state_choices = {{"", "any"}};
  for (const std::string& state : states) state_choices.emplace_back(state, state);
  const std::string q = escape_html(request.parameter("q"));
  return fmt::format(
      "<form class=\"filter\" role=\"search\" action=\"/\" method=\"get\">\n<label>Search <input type=\"search\" "
      "name=\"q\" value=\"{}\" placeholder=\"operator, device, name\"></label>\n{}{}<button "
      "type=\"submit\">Show</button>\n</form>\n",
      q, select_field("state", "State", state_choices, request.parameter("state")),
      select_field("sort", "Sort by",
                   {{"updated", "last change"},
                    {"name", "name"},
                    {"speed", "speed-up"},
                    {"share", "share of the limit"},
                    {"rounds", "rounds"},
                    {"time", "time"},
                    {"state", "state"}},
                   request.parameter("sort")));
}

std::string now_cell(const Card& card) {
  if (!card.problem.empty()) return escape_html(card.problem);
  if (card.state == "running") return doing_html(card);
  if (card.state == "reading") return "being read";
  if (card.state == "finished") return "done";
  return escape_html(card.action.empty() || card.action == "nothing" ? card.phase : "next: " + card.action);
}

std::string cost_words(const Card& card) {
  std::string text = report::duration_text(card.active_seconds);
  if (card.budget_seconds > 0) text += " of " + report::duration_text(card.budget_seconds);
  if (card.usage && card.usage->usd) text += fmt::format(", {:.2f} USD", *card.usage->usd);
  return text;
}

// Figures with what belongs to them on a line below.
std::string speed_cell(const Card& card) {
  if (!card.speedup) return "–";
  const record::Effect effect{"", *card.speedup, card.low.value_or(*card.speedup), card.high.value_or(*card.speedup), 0,
                              0};
  return fmt::format("<b>{}</b><br><small>{}</small>", report::ratio_text(effect.ratio), report::interval_text(effect));
}

// Day and minute, one below the other where there is no room.
std::string time_cell(const std::string& time) {
  const std::string text = minute(time);
  if (text.size() < 16) return escape_html(text);
  return fmt::format("<span class=\"word\">{}</span> {}", escape_html(text.substr(0, 10)),
                     escape_html(text.substr(11)));
}

std::string cost_cell(const Card& card) {
  std::string html = report::duration_text(card.active_seconds);
  if (card.budget_seconds > 0) html += "<br><small>of " + report::duration_text(card.budget_seconds) + "</small>";
  if (card.usage && card.usage->usd) html += fmt::format("<br><small>{:.2f} USD</small>", *card.usage->usd);
  return html;
}

std::string spark_cell(const Card& card, std::size_t index) {
  if (card.speeds.size() < 2) return "–";
  return report::sparkline(fmt::format("spark-{}", index), card.speeds,
                           fmt::format("{} after {} rounds", report::ratio_text(card.speeds.back()), card.rounds));
}

std::string campaign_table(const std::vector<Card>& cards) {
  report::Table table({{"Compare"},
                       {"Campaign"},
                       {"State"},
                       {"Best so far"},
                       {"Speed-up", true},
                       {"Of the limit", true},
                       {"Accepted", true},
                       {"Now"},
                       {"Time"},
                       {"Last change (UTC)"}});
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const Card& card = cards[i];
    const std::string id = escape_html(card.id);
    table.row(
        {fmt::format("<input type=\"checkbox\" name=\"c\" value=\"{0}\" aria-label=\"Compare {0}\">", id),
         fmt::format("<a class=\"row\" href=\"{}\">{}</a><br><small>{}{}{}</small>",
                     escape_html(campaign_path(card.id)), id, escape_html(card.op), card.device.empty() ? "" : " on ",
                     escape_html(card.device)),
         report::badge(card.state), spark_cell(card, i), speed_cell(card),
         card.share ? report::percent_text(*card.share) : std::string("–"),
         fmt::format("{} of {}", card.accepted, card.rounds), now_cell(card), cost_cell(card), time_cell(card.updated)},
        card.state);
  }
  return table.str();
}

std::string counts_words(const std::vector<Card>& all, std::size_t shown) {
  std::map<std::string, int> counts;
  for (const Card& card : all) ++counts[card.state];
  std::vector<std::string> parts;
  for (const auto& [state, count] : counts) parts.push_back(fmt::format("{} {}", count, state));
  std::string text = fmt::format("{} campaigns: {}.", all.size(), fmt::join(parts, ", "));
  if (shown != all.size()) text += fmt::format(" {} are shown.", shown);
  return text;
}

}  // namespace

std::vector<Card> chosen_cards(std::vector<Card> cards, const http::Request& request) {
  const std::string& state = request.parameter("state");
  std::erase_if(cards, [&](const Card& card) {
    return (!state.empty() && card.state != state) || !has_words(card, request.parameter("q"));
  });
  sort_cards(cards, request.parameter("sort"));
  return cards;
}

Page overview_page(const std::vector<Card>& all, const http::Request& request, const std::string& folder) {
  Page page{"Campaigns", "/", "", true, {}};
  page.main_html = "<h1>Campaigns</h1>\n";
  if (all.empty()) {
    page.main_html += report::paragraph(
        fmt::format("No campaign in {} yet. One that is started there appears here: ridge optimize gemm", folder));
    return page;
  }
  const std::vector<Card> cards = chosen_cards(all, request);
  page.main_html += report::paragraph(counts_words(all, cards.size())) + filter_form(all, request);
  page.main_html += fmt::format(
      "<form action=\"/compare\" method=\"get\">\n{}<p><button type=\"submit\">Compare the marked ones</button></p>\n"
      "</form>\n",
      cards.empty() ? report::paragraph("None of them is as asked for.") : campaign_table(cards));
  return page;
}

Page compare_page(const std::vector<Card>& cards) {
  Page page{"Side by side", "/", "", true, {}};
  page.main_html = "<h1>Side by side</h1>\n";
  if (cards.size() < 2) {
    page.main_html +=
        report::paragraph("Mark two or more campaigns in the list.") + "<p>" + link("/", "The list") + "</p>\n";
    return page;
  }
  std::vector<report::ForestRow> rows;
  for (const Card& card : cards) {
    if (!card.speedup) continue;
    const std::string key(1, static_cast<char>('A' + rows.size() % 26));
    rows.push_back(
        {key,
         card.id,
         {card.id, *card.speedup, card.low.value_or(*card.speedup), card.high.value_or(*card.speedup), 0.95, 0},
         false});
  }
  page.main_html +=
      report::figure("Speed-up over its own baseline", report::forest_chart("compare", "Speed-up of each", rows));
  std::vector<report::Table::Column> columns = {{"What"}};
  for (const Card& card : cards) columns.push_back({card.id});
  report::Table table(columns);
  std::size_t measured = 0;
  const auto row = [&](std::string_view name, const auto& cell) {
    std::vector<std::string> cells = {escape_html(name)};
    for (std::size_t i = 0; i < cards.size(); ++i) cells.push_back(cell(cards[i], i));
    table.row(cells);
  };
  row("Campaign", [](const Card& card, std::size_t) { return link(campaign_path(card.id), card.id); });
  row("Key in the drawing", [&](const Card& card, std::size_t) {
    return card.speedup ? std::string(1, static_cast<char>('A' + measured++ % 26)) : std::string("–");
  });
  row("State", [](const Card& card, std::size_t) { return report::badge(card.state); });
  row("Operator", [](const Card& card, std::size_t) { return escape_html(card.op); });
  row("Device", [](const Card& card, std::size_t) { return escape_html(card.device); });
  row("Proposer", [](const Card& card, std::size_t) { return escape_html(card.proposer); });
  row("Best so far", spark_cell);
  row("Speed-up", [](const Card& card, std::size_t) { return escape_html(speed_words(card)); });
  row("Rests on", [](const Card& card, std::size_t) { return escape_html(card.rests_on); });
  row("Of the limit",
      [](const Card& card, std::size_t) { return card.share ? report::percent_text(*card.share) : std::string("–"); });
  row("Accepted", [](const Card& card, std::size_t) { return fmt::format("{} of {}", card.accepted, card.rounds); });
  row("Time", [](const Card& card, std::size_t) { return escape_html(cost_words(card)); });
  row("Began (UTC)", [](const Card& card, std::size_t) { return escape_html(minute(card.started)); });
  row("Last change (UTC)", [](const Card& card, std::size_t) { return escape_html(minute(card.updated)); });
  page.main_html += table.str();
  page.main_html += report::paragraph(
      "Each speed-up is over the baseline of its own campaign, with its shapes and its machine; only campaigns of the "
      "same "
      "operator, shapes and device say which is faster.",
      "does");
  return page;
}

}  // namespace ridge::web
