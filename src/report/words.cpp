#include "report/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "record/backend.h"
#include "record/execution.h"
#include "record/metric.h"
#include "report/numbers.h"
#include "report/ratios.h"

namespace ridge::report {
namespace {

using record::Outcome;

std::string plural(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

template <class Value>
double geomean_of(const Model& model, const Value& value) {
  std::vector<double> values;
  for (const auto& shape : model.shapes) values.push_back(value(shape));
  return geomean_of_usable(values);
}

double over(double work, double latency) { return latency > 0 ? work / latency : std::nan(""); }

bool memory_bounds(const Model& model) {
  return !model.shapes.empty() &&
         std::ranges::all_of(model.shapes, [](const record::ReportShape& shape) { return shape.bound == "memory"; });
}

double work_of(const Model& model, const record::ReportShape& shape) {
  return memory_bounds(model) ? shape.cost.bytes : shape.cost.flop;
}

// What a project is judged by, where that is a time or a column of its table and no rate of work.
std::optional<record::Metric> own_metric(const Model& model) {
  if (!record::is_of_project(model.spec)) return std::nullopt;
  const Result<record::Metric> metric = record::parse_metric(model.spec.primary_metric);
  const bool rate =
      !metric || metric->quantity == record::Quantity::kFlops || metric->quantity == record::Quantity::kBytes;
  return rate ? std::nullopt : std::optional(*metric);
}

double speed_of(const Model& model, const record::ReportShape& shape, double latency,
                const std::optional<double>& value) {
  const std::optional<record::Metric> own = own_metric(model);
  if (!own) return over(work_of(model, shape), latency);
  return own->quantity == record::Quantity::kColumn ? value.value_or(std::nan("")) : latency;
}

double fraction(const record::ReportShape& shape, double latency) {
  return latency > 0 ? shape.bound_time / latency : std::nan("");
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

}  // namespace

std::string short_id(std::string_view id) { return std::string(id.substr(0, 12)); }

double flops_before(const record::ReportShape& shape) { return over(shape.cost.flop, shape.baseline_latency); }
double flops_after(const record::ReportShape& shape) { return over(shape.cost.flop, shape.best_latency); }

double speed_before(const Model& model, const record::ReportShape& shape) {
  return speed_of(model, shape, shape.baseline_latency, shape.baseline_value);
}

double speed_after(const Model& model, const record::ReportShape& shape) {
  return speed_of(model, shape, shape.best_latency, shape.best_value);
}

std::string time_beside_speed(const Model& model, double latency) {
  const std::optional<record::Metric> own = own_metric(model);
  return own && own->quantity == record::Quantity::kSeconds ? std::string() : latency_text(latency);
}

SpeedUnit speed_unit(const Model& model) {
  if (const std::optional<record::Metric> own = own_metric(model)) {
    return own->quantity == record::Quantity::kColumn ? SpeedUnit{1, own->column}
                                                      : time_unit(geomean_speed_after(model));
  }
  return speed_unit(geomean_speed_after(model), memory_bounds(model) ? "B/s" : "FLOP/s");
}
SpeedUnit flops_unit(const Model& model) { return speed_unit(geomean_of(model, flops_after), "FLOP/s"); }
double geomean_speed_before(const Model& model) {
  return geomean_of(model, [&](const record::ReportShape& shape) { return speed_before(model, shape); });
}
double geomean_speed_after(const Model& model) {
  return geomean_of(model, [&](const record::ReportShape& shape) { return speed_after(model, shape); });
}
double geomean_fraction_before(const Model& model) {
  return geomean_of(model, [](const record::ReportShape& shape) { return fraction(shape, shape.baseline_latency); });
}
double geomean_fraction_after(const Model& model) {
  return geomean_of(model, [](const record::ReportShape& shape) { return fraction(shape, shape.best_latency); });
}

// The device that was measured: a machine with a GPU has a processor as well. "NVIDIA H200 (sm_90a, ...)" less its
// details.
std::string machine_name(const Model& model) {
  const auto& facts = model.environment.facts;
  // Before system.node was a fact, project.device named the host.
  if (const auto found = facts.find("project.device"); found != facts.end() && facts.contains("system.node"))
    return found->second;
  for (const char* name : {record::runs_on_host(model.spec.backend) ? "cpu.model" : "gpu", "cpu.model", "cpu"}) {
    if (const auto found = facts.find(name); found != facts.end())
      return found->second.substr(0, found->second.find(" ("));
  }
  return model.spec.gpu.empty() ? "an unknown machine" : model.spec.gpu;
}

std::string termination_words(std::string_view condition) {
  if (condition == "T1") return "the performance target was reached";
  if (condition == "T2") return "the efficiency target was reached";
  if (condition == "T3") return "the largest number of rounds was used";
  if (condition == "T4") return "the user stopped it";
  if (condition == "T5") return "its budget of time or of decisions was used up";
  if (condition == "exhausted") return "the proposer has nothing left to try";
  return "none of the conditions for stopping holds";
}

std::string outcome_words(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPass: return "faster, every output right";
    case Outcome::kSlower: return "not faster";
    case Outcome::kAmbiguous: return "cannot tell";
    case Outcome::kWrong: return "wrong result";
    case Outcome::kCheat: return "tried to cheat";
    case Outcome::kCompile: return "did not compile";
    case Outcome::kCrash: return "crashed";
    case Outcome::kHang: return "did not end";
    case Outcome::kOom: return "out of memory";
    case Outcome::kHarnessFault: return "harness fault, not the candidate's";
    case Outcome::kNotClaimed: return "outside its scope";
    case Outcome::kDeclined: return "declined the case";
  }
  return "unknown";
}

std::string state_words(const Model& model, std::string_view pause_note) {
  const std::string& state = model.state;
  if (state == "empty") return "The journal holds no event yet.";
  if (state == "created") return "Created and waiting for confirmation: nothing has been run.";
  if (state == "confirmed") return "Confirmed: the machine is about to be described and its ceilings measured.";
  if (state == "prepared") return "Prepared: the baseline is about to be measured.";
  if (state == "paused") return fmt::format("Paused: {}", pause_note.empty() ? "no reason given" : pause_note);
  if (state == "finished") {
    return fmt::format("Finished because {} ({}): {}", termination_words(model.termination->condition),
                       model.termination->condition, model.termination->detail);
  }
  if (model.rounds.empty()) return "Running: the baseline is measured, no round has begun.";
  const auto& last = model.rounds.back();
  if (last.state == record::RoundState::kUnfinished) return fmt::format("Running: round {} is under way.", last.round);
  return fmt::format("Running: round {} is decided, the next one has not begun.", last.round);
}

std::string budget_words(const record::BudgetChange& change) {
  const std::string wall = change.wall_budget > 0 ? duration_text(change.wall_budget) : "no limit";
  return fmt::format("Budget changed: active time {}, rounds {}", wall,
                     change.max_iterations ? std::to_string(*change.max_iterations) : "without limit");
}

std::string spread_words(const Model& model) {
  double low = 0, high = 0;
  std::int64_t shapes = 0;
  for (const auto& shape : model.shapes) {
    if (!shape.total) continue;
    low = shapes == 0 ? shape.total->ratio : std::min(low, shape.total->ratio);
    high = shapes == 0 ? shape.total->ratio : std::max(high, shape.total->ratio);
    ++shapes;
  }
  if (shapes > 1) return fmt::format("{} to {} over {} shapes", ratio_text(low), ratio_text(high), shapes);
  if (!model.total) return {};
  return fmt::format("{} % interval {}", plain(model.total->confidence * 100), interval_text(*model.total));
}

std::string headline(const Model& model) {
  const std::string where =
      fmt::format("{} on {}", model.spec.op.empty() ? "operator" : model.spec.op, machine_name(model));
  if (model.total && model.accepted > 0)
    return fmt::format("{}: {} as fast ({})", where, ratio_text(model.total->ratio), spread_words(model));
  if (!model.baseline) return fmt::format("{}: not measured yet", where);
  return fmt::format("{}: no round accepted yet", where);
}

std::string total_words(const Model& model) {
  if (!model.total) return "no round has been accepted, so the best kernel is the baseline";
  const std::string value = fmt::format("{} ({} % interval {})", ratio_text(model.total->ratio),
                                        plain(model.total->confidence * 100), interval_text(*model.total));
  if (model.total_source == "final") {
    return fmt::format("{}, measured afresh in {} of best against baseline", value,
                       plural(model.total->sessions, "paired session"));
  }
  return fmt::format(
      "{}, the product of the accepted rounds; best and baseline have not been measured against each "
      "other yet",
      value);
}

std::string replica_words(const Model& model) {
  if (!model.replica) return {};
  const record::ReportReplica& replica = *model.replica;
  if (replica.rows.empty()) return fmt::format("Not measured on another device ({}): {}", replica.place, replica.note);
  const record::Effect& suite = replica.rows.front().there;
  return fmt::format("On {}, {}: {} ({} % interval {}, {}); {}", replica.kind, replica.device, ratio_text(suite.ratio),
                     plain(suite.confidence * 100), interval_text(suite), plural(suite.sessions, "session"),
                     replica.agreement);
}

std::string summary(const Model& model) {
  if (!model.baseline) return "Nothing has been measured yet. " + model.detail;
  const double before = geomean_speed_before(model), after = geomean_speed_after(model);
  const SpeedUnit unit = speed_unit(model);
  std::string text = fmt::format(
      "The campaign began with the kernel \"{}\" at {} (geometric mean over {}), {} of what this machine's measured "
      "ceilings allow. ",
      model.baseline_name, unit.text(before), plural(static_cast<std::int64_t>(model.shapes.size()), "shape"),
      percent_text(geomean_fraction_before(model)));
  if (model.accepted == 0) {
    text += fmt::format("It tried {}; none was accepted, so that kernel is still the best known.",
                        plural(static_cast<std::int64_t>(model.rounds.size()), "change"));
    return text;
  }
  text += fmt::format(
      "It tried {}, one at a time, kept {} that proved faster and undid the rest. The best kernel "
      "reaches {}, {} of the ceilings: {}.",
      plural(static_cast<std::int64_t>(model.rounds.size()), "change"), model.accepted, unit.text(after),
      percent_text(geomean_fraction_after(model)), total_words(model));
  return text;
}

std::string round_state(const record::ReportRound& round) { return std::string(record::name_of(round.state)); }

bool not_measured(const record::ReportRound& round) { return round.state == record::RoundState::kNotMeasured; }

std::string rounds_words(const Model& model) {
  std::string text = fmt::format("{} accepted, {} rolled back", model.accepted, model.rolled_back);
  if (model.not_settled > 0) text += fmt::format(", {} not settled", model.not_settled);
  if (model.not_measured > 0) text += fmt::format(", {} not measured", model.not_measured);
  return text;
}

Facts headline_facts(const Model& model) {
  Facts facts;
  const SpeedUnit unit = speed_unit(model);
  facts.emplace_back("Baseline", unit.text(geomean_speed_before(model)));
  facts.emplace_back("Best", unit.text(geomean_speed_after(model)));
  facts.emplace_back(
      "Speed-up",
      model.total ? fmt::format("{} ({})", ratio_text(model.total->ratio), interval_text(*model.total)) : "none yet");
  facts.emplace_back("Share of the measured ceiling", percent_text(geomean_fraction_after(model)));
  facts.emplace_back("Rounds", rounds_words(model));
  facts.emplace_back("Why it ended",
                     model.state == "finished" ? termination_words(model.termination->condition) : "it has not ended");
  facts.emplace_back("Chance of any false accept", fmt::format("at most {}", plain_percent(model.spec.protocol.alpha)));
  facts.emplace_back("Active time", duration_text(model.active_seconds));
  if (model.cpu_seconds > 0) facts.emplace_back("Processor time of rounds", duration_text(model.cpu_seconds));
  if (model.usage) facts.emplace_back("The proposer says it took", usage_words(*model.usage));
  return facts;
}

std::string usage_words(const record::Usage& usage) {
  std::string text = fmt::format("{} turn{}, {} tokens in, {} out", usage.turns, usage.turns == 1 ? "" : "s",
                                 usage.input_tokens, usage.output_tokens);
  if (usage.usd) text += fmt::format(", {:.2f} USD", *usage.usd);
  return usage.model.empty() ? text : usage.model + ": " + text;
}

std::string error_statement(const Model& model) {
  const auto& protocol = model.spec.protocol;
  return fmt::format(
      "The chance that even one accepted round of this campaign does not beat its predecessor by more than {} is at "
      "most "
      "{}. {} of the {} decisions this budget allows have been used.",
      plain_percent(protocol.min_effect), plain_percent(protocol.alpha), model.decisions, protocol.max_decisions);
}

std::string rules_words(const Model& model) {
  std::int64_t pass = 0, idle = 0;
  std::string open;
  for (const auto& rule : model.rules) {
    pass += rule.verdict == record::RuleVerdict::kPass ? 1 : 0;
    idle += rule.verdict == record::RuleVerdict::kNotApplicable ? 1 : 0;
    const bool holds =
        rule.verdict == record::RuleVerdict::kPass || rule.verdict == record::RuleVerdict::kNotApplicable;
    if (!holds)
      open += fmt::format("{}{} ({})", open.empty() ? "" : ", ", rule.rule, rule.waived.empty() ? "open" : "waived");
  }
  if (model.rules.empty()) return fmt::format("{} rules were waived.", model.waivers.size());
  return fmt::format("{} written rules: {} hold, {} do not apply{}.", model.rules.size(), pass, idle,
                     open.empty() ? "" : "; not held: " + open);
}

std::string void_cause(std::string_view reason) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kCauses = {{
      {"clock_gap", "clock"},
      {"steal_fraction", "steal"},
      {"foreign_load", "other programs"},
      {"throttle", "throttling"},
      {"missing_samples", "missing samples"},
      {"witness_gap", "drift"},
  }};
  for (const auto& [guard, words] : kCauses) {
    if (reason.starts_with(guard)) return std::string(words);
  }
  return std::string(reason.substr(0, reason.find_first_of(":=;,")));
}

// Causes in the order of how often they occurred, with counts where there are several.
std::string SessionCount::void_words() const {
  if (causes.size() == 1) return causes.begin()->first;
  std::vector<std::pair<std::string, std::int64_t>> sorted(causes.begin(), causes.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  for (const auto& [cause, count] : sorted) parts.push_back(fmt::format("{} {}", count, cause));
  return join(parts, ", ");
}

SessionCount count_sessions(const record::ReportTrial& trial) {
  SessionCount count;
  for (const auto& session : trial.sessions) {
    if (session.voided) {
      ++count.voided;
      ++count.causes[void_cause(session.void_reason)];
    } else {
      ++(session.role == "screen" ? count.screening : count.counted);
    }
  }
  return count;
}

std::string sessions_words(const record::ReportTrial& trial) {
  const SessionCount count = count_sessions(trial);
  std::vector<std::string> parts;
  if (count.counted > 0 || count.screening == 0) parts.push_back(fmt::format("{} counted", count.counted));
  if (count.screening > 0) parts.push_back(fmt::format("{} to screen", count.screening));
  if (count.voided > 0) parts.push_back(fmt::format("{} void ({})", count.voided, count.void_words()));
  return join(parts, ", ");
}

std::string evidence_words(const record::ReportRound& round) {
  if (round.trials.empty()) return "nothing was measured";
  if (round.trials.back().sessions.empty()) return "no session was run";
  std::string text = sessions_words(round.trials.back());
  if (round.decision && count_sessions(round.trials.back()).counted > 0) {
    text += fmt::format("; evidence E = {} of the {} needed", digits3(round.decision->evidence),
                        digits3(round.decision->needed));
  }
  return text;
}

std::string gates_words(const record::ReportRound& round) {
  if (!round.decision) return "not decided";
  std::vector<std::string> stopped;
  std::size_t passed = 0;
  for (const auto& gate : round.decision->gates) {
    if (gate.outcome == record::GateOutcome::kPass) ++passed;
    if (gate.outcome != record::GateOutcome::kFail && gate.outcome != record::GateOutcome::kInconclusive) continue;
    stopped.push_back(fmt::format("{} ({}): {}", gate.gate, record::name_of(gate.outcome), gate.detail));
  }
  if (stopped.empty()) return fmt::format("all {} passed", plural(static_cast<std::int64_t>(passed), "gate"));
  return "stopped by " + join(stopped, "; ");
}

std::string tunables_words(const record::ReportRound& round) {
  std::vector<std::string> parts;
  for (const auto& change : round.changes)
    parts.push_back(fmt::format("{} {} → {}", change.name, change.before, change.after));
  for (const auto& [name, value] : round.changed) {
    const bool told = std::any_of(round.changes.begin(), round.changes.end(),
                                  [&name = name](const auto& change) { return change.name == name; });
    if (!told) parts.push_back(fmt::format("{} = {}", name, value));
  }
  return join(parts, ", ");
}

std::string files_words(const record::ReportRound& round) {
  if (round.changed_files.empty()) return {};
  std::int64_t added = 0, removed = 0;
  std::string_view diff = round.source_diff;
  while (!diff.empty()) {
    const std::string_view line = diff.substr(0, diff.find('\n'));
    diff.remove_prefix(std::min(line.size() + 1, diff.size()));
    added += line.starts_with('+') && !line.starts_with("+++ ") ? 1 : 0;
    removed += line.starts_with('-') && !line.starts_with("--- ") ? 1 : 0;
  }
  return fmt::format("{} (+{} −{} lines)", join(round.changed_files, ", "), added, removed);
}

std::string change_words(const record::ReportRound& round) {
  std::string text = tunables_words(round);
  const std::string files = files_words(round);
  if (!text.empty() && !files.empty()) text += ", ";
  return text + files;
}

std::string round_title(const record::ReportRound& round) {
  const bool only_tunables = !round.changes.empty() && round.changed_files.empty();
  return only_tunables ? tunables_words(round) : round.hypothesis.title;
}

std::string expected_words(const record::ReportRound& round) {
  const double gain = round.hypothesis.expected_gain;
  return fmt::format("{}{}", gain < 0 ? "−" : "+", plain_percent(std::abs(gain)));
}

double expected_ratio(const record::ReportRound& round) { return 1 + round.hypothesis.expected_gain; }

bool has_outcome(const record::ReportRound& round) {
  return !not_measured(round) && round.measured && round.measured->ratio > 0 && expected_ratio(round) > 0;
}

std::string expectation_words(const Model& model) {
  double expected = 0, came = 0;
  std::size_t count = 0, within = 0;
  for (const record::ReportRound& round : model.rounds) {
    if (!has_outcome(round)) continue;
    ++count;
    expected += std::log(expected_ratio(round));
    came += std::log(round.measured->ratio);
    within += std::abs(std::log(round.measured->ratio / expected_ratio(round))) <= std::log(1.1) ? 1 : 0;
  }
  if (count == 0) return {};
  return fmt::format(
      "{} of {} measured rounds came within a factor of 1.1 of what was expected; together they were "
      "expected to gain {} and gained {}",
      within, count, ratio_text(std::exp(expected)), ratio_text(std::exp(came)));
}

std::string measured_words(const record::ReportRound& round) {
  if (!round.measured) return result_words(round);
  return fmt::format("{} ({})", gain_text(round.measured->ratio - 1), gain_interval_text(*round.measured));
}

std::string result_words(const record::ReportRound& round) {
  if (round.measured) return gain_text(round.measured->ratio - 1);
  if (round.screened) return gain_text(*round.screened - 1) + " when screened";
  if (!round.decision) return "under way";
  return not_measured(round) ? "not measured" : outcome_words(round.outcome);
}

std::string round_reason(const record::ReportRound& round) {
  if (!not_measured(round) || round.trials.empty()) return round.reason;
  const record::ReportTrial& trial = round.trials.back();
  constexpr std::string_view kPrefix = "not measured: ";
  if (trial.sessions.empty() && !trial.detail.empty())
    return trial.detail.substr(trial.detail.starts_with(kPrefix) ? kPrefix.size() : 0);
  const SessionCount count = count_sessions(trial);
  if (count.counted == 0 && count.voided > 0)
    return fmt::format("every session to confirm it was void ({}); {}", count.void_words(), round.reason);
  return round.reason;
}

std::string session_words(const record::SessionRatios& session) {
  if (session.voided) return "voided: " + session.void_reason;
  return session.role == "screen" ? "screening, not counted" : "counted";
}

std::string activity_words(std::string_view activity) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kWords = {{
      {"measure", "timed launches"},
      {"prepare and verify", "fresh processes and inputs, verification of every launch"},
      {"check", "checking outputs"},
      {"build", "building candidates"},
      {"screen sweeps", "looking through sweeps"},
      {"measure the ceilings", "describing the machine, measuring its ceilings"},
      {"propose", "proposing changes"},
      {"worker start-up and transfer", "worker start-up, transfer, not itemised"},
      {"engine", "the engine itself"},
  }};
  for (const auto& [name, words] : kWords) {
    if (name == activity) return std::string(words);
  }
  return std::string(activity);
}

std::string noise_words(const Model& model) {
  if (!model.baseline) return "No calibration has been run.";
  return fmt::format(
      "The baseline was measured against itself. Sessions of the same kernel differ by a standard deviation of {} "
      "(robust), so the smallest gain this machine can decide is about {}. A dot far from zero here would mean that "
      "the "
      "machine, not the kernel, makes the difference.",
      percent_text(model.noise), percent_text(model.detectable));
}

namespace {

// How an operator of Ridgeline is compared.
void operator_protocol(const Model& model, Facts& facts) {
  const auto& p = model.spec.protocol;
  facts.emplace_back(
      "What is compared",
      "Always two kernels in the same session: A, the kernel to beat, and B, the candidate, in quads ABBA "
      "or BAAB by the toss of a coin, so that drift hits both alike. What counts is the ratio of their "
      "times, never a time measured on another day.");
  facts.emplace_back(
      "One session",
      fmt::format("A fresh process with fresh memory and fresh secret inputs: up to {} quads of 4 blocks with up to {} "
                  "launches each, {}, {}. Every timed launch has its output checked.",
                  p.max_quads, p.max_launches,
                  p.mode == "cold" ? "caches cold (buffers rotate past the last-level cache)" : "caches " + p.mode,
                  plural(p.threads, "thread")));
}

}  // namespace

Facts protocol_words(const Model& model) {
  const auto& p = model.spec.protocol;
  Facts facts;
  if (record::is_of_project(model.spec)) {
    facts.emplace_back(
        "What is compared",
        fmt::format("Always two kernels in the same session: A, the kernel to beat, and B, the candidate, "
                    "in the orders ABBA and BAAB in turn, so that drift hits both alike. What counts is the "
                    "ratio of what the project's own table says of {}, never a figure of another day.",
                    model.spec.primary_metric));
    facts.emplace_back("One session",
                       "Four processes of the project's benchmark. Each draws its own inputs, times its own calls and "
                       "checks them; its table is read, and cannot claim more time than the process ran.");
  } else {
    operator_protocol(model, facts);
  }
  const bool voids = p.decision_rule == record::Protocol::kVoiding;
  facts.emplace_back("Voiding",
                     fmt::format("A session is thrown away only for reasons that treat both kernels alike ({}), before "
                                 "its result is looked at; at most {} of them.",
                                 voids ? "clock change, foreign load" : "a throttled device, missing samples",
                                 plain_percent(p.max_void_fraction)));
  facts.emplace_back(
      "The decision",
      fmt::format(
          "Each confirming session casts one vote: is B faster than A by more than {}? The votes multiply into the "
          "evidence E, a bet against \"no gain\" that starts at 1. A candidate is accepted when E reaches {} = "
          "{} / {}, and given up when that is out of reach within {} sessions.",
          plain_percent(p.min_effect), plain(static_cast<double>(p.max_decisions) / p.alpha), p.max_decisions,
          plain(p.alpha), p.max_sessions));
  facts.emplace_back(
      "The error budget",
      fmt::format(
          "If a candidate is no better, E reaches {} with a chance of at most {} in {} (Ville's inequality), however "
          "often one looks. With at most {} decisions the chance of any false accept in the whole campaign is at "
          "most {}; decision {} would be refused.",
          plain(static_cast<double>(p.max_decisions) / p.alpha), plain(p.alpha), p.max_decisions, p.max_decisions,
          plain_percent(p.alpha), static_cast<std::uint64_t>(p.max_decisions) + 1));
  facts.emplace_back(
      "A busy machine",
      voids ? fmt::format("A session in which other programs used more than {} of the processors is void.",
                          plain_percent(p.max_foreign_load))
            : std::string("Load of other programs hits both kernels alike and costs sessions, not validity. A session "
                          "in which the clocks of the two kernels differed by more than they do on this machine when a "
                          "kernel runs against itself must win by that difference as well."));
  facts.emplace_back(
      "No shape may pay",
      fmt::format("A round is refused when some shape is slower by {} or more{}.", plain_percent(p.noninferiority),
                  record::is_of_project(model.spec)
                      ? ", forward or backward, or a signal-to-noise ratio of its table falls"
                      : ""));
  facts.emplace_back(
      "The winner's curse",
      "Picking the best of many flatters it. So at the end best and baseline are measured against each "
      "other afresh, and that figure is the headline; the product of the accepted gains stands beside it.");
  return facts;
}

std::string trust_words(const Model& model) {
  if (!record::is_of_project(model.spec)) return {};
  const std::string confined = model.environment.fact("project.confined", "not recorded");
  return fmt::format(
      "In the project's trust: its build, its inputs and the clock of its benchmark, which run in the kernel's "
      "process. "
      "Outputs: {}. Commands {}.",
      model.environment.fact("project.outputs", "checked by the project's benchmark alone, in the kernel's process"),
      confined == "yes" ? std::string("saw one copy of the project each, and neither campaign, cache nor keys")
                        : "could reach the campaign and the cache (name spaces: " + confined + ")");
}

std::vector<std::string> not_claimed(const Model& model) {
  std::vector<std::string> claims = {
      fmt::format(
          "Nothing is claimed about other machines: the figures hold for {} with the compiler and settings listed "
          "under Environment.",
          machine_name(model)),
      "Nothing is claimed about shapes, types or layouts that are not in the table of shapes.",
      "The error budget bounds false accepts. It does not bound false rejects: a small real gain may have been rolled "
      "back.",
      "A per-shape interval covers that shape on its own; the campaign-wide budget covers the suite effect of each "
      "accepted "
      "round.",
      "An end-to-end training step gains less than this kernel does: by Amdahl's law only its share of the step gets "
      "faster.",
      "This page cannot vouch for itself: whether the record is intact is what verify and replay are for."};
  if (model.total_source != "final") {
    claims.emplace_back(
        "Best and baseline have not been measured against each other afresh, so the total is not corrected "
        "for the winner's curse.");
  }
  return claims;
}

const Facts& glossary() {
  static const Facts kTerms = {
      {"Accepted",
       "the change was proved faster and every output right; it was committed and became the new incumbent"},
      {"A/A run", "a kernel measured against itself; anything but \"no difference\" is noise"},
      {"Baseline", "the kernel the campaign started from (round 1)"},
      {"Candidate", "the kernel a round offers"},
      {"Evidence E", "the winnings of a bet against \"no gain\"; large values are unlikely without a gain"},
      {"Gate", "a condition a round must meet; every gate says pass, fail or inconclusive, with its values"},
      {"Incumbent", "the best kernel accepted so far; every candidate is measured against it"},
      {"Interval", "the range that holds the true value with the stated confidence"},
      {"Intensity", "FLOP per byte of compulsory memory traffic"},
      {"Quad", "four blocks of launches, ABBA or BAAB; drift that is linear in time cancels"},
      {"Roofline",
       "the speed a shape could reach on this machine: its FLOP at the measured compute ceiling or its bytes at "
       "the measured bandwidth, whichever takes longer"},
      {"Not settled",
       "the sessions of the round could not tell: the change is neither faster nor refuted, and was undone"},
      {"Not measured",
       "no session of the round's candidate counted: the budget ran out, every session was void, or the measurement "
       "failed; nothing is known about the change, which was undone and is as open as before"},
      {"Rolled back", "the change was undone; its round keeps its number and its record"},
      {"Round", "one hypothesis, one change, one decision"},
      {"Session", "one fresh process in which incumbent and candidate take turns; it casts one vote"},
      {"Sweep", "one round that looks at many values of parameters; the best of them is measured like any candidate"},
      {"Voided", "a session thrown away for disturbances that hit both kernels alike"}};
  return kTerms;
}

std::vector<std::string> target_facts(const Model& model) {
  std::vector<std::string> facts;
  const auto found = model.spec.extra.find(record::kTargetFactsKey);
  std::string_view text = found == model.spec.extra.end() ? std::string_view() : std::string_view(found->second);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with("- ")) continue;
    line.remove_prefix(2);
    const bool quoted =
        line.size() >= 2 && (line.front() == '\'' || line.front() == '"') && line.back() == line.front();
    facts.emplace_back(quoted ? line.substr(1, line.size() - 2) : line);
  }
  return facts;
}

}  // namespace ridge::report
