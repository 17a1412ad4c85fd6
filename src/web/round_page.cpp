// One round, and its raw samples.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "record/json.h"
#include "report/charts.h"
#include "report/escape.h"
#include "report/html_parts.h"
#include "report/numbers.h"
#include "report/shape_names.h"
#include "report/words.h"
#include "web/campaign_page.h"

namespace ridge::web {
namespace {

using record::ReportRound;
using report::escape_html;
using report::Model;

const ReportRound* find_round(const Model& model, std::int64_t number) {
  const auto found = std::ranges::find(model.rounds, number, &ReportRound::round);
  return found == model.rounds.end() ? nullptr : &*found;
}

const journal::Round* find_round(const journal::State& state, std::int64_t number) {
  const auto found = std::ranges::find(state.rounds, number, &journal::Round::number);
  return found == state.rounds.end() ? nullptr : &*found;
}

std::string round_heading(const record::CampaignCard& card, const Model& model, const ReportRound& round) {
  std::string html =
      fmt::format("<p class=\"crumb\">{} › <a id=\"up\" href=\"{}\">{}</a> {}</p>\n<h1>Round {}: {}</h1>\n",
                  link("/", "Campaigns"), escape_html(campaign_path(card.id)), escape_html(card.id),
                  report::badge(report::round_state(round)), round.round, escape_html(report::round_title(round)));
  html += "<nav class=\"pager\" aria-label=\"Rounds\">";
  const auto step = [&](std::int64_t to, std::string_view name, std::string_view rel) {
    if (find_round(model, to) == nullptr) return fmt::format("<span class=\"off\">{}</span> ", name);
    return fmt::format("<a rel=\"{}\" href=\"{}\">{}</a> ", rel, escape_html(round_path(card.id, to)), name);
  };
  return html + step(round.round - 1, "Round before", "prev") + step(round.round + 1, "Next round", "next") +
         "</nav>\n";
}

std::string change_section(const ReportRound& round) {
  std::string html = report::changes_list(round);
  if (!round.source_diff.empty()) {
    html += report::paragraph("Source against the incumbent: " + report::files_words(round)) +
            report::diff_html(round.source_diff);
  } else if (!round.changes.empty()) {
    html += report::paragraph("The source is the same; the values are given to the compiler.", "does");
  }
  if (html.empty()) html = report::paragraph("Nothing differs from the incumbent, or no candidate was evaluated.");
  return report::section("change", "What changed", html);
}

// The build that a candidate is derived from: of the round that made it, or the baseline's.
const record::BuildEvidence* build_of(const Model& model, const std::string& candidate) {
  const record::BuildEvidence* found = nullptr;
  const auto look = [&](const record::ReportTrial& trial) {
    if (trial.candidate == candidate && !trial.build.counts.empty()) found = &trial.build;
  };
  if (model.baseline) look(*model.baseline);
  for (const ReportRound& round : model.rounds)
    for (const record::ReportTrial& trial : round.trials) look(trial);
  return found;
}

// What the compiler made of both: registers, spills, instructions by kind.
std::string instructions_section(const Model& model, const ReportRound& round) {
  const record::BuildEvidence* after = build_of(model, round.candidate);
  const record::BuildEvidence* before = build_of(model, round.parent);
  if (after == nullptr) return {};
  std::map<std::string, std::pair<std::optional<double>, std::optional<double>>> rows;
  if (before != nullptr)
    for (const auto& [name, value] : before->counts) rows[name].first = static_cast<double>(value);
  for (const auto& [name, value] : after->counts) rows[name].second = static_cast<double>(value);
  const auto text = [](const std::optional<double>& value) {
    return value ? report::count_text(*value) : std::string("–");
  };
  report::Table table({{"What the compiler made"}, {"Incumbent", true}, {"Candidate", true}, {"Difference", true}});
  for (const auto& [name, values] : rows) {
    const auto& [old_value, new_value] = values;
    const bool differs = old_value && new_value && *old_value != *new_value;
    table.row({escape_html(name), text(old_value), text(new_value),
               differs ? fmt::format("{}{}", *new_value > *old_value ? "+" : "−",
                                     report::count_text(std::abs(*new_value - *old_value)))
                       : std::string(old_value && new_value ? "same" : "–")},
              differs ? "chosen" : "");
  }
  return report::section("instructions", "Instructions and resources", table.str());
}

std::string gains_section(const Model& model, const ReportRound& round) {
  if (!round.decision) return {};
  std::vector<report::ForestRow> rows;
  for (const record::Effect& effect : round.decision->effects) {
    const auto shape = std::ranges::find(model.shapes, effect.label, &record::ReportShape::label);
    const bool suite = effect.label == "suite";
    if (!suite && shape == model.shapes.end()) continue;
    rows.push_back({suite ? "all" : shape->key, suite ? "all shapes together" : effect.label, effect, suite});
  }
  const std::string caption = "Gain over the incumbent, with intervals";
  return report::figure(caption, report::forest_chart(fmt::format("r{}-forest", round.round), caption, rows));
}

std::string profile_section(const Model& model, const ReportRound& round) {
  const record::Profiled* before = nullptr;
  const record::Profiled* shown = nullptr;
  for (const record::Profiled& profiled : model.profiles) {
    if (profiled.round > round.round) break;
    before = shown;
    shown = &profiled;
  }
  if (shown == nullptr) return {};
  const bool own = shown->round == round.round;
  return report::section("profile", own ? "Profile of this build" : "Profile that the proposer could see",
                         report::profile_panel(*shown, before));
}

std::string seen_section(const journal::State& state, const journal::Round& round) {
  std::vector<std::string> hidden;
  for (const std::int64_t number : round.hidden) hidden.push_back(std::to_string(number));
  const auto known = state.known_before(round.number);
  return report::section(
      "seen", "What the proposer saw",
      report::fact_list(
          {{"Incumbent", fmt::format("round {}, {}", round.incumbent_round, report::short_id(round.incumbent.id()))},
           {"Earlier rounds", fmt::format("{} of {}", known.size(), std::max<std::int64_t>(round.number - 2, 0))},
           {"Hidden from it", hidden.empty() ? "none" : fmt::format("rounds {}", fmt::join(hidden, ", "))},
           {"Tips", std::to_string(state.tips ? state.tips->tips.size() : 0)},
           {"Knowledge entries", std::to_string(state.tips ? state.tips->knowledge.size() : 0)},
           {"Answers refused in this round", std::to_string(round.refused.size())}}));
}

const std::vector<record::Session>* sessions_of(const journal::State& state, std::int64_t number) {
  const journal::Round* round = find_round(state, number);
  if (round == nullptr || !round->last().evaluated) return nullptr;
  return &round->last().evaluated->evaluation.sessions;
}

struct SampleChoice {
  const record::Session* session = nullptr;
  std::int64_t page = 1, pages = 1;
};

Result<SampleChoice> choose_session(const journal::State& state, std::int64_t round, const http::Request& request) {
  const std::vector<record::Session>* sessions = sessions_of(state, round);
  if (sessions == nullptr || sessions->empty())
    return make_error(ErrorCode::kNotFound, "round {} has no samples", round);
  const auto pages = static_cast<std::int64_t>(sessions->size());
  const std::int64_t page = page_number(request, pages);
  return SampleChoice{&(*sessions)[static_cast<std::size_t>(page - 1)], page, pages};
}

std::string launches_text(const std::vector<double>& seconds) {
  std::vector<std::string> parts;
  for (const double one : seconds) parts.push_back(report::latency_text(one));
  return fmt::format("{}", fmt::join(parts, "  "));
}

}  // namespace

std::string verdict_sentence(const ReportRound& round) {
  if (!round.decision) return round.reason;
  const std::string numbers = fmt::format("{}; {}", report::measured_words(round), report::evidence_words(round));
  if (round.state == record::RoundState::kAccepted)
    return fmt::format("Accepted: {}; {}.", numbers, report::gates_words(round));
  return fmt::format("Not accepted: {}. {}", report::gates_words(round), round.trials.empty() ? "" : numbers + ".");
}

Result<Page> round_page(const record::CampaignCard& card, const Model& recorded, const journal::State& state,
                        std::int64_t number) {
  const Model model = report::with_short_labels(recorded, report::shape_names(recorded));
  const ReportRound* round = find_round(model, number);
  const journal::Round* folded = find_round(state, number);
  if (round == nullptr || folded == nullptr)
    return make_error(ErrorCode::kNotFound, "{} has no round {}", card.id, number);
  Page page{fmt::format("Round {} of {}", number, card.id), "/", card.id, true, {}};
  page.main_html = round_heading(card, model, *round) + report::paragraph(verdict_sentence(*round), "why verdict");
  const std::string gains = gains_section(model, *round);
  page.main_html += change_section(*round) + instructions_section(model, *round);
  page.main_html +=
      report::section("record", "Decision and measurements",
                      gains + "<h3>Everything recorded of it</h3>\n" + report::round_record(model, *round));
  if (sessions_of(state, number) != nullptr)
    page.main_html +=
        "<p>" + link(round_path(card.id, number) + "/samples", "Every launch, session by session") + "</p>\n";
  page.main_html += "<p>" + link(round_path(card.id, number) + "/rules", "Every written rule in this round") + "</p>\n";
  page.main_html += profile_section(model, *round) + seen_section(state, *folded);
  return page;
}

Result<Page> samples_page(const record::CampaignCard& card, const journal::State& state, std::int64_t round,
                          const http::Request& request) {
  RIDGE_TRY(chosen, choose_session(state, round, request));
  const record::Session& session = *chosen.session;
  Page page{fmt::format("Samples of round {} of {}", round, card.id), "/", card.id, false, {}};
  const std::string here = round_path(card.id, round);
  page.main_html = fmt::format(
      "<p class=\"crumb\">{} › <a id=\"up\" href=\"{}\">Round {}</a></p>\n<h1>Every launch of round {}</h1>\n",
      link(campaign_path(card.id), card.id), escape_html(here), round, round);
  page.main_html +=
      pager(here + "/samples", chosen.page, chosen.pages, fmt::format("session {} of {}", chosen.page, chosen.pages));
  page.main_html += report::fact_list({{"Session", std::to_string(session.index)},
                                       {"Role", session.role},
                                       {"Counts", session.voided             ? "no: " + session.void_reason
                                                  : session.role == "screen" ? "no: it screens"
                                                                             : "yes"}});
  report::Table table({{"Shape"}, {"Order"}, {"First block"}, {"Second"}, {"Third"}, {"Fourth"}});
  for (const record::ShapeSamples& shape : session.shapes) {
    for (const record::Quad& quad : shape.quads) {
      std::vector<std::string> cells = {escape_html(shape.label), escape_html(quad.order)};
      for (const std::vector<double>& block : quad.blocks) cells.push_back(report::code(launches_text(block)));
      table.row(cells);
    }
  }
  page.main_html +=
      table.str() + "<p>" +
      link(fmt::format("{}/samples.json?page={}", here, chosen.page), "This session as JSON, in seconds") + "</p>\n";
  return page;
}

Result<std::string> samples_json(const journal::State& state, std::int64_t round, const http::Request& request) {
  RIDGE_TRY(chosen, choose_session(state, round, request));
  return record::to_line(*chosen.session) + "\n";
}

}  // namespace ridge::web
