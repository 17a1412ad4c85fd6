// The rounds: one card each with everything that was recorded.
#include <fmt/format.h>

#include <cmath>

#include "report/charts.h"
#include "report/escape.h"
#include "report/html_parts.h"
#include "report/numbers.h"

namespace ridge::report {
namespace {

std::string listing(const std::vector<std::string>& items) { return fmt::format("{}", fmt::join(items, "; ")); }

Facts hypothesis_facts(const record::ReportRound& round) {
  const record::Hypothesis& h = round.hypothesis;
  Facts facts = {{"Proposed by", round.proposer},
                 {"Hypothesis", h.title},
                 {"Bottleneck", h.bottleneck},
                 {"Reasoning", h.reasoning},
                 {"Expected gain", h.expected_gain_arithmetic.empty()
                                       ? expected_words(round)
                                       : fmt::format("{}: {}", expected_words(round), h.expected_gain_arithmetic)},
                 {"Kind of change", fmt::format("{} ({}, transfer bucket {})", h.mechanism, h.category, h.bucket)},
                 {"Risks", listing(h.risks)},
                 {"What would show it", h.verification_signal},
                 {"Evidence", listing(h.evidence)},
                 {"Learned from round", h.informed_by ? std::to_string(*h.informed_by) : ""},
                 {"What changed", change_words(round)}};
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  return facts;
}

std::string gate_table(const record::ReportRound& round) {
  if (!round.decision) return {};
  Table table({{"Gate"}, {"Verdict"}, {"Values"}});
  for (const auto& gate : round.decision->gates) {
    table.row({escape_html(gate.gate), badge(record::name_of(gate.outcome)), escape_html(gate.detail)});
  }
  return table.str();
}

std::string effect_table(const record::ReportRound& round) {
  if (!round.decision) return {};
  Table table({{"Shape"}, {"Gain", true}, {"Interval", true}, {"Confidence", true}, {"Sessions", true}});
  for (const auto* list : {&round.decision->effects, &round.decision->directions}) {
    for (const auto& effect : *list) {
      table.row({escape_html(effect.label == "suite" ? "all shapes together" : effect.label),
                 gain_text(effect.ratio - 1), gain_interval_text(effect), percent_text(effect.confidence),
                 std::to_string(effect.sessions)});
    }
  }
  return table.str();
}

std::string session_table(const record::ReportTrial& trial) {
  Table table({{"Session", true}, {"Role"}, {"Suite gain", true}, {"Launches", true}, {"State"}, {"Guards"}});
  for (const auto& session : trial.sessions) {
    std::vector<std::string> guards;
    for (const auto& [name, value] : session.guards) guards.push_back(fmt::format("{} {}", name, plain(value)));
    table.row({std::to_string(session.index), escape_html(session.role), gain_text(std::expm1(session.suite)),
               std::to_string(session.launches), escape_html(session_words(session)), escape_html(listing(guards))});
  }
  return table.str();
}

std::string check_table(const record::ReportTrial& trial) {
  Table table(
      {{"Shape"}, {"Outcome"}, {"Largest error, of allowed", true}, {"SNR, dB", true}, {"Verified calls", true}});
  for (const auto& check : trial.checks) {
    const std::string outcome =
        check.outcome == record::Outcome::kPass
            ? badge("pass")
            : badge("fail") + " " + escape_html(outcome_words(check.outcome) + ": " + check.detail);
    table.row({escape_html(check.label), outcome, plain(check.max_error_ratio), plain(check.snr_db),
               std::to_string(check.verified_calls)});
  }
  return table.str();
}

std::string build_part(const record::BuildEvidence& build) {
  if (build.command.empty() && build.log.empty() && build.counts.empty()) return {};
  Table counts({{"What the compiler made"}, {"Count", true}});
  for (const auto& [name, value] : build.counts) counts.row({escape_html(name), count_text(value)});
  std::string html = counts.str();
  Facts facts = {{"Compiler", build.compiler},
                 {"Command", build.command},
                 {"Object", build.artifact.empty() ? "" : short_id(build.artifact)},
                 {"Took", build.cached ? "taken from the cache" : duration_text(build.wall)}};
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  html += fact_list(facts);
  if (!build.log.empty()) html += fmt::format("<pre>{}</pre>\n", escape_html(build.log));
  return html;
}

std::string sweep_part(const record::ReportRound& round) {
  Table table({{"Configuration"}, {"Score", true}, {"Outcome"}});
  for (const auto& row : round.sweep) {
    std::vector<std::string> values;
    for (const auto& [name, value] : row.defines) values.push_back(fmt::format("{}={}", name, value));
    const bool chosen = row.candidate == round.chosen;
    std::string outcome = outcome_words(row.outcome);
    if (row.outcome == record::Outcome::kPass) outcome = chosen ? "chosen" : "usable";
    if (!row.detail.empty()) outcome += ": " + row.detail;
    table.row({code(fmt::format("{}", fmt::join(values, " "))), percent_text(row.score), escape_html(outcome)},
              chosen ? "chosen" : "");
  }
  return table.str();
}

std::string trial_part(const Model& model, const record::ReportRound& round, std::size_t index) {
  const record::ReportTrial& trial = round.trials[index];
  const bool last = index + 1 == round.trials.size();
  std::string html;
  if (round.trials.size() > 1) {
    html += fmt::format("<h4>Attempt {} of {} ({}): {}</h4>\n", index + 1, round.trials.size(),
                        escape_html(trial.level), escape_html(outcome_words(trial.outcome)));
  }
  if (trial.outcome != record::Outcome::kPass) html += paragraph(trial.detail);
  const std::string id = fmt::format("r{}-{}-sessions", round.round, index);
  html += figure("Every session",
                 sessions_chart(id, fmt::format("Sessions of round {}", round.round), trial, model.shapes,
                                model.spec.protocol.min_effect, "faster than the incumbent (one mark = one session)"));
  html += folded("Sessions: " + sessions_words(trial), session_table(trial));
  html += folded("Checks of the outputs", check_table(trial));
  html += folded("Build evidence", build_part(trial.build));
  return last || !html.empty() ? html : std::string();
}

std::string time_words(const record::ReportRound& round) {
  std::vector<std::string> parts;
  for (const auto& [what, seconds] : {std::pair{"propose", round.propose_seconds},
                                      {"sweep", round.screen_seconds},
                                      {"evaluate", round.evaluate_seconds}}) {
    if (seconds > 0) parts.push_back(fmt::format("{} {}", what, duration_text(seconds)));
  }
  if (round.cpu_seconds > 0) parts.push_back("processor time " + duration_text(round.cpu_seconds));
  if (round.usage) parts.push_back(escape_html(usage_words(*round.usage)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string gates_part(const record::ReportRound& round) {
  std::string html = fact_list({{"Measured", measured_words(round)},
                                {"Sessions and evidence", evidence_words(round)},
                                {"Gates", gates_words(round)}});
  html += gate_table(round);
  if (round.decision && !round.decision->plain_rule.empty()) {
    html += paragraph(fmt::format(
        "The rule people know would {} this round{}: {}", round.decision->plain_rule_accepts ? "accept" : "refuse",
        round.decision->plain_rule_accepts == round.decision->accepted ? " too" : " (it disagrees)",
        round.decision->plain_rule));
  }
  for (const auto& refused : round.refused) html += paragraph("An answer of the proposer was refused: " + refused);
  return html;
}

std::string identity_part(const record::ReportRound& round) {
  Facts ids = {
      {"Candidate", round.candidate_name.empty()
                        ? short_id(round.candidate)
                        : fmt::format("{} ({})", short_id(round.candidate), round.candidate_name)},
      {"Derived from", short_id(round.parent)},
      {round.state == record::RoundState::kAccepted ? "Snapshot" : "Snapshot restored", short_id(round.snapshot)},
      {"Commit", short_id(round.commit)},
      {"Time", time_words(round)},
      {"Began", round.started}};
  std::erase_if(ids, [](const auto& fact) { return fact.second.empty(); });
  return "<h4>Identity</h4>\n" + fact_list(ids);
}

std::string source_part(const record::ReportRound& round) {
  if (round.source_diff.empty()) return {};
  return folded("Source: " + files_words(round), diff_html(round.source_diff));
}

}  // namespace

std::string changes_list(const record::ReportRound& round) {
  std::string html;
  for (const auto& change : round.changes) {
    html += fmt::format("<li>{} {} → {}{}</li>\n", code(change.name), change.before, change.after,
                        change.title.empty() ? "" : ": " + escape_html(change.title));
  }
  return html.empty() ? html : "<ul class=\"changes\">\n" + html + "</ul>\n";
}

std::string round_record(const Model& model, const record::ReportRound& round) {
  std::string html = gates_part(round);
  html += "<h4>What was tried and expected</h4>\n" + fact_list(hypothesis_facts(round));
  for (std::size_t i = 0; i < round.trials.size(); ++i) html += trial_part(model, round, i);
  html += figure("Evidence over the sessions", evidence_chart(fmt::format("r{}-evidence", round.round), round));
  html += folded("Gain of every shape", effect_table(round));
  html += figure("The sweep", sweep_chart(fmt::format("r{}-sweep", round.round), round));
  html += folded(fmt::format("All {} configurations", round.sweep.size()), sweep_part(round));
  return html + identity_part(round);
}

namespace {

std::string accepted_card(const Model& model, const record::ReportRound& round) {
  std::string html = fmt::format(
      "<div class=\"round good\" id=\"round-{0}\">\n<h3><span class=\"n\">{0}</span><span class=\"what\">{1} "
      "<span class=\"gain\">({2})</span></span>{3}</h3>\n<div class=\"body\">\n",
      round.round, escape_html(round_title(round)), escape_html(result_words(round)), badge(round_state(round)));
  html += paragraph(round.reason, "why");
  html += changes_list(round) + source_part(round);
  if (round.source_diff.empty() && !round.changes.empty()) {
    html += paragraph("The source is the same; the values are given to the compiler.", "does");
  }
  return html + folded("Everything recorded of this round", round_record(model, round)) + "</div></div>\n";
}

// The id sits inside, so that following a link to it opens the card without a script.
std::string other_card(const Model& model, const record::ReportRound& round) {
  std::string html = fmt::format(
      "<details class=\"round {}\"><summary><span class=\"n\">{}</span><span class=\"what\">{}</span>"
      "<span class=\"gain\">{}</span>{}<span class=\"reason\">{}</span></summary>\n<div class=\"body\" "
      "id=\"round-{}\">\n",
      round.state == record::RoundState::kRolledBack ? "other" : "open", round.round, escape_html(round_title(round)),
      not_measured(round) ? std::string() : escape_html(result_words(round)), badge(round_state(round)),
      escape_html(round_reason(round)), round.round);
  html += "<h4>Why</h4>\n" + paragraph(round.reason, "why") + changes_list(round) + source_part(round);
  return html + round_record(model, round) + "</div></details>\n";
}

}  // namespace

std::string round_card(const Model& model, const record::ReportRound& round) {
  return round.state == record::RoundState::kAccepted ? accepted_card(model, round) : other_card(model, round);
}

}  // namespace ridge::report
