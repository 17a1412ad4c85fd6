// The page: one file, style and drawings inline, nothing fetched. Its one script copies commands; without it the page
// says the same.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/answers.h"
#include "report/ceilings.h"
#include "report/charts.h"
#include "report/escape.h"
#include "report/html_parts.h"
#include "report/numbers.h"
#include "report/shape_names.h"
#include "style.h"

namespace ridge::report {
namespace {

constexpr std::array<std::array<std::string_view, 2>, 10> kSections = {{{"stands", "Where the kernel stands"},
                                                                        {"rounds", "Rounds"},
                                                                        {"lineage", "Lineage"},
                                                                        {"time", "Time"},
                                                                        {"noise", "Noise"},
                                                                        {"environment", "Environment"},
                                                                        {"protocol", "Protocol and error budget"},
                                                                        {"limits", "What is not claimed"},
                                                                        {"check", "Check it yourself"},
                                                                        {"glossary", "Glossary"}}};

// Only the page's own script may run and nothing may be fetched, whatever a text in it says.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-WoHDJXUa19TmozYEtEEiTz4EiWsj5bYXNrhYIuO5U+U='";

constexpr std::int64_t kMostHeatRounds = 200;  // of the heat map: the latest

constexpr std::size_t kLongCommand = 60;  // characters; takes a row of its own

// Lines break between the words of a command, not at the hyphens inside them.
std::string command_words(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    html += fmt::format("<span class=\"word\">{}</span>", escape_html(word));
    for (; text.starts_with(' '); text.remove_prefix(1)) html += ' ';
  }
  return html;
}

std::string command_html(const Command& command) {
  return fmt::format(
      "<div{}><div class=\"command\"><code>{}</code><button type=\"button\" class=\"copy\" hidden=\"hidden\">Copy"
      "</button></div>\n<p class=\"does\">{}</p></div>\n",
      command.text.size() > kLongCommand ? " class=\"wide\"" : "", command_words(command.text),
      escape_html(command.words));
}

// Commands are for a shell in the campaign's folder, which the journal does not know.
std::string commands_html(const std::vector<Command>& commands) {
  if (commands.empty()) return {};
  std::string html = paragraph("In the campaign's folder, the one that holds journal.jsonl:", "does");
  html += "<div class=\"commands\">\n";
  for (const Command& command : commands) html += command_html(command);
  return html + "</div>\n";
}

// A percent sign stays on the line of its number.
std::string with_units_kept(std::string text) {
  for (std::size_t at = text.find(" %"); at != std::string::npos; at = text.find(" %", at))
    text.replace(at, 1, "\u00a0");
  return text;
}

std::string answer_html(const Answer& answer) {
  std::string html = fmt::format("<div class=\"answer\" id=\"{}\">\n<h2>{}</h2>\n<p class=\"key\">{}</p>\n", answer.id,
                                 escape_html(answer.question), escape_html(answer.key));
  for (const std::string& line : answer.lines) html += paragraph(with_units_kept(line));
  return html + commands_html(answer.commands) + "</div>\n";
}

std::string header(const Model& model) {
  std::string html = fmt::format("<header>\n<p class=\"crumb\">Ridgeline campaign {} {}</p>\n<h1>{}</h1>\n",
                                 code(model.spec.id), badge(model.state), escape_html(headline(model)));
  if (model.state == "finished") html += paragraph(model.detail);
  if (const std::string trust = trust_words(model); !trust.empty()) html += paragraph(trust);
  html += answers_html(model) + "<nav aria-label=\"Sections\"><ul>\n";
  for (const auto& [id, title] : kSections) html += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", id, title);
  return html + "</ul></nav>\n</header>\n";
}

std::string shape_table(const Model& model) {
  const SpeedUnit unit = speed_unit(model);
  const auto figure = [&](double speed, double latency) {
    const std::string time = time_beside_speed(model, latency);
    return escape_html(unit.text(speed)) + (time.empty() ? "" : "<br><small>" + time + "</small>");
  };
  Table table({{"Key"},
               {"Shape"},
               {"Baseline", true},
               {"Best", true},
               {"Speed-up", true},
               {"Interval", true},
               {"Share of its bound", true},
               {"Bound by"}});
  for (const auto& shape : model.shapes) {
    table.row({fmt::format("<b>{}</b>", shape.key),
               escape_html(shape.label + (shape.representative ? " (representative)" : "")),
               figure(speed_before(model, shape), shape.baseline_latency),
               figure(speed_after(model, shape), shape.best_latency),
               shape.total ? ratio_text(shape.total->ratio) : std::string("–"),
               shape.total ? interval_text(*shape.total) : std::string("–"),
               percent_text(shape.bound_time / shape.best_latency), escape_html(shape.bound)});
  }
  return table.str();
}

// Both devices, shape by shape; empty where the final comparison was made on one alone.
std::string replica_html(const Model& model) {
  if (!model.replica) return {};
  Table table({{"Shape"},
               {"This device", true},
               {"Interval", true},
               {"The other", true},
               {"Interval there", true},
               {"Differs"}});
  for (const record::ReplicaRow& row : model.replica->rows) {
    table.row({escape_html(row.label == "suite" ? "all shapes together" : row.label), ratio_text(row.here.ratio),
               interval_text(row.here), ratio_text(row.there.ratio), interval_text(row.there),
               row.differs.empty() ? std::string("no") : escape_html(row.differs)});
  }
  return paragraph(replica_words(model) + ".") + table.str();
}

std::vector<ForestRow> forest_rows(const Model& model, const std::optional<record::Effect>& suite,
                                   std::optional<record::Effect> record::ReportShape::*effect) {
  std::vector<ForestRow> rows;
  if (suite) rows.push_back({"all", "all shapes together", *suite, true});
  for (const auto& shape : model.shapes) {
    if (shape.*effect) rows.push_back({shape.key, shape.label, *(shape.*effect), false});
  }
  return rows;
}

}  // namespace

