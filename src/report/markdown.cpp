// The same facts as the page, for a terminal, a pull request or a mail.
#include <fmt/format.h>

#include <cmath>

#include "report/answers.h"
#include "report/ceilings.h"
#include "report/escape.h"
#include "report/numbers.h"
#include "report/ratios.h"
#include "report/shape_names.h"
#include "report/words.h"

namespace ridge::report {
namespace {

std::string md(std::string_view text) { return escape_markdown(text); }

std::string row(const std::vector<std::string>& cells_md) {
  return fmt::format("| {} |\n", fmt::join(cells_md, " | "));
}

// `numeric`: a letter per column, 'r' for right-aligned.
std::string head(const std::vector<std::string>& names, std::string_view alignment) {
  std::string text = row(names) + "|";
  for (const char c : alignment) text += c == 'r' ? "---:|" : "---|";
  return text + "\n";
}

std::string facts(const Facts& list) {
  std::string text;
  for (const auto& [name, value] : list) {
    if (!value.empty()) text += fmt::format("- **{}**: {}\n", md(name), md(value));
  }
  return text + "\n";
}

// A fence longer than any run of back quotes inside.
std::string fenced(std::string_view text, std::string_view language) {
  std::string fence = "```";
  while (text.find(fence) != std::string_view::npos) fence += '`';
  return fmt::format("{}{}\n{}{}{}\n\n", fence, language, clean_utf8(text), text.ends_with('\n') ? "" : "\n", fence);
}

// Behind one line where the renderer knows HTML; plain below it elsewhere.
std::string folded(std::string_view title, std::string_view body_md) {
  return fmt::format("<details><summary>{}</summary>\n\n{}</details>\n\n", escape_html(title), body_md);
}

std::string commands(const std::vector<Command>& list) {
  std::string text;
  for (const Command& command : list) text += fenced(command.text, "sh") + md(command.words) + "\n\n";
  return text;
}

std::string answer_part(const Answer& answer) {
  std::string text = fmt::format("## {}\n\n**{}**\n\n", md(answer.question), md(answer.key));
  for (const std::string& line : answer.lines) text += fmt::format("- {}\n", md(line));
  text += "\n";
  if (!answer.commands.empty()) text += "In the campaign's folder:\n\n" + commands(answer.commands);
  return text;
}

std::string shapes(const Model& model, const std::string& shared) {
  const SpeedUnit unit = speed_unit(model);
  const auto figure = [&](double speed, double latency) {
    const std::string time = time_beside_speed(model, latency);
    return time.empty() ? md(unit.text(speed)) : fmt::format("{} ({})", md(unit.text(speed)), time);
  };
  std::string text = shared.empty() ? "" : fmt::format("Shapes, all with {}:\n\n", md(shared));
  text += head({"", "Shape", "Baseline", "Best", "Speed-up", "Interval", "Share of its bound", "Bound by"}, "llrrrrrl");
  for (const auto& shape : model.shapes) {
    text += row({shape.key, md(shape.label), figure(speed_before(model, shape), shape.baseline_latency),
                 figure(speed_after(model, shape), shape.best_latency),
                 shape.total ? ratio_text(shape.total->ratio) : "–", shape.total ? interval_text(*shape.total) : "–",
                 percent_text(shape.bound_time / shape.best_latency), md(shape.bound)});
  }
  return text + "\n";
}

std::string round_rows(const Model& model) {
  if (model.rounds.empty()) return "No round has begun.\n\n";
  std::string text = head({"Round", "Change", "Expected", "Measured", "Outcome", "Why"}, "rlrrll");
  for (const auto& round : model.rounds) {
    text += row({std::to_string(round.round), md(round_title(round)), expected_words(round),
                 not_measured(round) ? "–" : measured_words(round), md(round_state(round)), md(round_reason(round))});
  }
  const std::string words = expectation_words(model);
  return text + (words.empty() ? "\n" : "\n" + words + ".\n\n");
}

std::string sessions(const record::ReportTrial& trial) {
  std::string text = head({"Session", "Role", "Suite gain", "Launches", "State"}, "rlrrl");
  for (const auto& session : trial.sessions) {
    text += row({std::to_string(session.index), md(session.role), gain_text(std::expm1(session.suite)),
                 std::to_string(session.launches), md(session_words(session))});
  }
  return folded("Sessions: " + sessions_words(trial), text + "\n");
}

// Both devices, shape by shape; empty where the final comparison was made on one alone.
std::string replica_part(const Model& model) {
  if (!model.replica) return {};
  std::string text = md(replica_words(model)) + ".\n\n";
  if (!model.replica->rows.empty()) {
    text += head({"Shape", "This device", "Interval", "The other", "Interval", "Differs"}, "lrrrrl");
    for (const record::ReplicaRow& one : model.replica->rows) {
      text += row({md(one.label == "suite" ? "all shapes together" : one.label), ratio_text(one.here.ratio),
                   interval_text(one.here), ratio_text(one.there.ratio), interval_text(one.there),
                   one.differs.empty() ? "no" : md(one.differs)});
    }
    text += "\n";
  }
  return model.replica->trial ? text + sessions(*model.replica->trial) : text;
}

std::string sweep(const record::ReportRound& round) {
  std::string text = head({"Configuration", "Score", "Outcome"}, "lrl");
  for (const auto& entry : round.sweep) {
    std::vector<std::string> values;
    for (const auto& [name, value] : entry.defines) values.push_back(fmt::format("{}={}", name, value));
    const bool chosen = entry.candidate == round.chosen;
    std::string outcome =
        entry.outcome == record::Outcome::kPass ? (chosen ? "chosen" : "usable") : outcome_words(entry.outcome);
    if (!entry.detail.empty()) outcome += ": " + entry.detail;
    text += row({md(fmt::format("{}", fmt::join(values, " "))), percent_text(entry.score), md(outcome)});
  }
  return folded(fmt::format("All {} configurations", round.sweep.size()), text + "\n");
}

std::string decision(const record::Decision& decision) {
  std::string text = head({"Gate", "Verdict", "Values"}, "lll");
  for (const auto& gate : decision.gates) {
    text += row({md(gate.gate), std::string(record::name_of(gate.outcome)), md(gate.detail)});
  }
  if (!decision.effects.empty()) {
    text += "\n";
    text += head({"Shape", "Gain", "Interval", "Confidence", "Sessions"}, "lrrrr");
    for (const auto* list : {&decision.effects, &decision.directions}) {
      for (const auto& effect : *list) {
        text += row({md(effect.label == "suite" ? "all shapes together" : effect.label), gain_text(effect.ratio - 1),
                     gain_interval_text(effect), percent_text(effect.confidence), std::to_string(effect.sessions)});
      }
    }
  }
  return folded("Gates and the gain of every shape", text + "\n");
}

std::string trial_part(const record::ReportTrial& trial, std::size_t number, std::size_t of) {
  std::string text;
  if (of > 1)
    text += fmt::format("Attempt {} of {} ({}): {}. {}\n\n", number, of, md(trial.level), outcome_words(trial.outcome),
                        md(trial.detail));
  if (!trial.sessions.empty()) text += sessions(trial);
  if (!trial.build.counts.empty()) {
    std::vector<std::string> counts;
    for (const auto& [name, value] : trial.build.counts)
      counts.push_back(fmt::format("{} {}", md(name), count_text(value)));
    text += fmt::format("Build evidence: {}\n\n", fmt::join(counts, ", "));
  }
  if (!trial.build.log.empty()) text += fenced(trial.build.log, "text");
  return text;
}

std::string round_part(const record::ReportRound& round) {
  const bool accepted = round.state == record::RoundState::kAccepted;
  std::string text = fmt::format("### Round {}: {}{}\n\n", round.round, md(round_title(round)),
                                 accepted ? " (" + result_words(round) + ")" : "");
  if (round_title(round) != round.hypothesis.title) text += md(round.hypothesis.title) + "\n\n";
  text += fmt::format("**{}.** {}\n\n", md(round_state(round)), md(round.reason));
  if (!round.source_diff.empty()) text += folded("Source: " + files_words(round), fenced(round.source_diff, "diff"));
  const record::Hypothesis& h = round.hypothesis;
  text += facts({{"Proposed by", round.proposer},
                 {"Expected", fmt::format("{} {}", expected_words(round), h.expected_gain_arithmetic)},
                 {"Measured", measured_words(round)},
                 {"Sessions and evidence", evidence_words(round)},
                 {"Gates", gates_words(round)},
                 {"Bottleneck", h.bottleneck},
                 {"Reasoning", h.reasoning},
                 {"Kind of change", fmt::format("{} ({}, transfer bucket {})", h.mechanism, h.category, h.bucket)},
                 {"Risks", fmt::format("{}", fmt::join(h.risks, "; "))},
                 {"What would show it", h.verification_signal},
                 {"Learned from round", h.informed_by ? std::to_string(*h.informed_by) : ""},
                 {"What changed", change_words(round)},
                 {"Candidate", short_id(round.candidate)},
                 {"Snapshot", short_id(round.snapshot)},
                 {"Commit", short_id(round.commit)}});
  for (const auto& refused : round.refused)
    text += fmt::format("An answer of the proposer was refused: {}\n\n", md(refused));
  if (round.decision) text += decision(*round.decision);
  for (std::size_t i = 0; i < round.trials.size(); ++i) text += trial_part(round.trials[i], i + 1, round.trials.size());
  if (!round.sweep.empty()) text += sweep(round);
  return text;
}

std::string lineage(const Model& model) {
  std::string text =
      head({"Round", "Kernel", "Derived from", "Change", "Gain", "Over the baseline", "Commit"}, "rlllrrl");
  for (const auto& node : model.lineage) {
    text += row({std::to_string(node.round), short_id(node.id), short_id(node.parent), md(node.title),
                 node.gain ? gain_text(node.gain->ratio - 1) : "–", ratio_text(node.speed), md(short_id(node.commit))});
  }
  return text + "\n";
}

std::string time_part(const Model& model) {
  double total = 0;
  for (const auto& part : model.time) total += part.seconds;
  std::string text = head({"Activity", "Time", "Share"}, "lrr");
  for (const auto& part : model.time) {
    text += row({md(activity_words(part.activity)), duration_text(part.seconds), percent_text(part.seconds / total)});
  }
  text += "\n";
  for (const auto& note : model.notes)
    text += fmt::format("- {} {}: {}\n", md(note.time), md(note.kind), md(note.text));
  return text + (model.notes.empty() ? "" : "\n");
}

std::string environment(const Model& model) {
  if (model.environment.facts.empty()) return "Not recorded yet.\n\n";
  std::string text = head({"Fact", "Value"}, "ll");
  for (const auto& [name, value] : model.environment.facts) text += row({md(name), md(value)});
  text += "\n";
  text += head({"Measured ceiling", "Value", "Threads", "Method"}, "lrrl");
  for (const auto& ceiling : model.ceilings) {
    text += row({md(ceiling.name), md(rate_text(ceiling.value, ceiling.unit)), std::to_string(ceiling.threads),
                 md(ceiling.method)});
  }
  text += "\n";
  const std::vector<CitedPeak> peaks = cited_peaks(model);
  if (!peaks.empty()) text += head({"Cited peak", "Value", "Source"}, "lrl");
  for (const CitedPeak& peak : peaks) text += row({md(peak.metric), md(peak.words), md(peak.source)});
  if (!peaks.empty()) text += "\n";
  for (const std::string& fact : target_facts(model)) text += "- " + md(fact) + "\n";
  return text + (target_facts(model).empty() ? "" : "\n");
}

std::string termination(const Model& model) {
  if (!model.termination) return {};
  std::string text = head({"Condition for stopping", "Holds", "Values"}, "lll");
  for (const auto& condition : model.termination->conditions) {
    text +=
        row({md(condition.gate), condition.outcome == record::GateOutcome::kPass ? "yes" : "no", md(condition.detail)});
  }
  return text + "\n";
}

std::string rules(const Model& model) {
  if (model.rules.empty() && model.waivers.empty()) return {};
  std::string text = "## Rules\n\n" + md(rules_words(model)) + "\n\n";
  for (const auto& waiver : model.waivers) {
    text += fmt::format("- Rule {} was waived by {}: {}\n", waiver.rule, md(waiver.by), md(waiver.reason));
  }
  if (!model.waivers.empty()) text += "\n";
  if (model.rules.empty()) return text;
  text += head({"Rule", "What", "Verdict", "Evidence"}, "rlll");
  for (const auto& rule : model.rules) {
    text +=
        row({std::to_string(rule.rule), md(rule.name), std::string(record::name_of(rule.verdict)), md(rule.evidence)});
  }
  return text + "\n";
}

}  // namespace

std::string markdown(const Model& recorded) {
  const ShapeNames names = shape_names(recorded);
  const Model model = with_short_labels(recorded, names);
  std::string text =
      fmt::format("# {}\n\nCampaign {}, {}\n\n", md(headline(model)), md(model.spec.id), md(model.state));
  if (model.state == "finished") text += md(model.detail) + "\n\n";
  if (const std::string trust = trust_words(model); !trust.empty()) text += md(trust) + "\n\n";
  for (const Answer& answer : answers(model)) text += answer_part(answer);
  text += "## Where the kernel stands\n\n";
  if (model.baseline) text += md(summary(model)) + "\n\n";
  text += shapes(model, names.shared());
  text += fmt::format("Total: {}. The accepted gains multiplied together: {}.\n\n", md(total_words(model)),
                      ratio_text(model.product_of_accepted));
  text += replica_part(model);
  text += "## Rounds\n\n";
  text += round_rows(model);
  for (const auto& round : model.rounds) text += round_part(round);
  text += "## Lineage\n\n";
  text += lineage(model);
  text += "## Time\n\n";
  text += time_part(model);
  text += "## Noise\n\n";
  text += md(noise_words(model)) + "\n\n";
  if (model.baseline) text += sessions(*model.baseline);
  text += "## Environment\n\n";
  text += environment(model);
  text += "## Protocol and error budget\n\n";
  text += facts(protocol_words(model)) + md(error_statement(model)) + "\n\n" + termination(model);
  text += rules(model);
  text += "## What is not claimed\n\n";
  for (const auto& claim : not_claimed(model)) text += fmt::format("- {}\n", md(claim));
  text += "\n## Check it yourself\n\n" + commands(check_commands());
  text += fmt::format("\nJournal: {} events, head `{}`. {} timed launches in {} sessions ({} voided).\n\n",
                      model.events, md(model.journal_head), count_text(static_cast<double>(model.launches)),
                      model.sessions, model.voided_sessions);
  text += "## Glossary\n\n";
  text += facts(glossary());
  return text;
}

}  // namespace ridge::report
