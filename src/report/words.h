// The sentences of a report, in plain text, so that all formats say the same. Renderers escape them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/report.h"

namespace ridge::report {

using Facts = std::vector<std::pair<std::string, std::string>>;

// Where the campaign stands: "Finished: ...", "Paused: ...".
std::string state_words(const Model& model, std::string_view pause_note);
std::string budget_words(const record::BudgetChange& change);
std::string termination_words(std::string_view condition);
std::string outcome_words(record::Outcome outcome);

// One line a newcomer understands: "gemm on X: 8.91× as fast".
std::string headline(const Model& model);
// The paragraph under it.
std::string summary(const Model& model);
// The figures of the first screen: name, value.
Facts headline_facts(const Model& model);
// The chance that any accepted round is not a real gain, and how much of the budget is used.
std::string error_statement(const Model& model);
std::string total_words(const Model& model);
// "13 of 14 sessions counted, E = 2913 of the 2400 needed".
std::string evidence_words(const record::ReportRound& round);
std::string rules_words(const Model& model);  // how many rules hold, and which were waived
// The gates that stopped a round, or that let it through.
std::string gates_words(const record::ReportRound& round);
// "MR = 6, NR = 16; kernel.cpp", or "" when nothing differs.
std::string change_words(const record::ReportRound& round);
std::string expected_words(const record::ReportRound& round);
std::string measured_words(const record::ReportRound& round);
// "−1.8 % when screened": what a card shows beside its title.
std::string result_words(const record::ReportRound& round);
// Whether and why a session counts: "counted", "screening, not counted", "voided: ...".
std::string session_words(const record::SessionRatios& session);
std::string activity_words(std::string_view activity);
std::string noise_words(const Model& model);

// Name and explanation.
Facts check_commands();
Facts protocol_words(const Model& model);
std::vector<std::string> not_claimed(const Model& model);
const Facts& glossary();

std::string short_id(std::string_view id);              // the first 12 digits
double speed_before(const record::ReportShape& shape);  // FLOP/s of the baseline; NaN when unknown
double speed_after(const record::ReportShape& shape);
double geomean_speed_before(const Model& model);
double geomean_speed_after(const Model& model);
double geomean_fraction_before(const Model& model);  // of the roofline bound
double geomean_fraction_after(const Model& model);
std::string machine_name(const Model& model);

// What the targets rest on, as the manifest says: one sentence per shape with the fact and its source; empty before
// that was written.
std::vector<std::string> target_facts(const Model& model);

}  // namespace ridge::report