std::string answers_html(const Model& model) {
  std::string html = "<div class=\"answers\">\n";
  for (const Answer& answer : answers(model)) html += answer_html(answer);
  return html + "</div>\n";
}

std::string standing_html(const Model& model, const std::string& shared) {
  const record::ReportRound* last = nullptr;
  for (const auto& round : model.rounds) {
    if (round.state == record::RoundState::kAccepted) last = &round;
  }
  std::string charts = figure("Roofline: how far from this machine's limits", roofline_chart(model)) +
                       figure("Speed over the rounds", trend_chart(model));
  const std::string total_caption = model.total_source == "final" ? "Best against baseline, measured afresh"
                                                                  : "Best against baseline, product of the rounds";
  charts += figure(total_caption, forest_chart("forest-total", total_caption,
                                               forest_rows(model, model.total, &record::ReportShape::total)));
  if (last) {
    const std::string caption = fmt::format("The last accepted round ({}) against its predecessor", last->round);
    charts += figure(
        caption, forest_chart("forest-last", caption, forest_rows(model, last->measured, &record::ReportShape::last)));
  }
  std::string html = model.baseline ? paragraph(summary(model)) : std::string();
  if (!charts.empty()) html += "<div class=\"charts\">\n" + charts + "</div>\n";
  if (!model.rounds.empty()) {
    const std::int64_t last_round = model.rounds.back().round;
    const std::int64_t first_round = std::max(model.rounds.front().round, last_round - kMostHeatRounds + 1);
    html += wide_figure(first_round == model.rounds.front().round
                            ? std::string("Gain of every shape in every round")
                            : fmt::format("Gain of every shape in rounds {} to {}", first_round, last_round),
                        heat_map(model, first_round, last_round));
  }
  if (model.baseline && model.accepted > 0) {
    html += paragraph(fmt::format(
        "The accepted gains multiplied together say {}. {}", ratio_text(model.product_of_accepted),
        model.total_source == "final" ? "A final figure well below that would be the winner's curse at work."
                                      : "Best and baseline have not yet been measured against each other afresh."));
  }
  const std::string table = shape_table(model);
  if (!table.empty() && !shared.empty()) html += paragraph("Shapes, all with " + shared + ":", "shared");
  html += table + replica_html(model);
  return html.empty() ? paragraph("Nothing has been measured yet.") : html;
}

