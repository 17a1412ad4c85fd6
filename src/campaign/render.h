// Every file of a campaign as a pure function of its State. Deterministic, so that `ridge campaign verify` can render
// again and compare; nothing here is ever parsed back. Sections and columns are those that people's tools read.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "campaign/columns.h"
#include "campaign/state.h"

namespace ridge::campaign {

// path inside the campaign -> content
using FileMap = std::map<std::string, std::string>;
// Files of rounds with an index below `first_round` are left out: a closed round's files never change.
FileMap render_campaign(const State& state, std::size_t first_round = 0);

// Whether the campaign began with this rendering; an earlier one may have left other files of the same journal.
bool rendered_here(const State& state);

// The manifest as it stands: with representative_shapes filled in and budgets as extended.
record::CampaignSpec manifest_of(const State& state);

// Grows by whole blocks only: the new content must begin with the old one.
bool is_append_only(const std::string& path);

// Writes what differs. An append-only file that was edited is first kept as "<path>.edited".
Status write_campaign_files(const std::filesystem::path& directory, const FileMap& files);

// The parts, one per file format.
std::string render_optimize_log(const State& state);  // logs/optimize.md
// logs/performance_trend.md. For the viewer: its header and no other column, rounds as integers, the three words that
// it knows of a round, and no round that was not measured, which it would draw at zero.
enum class TrendReader { kPeople, kViewer };
std::string render_trend(const State& state, Rate rate, TrendReader reader = TrendReader::kPeople);
// logs/cost.md; `phase` names what an event ended, null: the event's own name does.
using PhaseOf = std::string_view (*)(record::EventKind kind);
std::string render_cost(const State& state, PhaseOf phase = nullptr);
std::string render_baseline_summary(const State& state);  // rounds/round-1/summary.md
std::string render_round_summary(const State& state, const Round& round);
std::string render_benchmark(const record::CampaignSpec& spec, const std::vector<record::Case>& cases,
                             const record::Evaluation& evaluation, const record::Evaluation& baseline);
std::string render_ineffective(const State& state);  // verified_ineffective.jsonl

// A text that fits a Markdown table cell: one line, no "|".
std::string cell(std::string_view text);
// "4.2000 TFLOPS (geomean)" of measured points; of a project, what its primary metric says.
std::string aggregate_text(const State& state, const std::vector<record::RooflinePoint>& points);
// What a fraction of the roofline is of: "the measured ceiling", or what a project declares.
std::string_view ceiling_words(const State& state);
// "2026-11-22 14:05" of a time stamp.
std::string minute(const std::string& time);
// The points of the baseline as measured.
std::vector<record::RooflinePoint> baseline_points(const State& state);
// The points of a round's candidate as measured; empty when it was not.
std::vector<record::RooflinePoint> points_of(const State& state, const Round& round);
std::string file_list(const record::Candidate& candidate);
// The state of a closed round as the files of other tools spell it: "ACCEPTED", "NOT MEASURED"; `rolled_back` is their
// word for the one that they do not agree on.
std::string state_word(const Round& round, const char* rolled_back);
// "full", "quick": what a round was decided on.
std::string level_of(const Round& round);

}  // namespace ridge::campaign
