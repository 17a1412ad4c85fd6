// The sentences of a report, in plain text, so that all formats say the same. Renderers escape them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/numbers.h"
#include "report/report.h"

namespace ridge::report {

using Facts = std::vector<std::pair<std::string, std::string>>;

// Where the campaign stands: "Finished: ...", "Paused: ...".
std::string state_words(const Model& model, std::string_view pause_note);
std::string budget_words(const record::BudgetChange& change);
std::string termination_words(std::string_view condition);
std::string outcome_words(record::Outcome outcome);

// One line a newcomer understands: "gemm on X: 8.91× as fast (7.20× to 10.4× over 5 shapes)".
std::string headline(const Model& model);
// "7.20× to 10.4× over 5 shapes": from the shape that gained least to the one that gained most. Of one shape, its
// interval.
std::string spread_words(const Model& model);
// The paragraph under it.
std::string summary(const Model& model);
// The figures of the first screen: name, value.
Facts headline_facts(const Model& model);
// "model-x: 12 turns, 103210 tokens in, 8100 out, 1.27 USD"
std::string usage_words(const record::Usage& usage);
// The chance that any accepted round is not a real gain, and how much of the budget is used.
std::string error_statement(const Model& model);
std::string total_words(const Model& model);
// The final comparison on another device and whether it agrees, or why there is none, a sentence without its full stop;
// empty where none was asked for.
std::string replica_words(const Model& model);
std::string round_state(const record::ReportRound& round);
bool not_measured(const record::ReportRound& round);
std::string rounds_words(const Model& model);  // "4 accepted, 5 rolled back, 1 not settled, 1 not measured"

// The sessions of a trial by what became of them.
struct SessionCount {
  std::int64_t counted = 0, screening = 0, voided = 0;
  std::map<std::string, std::int64_t> causes;    // of the void ones
  [[nodiscard]] std::string void_words() const;  // "clock", or "3 clock, 2 steal"
};
SessionCount count_sessions(const record::ReportTrial& trial);
std::string sessions_words(const record::ReportTrial& trial);  // "13 counted, 5 void (clock)"
std::string void_cause(std::string_view reason);               // "clock" of "clock_gap = 0.006 is outside 0..0.005"
// "13 counted, 1 to screen, E = 2913 of the 2400 needed".
std::string evidence_words(const record::ReportRound& round);
std::string rules_words(const Model& model);  // how many rules hold, and which were waived
// The gates that stopped a round, or that let it through.
std::string gates_words(const record::ReportRound& round);
std::string tunables_words(const record::ReportRound& round);  // "MR 1 → 6, NR 8 → 16", or ""
std::string files_words(const record::ReportRound& round);     // "kernel.cpp (+6 −7 lines)", or ""
std::string change_words(const record::ReportRound& round);    // both, or "" when nothing differs
// What a round is called: the change of its tunables, else the title of its hypothesis.
std::string round_title(const record::ReportRound& round);
// The decision's own sentence; of a round that was not measured, why not.
std::string round_reason(const record::ReportRound& round);
std::string expected_words(const record::ReportRound& round);
double expected_ratio(const record::ReportRound& round);  // speed over the incumbent
// Whether it was measured against the incumbent, so that what was expected can be compared.
bool has_outcome(const record::ReportRound& round);
// How all such rounds compare, a sentence without its full stop; empty where there is none.
std::string expectation_words(const Model& model);
std::string measured_words(const record::ReportRound& round);
// "−1.8 % when screened": what a card shows beside its title.
std::string result_words(const record::ReportRound& round);
// Whether and why a session counts: "counted", "screening, not counted", "voided: ...".
std::string session_words(const record::SessionRatios& session);
std::string activity_words(std::string_view activity);
std::string noise_words(const Model& model);

Facts protocol_words(const Model& model);
std::vector<std::string> not_claimed(const Model& model);
// What the figures of a project rest on that is the project's own word; empty for an operator of Ridgeline.
std::string trust_words(const Model& model);
const Facts& glossary();

std::string short_id(std::string_view id);              // the first 12 digits
double flops_before(const record::ReportShape& shape);  // FLOP/s of the baseline; NaN when unknown
double flops_after(const record::ReportShape& shape);
// The speeds of a page: FLOP/s, or, where memory bounds every shape, B/s; of a project that is judged by a time or a
// column of its table, that.
double speed_before(const Model& model, const record::ReportShape& shape);
double speed_after(const Model& model, const record::ReportShape& shape);
SpeedUnit speed_unit(const Model& model);
// "1.23 ms", to stand beside a speed; empty where the speeds are times themselves.
std::string time_beside_speed(const Model& model, double latency);
SpeedUnit flops_unit(const Model& model);  // of a chart of arithmetic against intensity
double geomean_speed_before(const Model& model);
double geomean_speed_after(const Model& model);
double geomean_fraction_before(const Model& model);  // of the roofline bound
double geomean_fraction_after(const Model& model);
std::string machine_name(const Model& model);

// What the targets rest on, as the manifest says: one sentence per shape with the fact and its source; empty before
// that was written.
std::vector<std::string> target_facts(const Model& model);

}  // namespace ridge::report