namespace {

std::string rounds(const Model& model) {
  std::string html = paragraph(
      "Each round states one hypothesis and its expected gain before anything is built, changes one thing, and is "
      "accepted or rolled back by the program. Open a round for its gates, sessions, build and source.");
  if (model.rounds.empty()) html += paragraph("No round has begun.");
  if (const std::string chart = expected_chart(model); !chart.empty()) {
    html += "<div class=\"charts\">\n" + figure("Expected and measured", chart) + "</div>\n" +
            paragraph(expectation_words(model) + ".");
  }
  for (const auto& round : model.rounds) html += round_card(model, round);
  return section("rounds", kSections[1][1], html);
}

std::string lineage(const Model& model) {
  std::string html = paragraph("The chain of kernels that were accepted, each derived from the one before.");
  html += "<ol class=\"chain\">\n";
  for (const auto& node : model.lineage) {
    std::string gain = fmt::format("{} the baseline's speed", ratio_text(node.speed));
    if (node.gain) {
      gain = fmt::format("{} over the one before ({}), {}", gain_text(node.gain->ratio - 1),
                         gain_interval_text(*node.gain), gain);
    }
    std::vector<std::string> ids;
    for (const auto& [name, id] : {std::pair{"kernel", node.id},
                                   {"derived from", node.parent},
                                   {"snapshot", node.snapshot},
                                   {"commit", node.commit}}) {
      if (!id.empty()) ids.push_back(fmt::format("{} {}", name, code(short_id(id))));
    }
    html += fmt::format("<li><b>Round {}</b> {}\n<p>{}</p>\n<p><small>{}</small></p></li>\n", node.round,
                        escape_html(node.title), escape_html(gain), fmt::join(ids, ", "));
  }
  html += "</ol>\n";
  if (!model.branch.empty()) {
    html += fact_list({{"Branch", model.branch}, {"Started from commit", short_id(model.base_commit)}});
  }
  return section("lineage", kSections[2][1], model.lineage.empty() ? paragraph("No kernel yet.") : html);
}

std::string time_section(const Model& model) {
  double total = 0;
  for (const auto& part : model.time) total += part.seconds;
  Table table({{""}, {"Activity"}, {"Time", true}, {"Share", true}});
  for (std::size_t i = 0; i < model.time.size(); ++i) {
    table.row(
        {fmt::format("<svg class=\"key\" viewBox=\"0 0 22 16\" aria-hidden=\"true\"><rect class=\"part p{}\" x=\"3\" "
                     "y=\"2\" width=\"14\" height=\"12\"/></svg>",
                     i % 8),
         escape_html(activity_words(model.time[i].activity)), duration_text(model.time[i].seconds),
         percent_text(model.time[i].seconds / total)});
  }
  std::string html = fact_list({{"First event", model.first_time},
                                {"Last event", model.last_time},
                                {"Active time", duration_text(model.active_seconds)}});
  html += figure("Where the active time went", time_chart(model)) +
          wide_figure("When what was done", timeline_chart(model)) + table.str();
  Table notes({{"Time"}, {"Event"}, {"What"}});
  for (const auto& note : model.notes) {
    notes.row({escape_html(note.time), escape_html(note.kind), escape_html(note.text)});
  }
  return section("time", kSections[3][1], html + notes.str());
}

std::string noise(const Model& model) {
  std::string html = paragraph(noise_words(model));
  if (model.baseline) {
    html += "<div class=\"charts\">\n" +
            figure("A/A calibration: the baseline against itself",
                   sessions_chart("calibration", "A/A sessions", *model.baseline, model.shapes, 0,
                                  "difference (one mark = one session)")) +
            "</div>\n" + paragraph("Sessions: " + sessions_words(*model.baseline) + ".");
    Table table({{"Key"}, {"Shape"}, {"Noise of a session", true}});
    for (const auto& shape : model.shapes) {
      table.row({fmt::format("<b>{}</b>", shape.key), escape_html(shape.label), percent_text(shape.noise)});
    }
    html += folded("Noise of every shape", table.str());
  }
  return section("noise", kSections[4][1], html);
}

std::string environment(const Model& model) {
  Table facts({{"Fact"}, {"Value"}});
  for (const auto& [name, value] : model.environment.facts) facts.row({escape_html(name), escape_html(value)});
  std::string html = facts.str();
  Table ceilings({{"Measured ceiling"}, {"Value", true}, {"Threads", true}, {"Samples", true}, {"Method"}});
  for (const auto& ceiling : model.ceilings) {
    ceilings.row({escape_html(ceiling.name), escape_html(rate_text(ceiling.value, ceiling.unit)),
                  std::to_string(ceiling.threads), std::to_string(ceiling.samples.size()),
                  escape_html(ceiling.method)});
  }
  html += ceilings.str();
  Table cited({{"Cited peak"}, {"Value", true}, {"Source"}});
  for (const CitedPeak& peak : cited_peaks(model)) {
    cited.row({escape_html(peak.metric), escape_html(peak.words), escape_html(peak.source)});
  }
  html += cited.str();
  Table facts_of_targets({{"What the targets rest on"}});
  for (const std::string& fact : target_facts(model)) facts_of_targets.row({escape_html(fact)});
  html += facts_of_targets.str();
  Table frozen({{"Frozen before the first round"}, {"SHA-256"}});
  for (const auto& [name, digest] : model.frozen) frozen.row({escape_html(name), code(digest)});
  html += folded("What may not change", frozen.str());
  return section("environment", kSections[5][1], html.empty() ? paragraph("Not recorded yet.") : html);
}

std::string rules(const Model& model) {
  if (model.rules.empty() && model.waivers.empty()) return {};
  std::string html = paragraph(rules_words(model));
  Table waived({{"Waived rule", true}, {"By"}, {"Reason"}});
  for (const auto& waiver : model.waivers) {
    waived.row({std::to_string(waiver.rule), escape_html(waiver.by), escape_html(waiver.reason)});
  }
  Table table({{"Rule", true}, {"What"}, {"Verdict"}, {"Evidence"}});
  for (const auto& rule : model.rules) {
    table.row({std::to_string(rule.rule), escape_html(rule.name), std::string(record::name_of(rule.verdict)),
               escape_html(rule.evidence)});
  }
  return html + waived.str() + folded("Every rule with its verdict", table.str());
}

std::string protocol(const Model& model) {
  std::string html = fact_list(protocol_words(model)) + paragraph(error_statement(model));
  if (model.termination) {
    Table table({{"Condition for stopping"}, {"Holds"}, {"Values"}});
    for (const auto& condition : model.termination->conditions) {
      const bool holds = condition.outcome == record::GateOutcome::kPass;
      table.row({escape_html(condition.gate), holds ? "yes" : "no", escape_html(condition.detail)});
    }
    html += table.str();
  }
  html += rules(model);
  return section("protocol", kSections[6][1], html);
}

std::string limits(const Model& model) {
  std::string html = "<ul>\n";
  for (const auto& claim : not_claimed(model)) html += fmt::format("<li>{}</li>\n", escape_html(claim));
  return section("limits", kSections[7][1], html + "</ul>\n");
}

std::string check_section(const Model& model) {
  std::string html = commands_html(check_commands());
  html += fact_list(
      {{"Journal", fmt::format("{} events, head {}", model.events, model.journal_head)},
       {"Raw data", fmt::format("{} timed launches in {} sessions ({} voided); {} calls with verified output",
                                count_text(static_cast<double>(model.launches)), model.sessions, model.voided_sessions,
                                count_text(static_cast<double>(model.verified_calls)))},
       {"Unfinished bytes at the end",
        model.torn_bytes == 0
            ? "none"
            : fmt::format("{}, left by a crash while writing; they never counted", model.torn_bytes)}});
  return section("check", kSections[8][1], html);
}

}  // namespace

std::string html(const Model& recorded) {
  const ShapeNames names = shape_names(recorded);
  const Model model = with_short_labels(recorded, names);
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  page += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", kPolicy);
  page += fmt::format("<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n", escape_html(headline(model)),
                      kPageStyle);
  page += header(model) + "<main>\n";
  page += section("stands", kSections[0][1], standing_html(model, names.shared())) + rounds(model) + lineage(model) +
          time_section(model) + noise(model) + environment(model) + protocol(model) + limits(model) +
          check_section(model);
  page += section("glossary", kSections[9][1], fact_list(glossary()));
  page += fmt::format(
      "</main>\n<footer>{}</footer>\n<script>{}</script>\n</body>\n</html>\n",
      paragraph(fmt::format("Drawn from journal.jsonl alone: event {} of {}, hash {}. Nothing on this page is "
                            "read back as truth.",
                            model.events - 1, model.last_time, short_id(model.journal_head))),
      kPageScript);
  return page;
}

}  // namespace ridge::report
