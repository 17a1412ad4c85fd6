// The report of a campaign, from its journal alone: one HTML page, Markdown and JSON with the same facts.
//
//   journal.jsonl --load--> Model --html, markdown, json, status_text--> text
//
// Nothing here sees a live object: the report can be made years later from the folder. The same journal gives the same
// bytes: no clock, no locale, no random number. Every text of a proposer or a tool is untrusted and is escaped.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "record/journal.h"
#include "record/report.h"
#include "ridge/result.h"

namespace ridge::journal {
struct State;
}

namespace ridge::report {

using Model = record::Report;

// Reads and verifies <campaign>/journal.jsonl and folds it. An error names the line, or the event and the key.
Result<Model> load(const std::filesystem::path& campaign);

// The same for events already read. `torn_bytes`: unfinished bytes at the end of the file, which never counted.
Result<Model> fold(std::span<const record::Event> events, std::size_t torn_bytes = 0);
// The same for a state that events were folded into.
Model draw(const journal::State& state, std::size_t torn_bytes = 0);

// One self-contained page: style and drawings inline, nothing fetched; its one script copies commands.
std::string html(const Model& model);
std::string markdown(const Model& model);
// The Model itself; indented, ends with a newline.
std::string json(const Model& model);
// A screen of plain text: state, headline, time, the last rounds. What `ridge campaign status` prints.
std::string status_text(const Model& model, std::size_t last_rounds = 10);

// Paths inside the campaign folder.
inline constexpr std::string_view kHtmlPath = "report/REPORT.html";
inline constexpr std::string_view kMarkdownPath = "report/REPORT.md";
inline constexpr std::string_view kJsonPath = "report/report.json";

// The three files, by path.
std::map<std::string, std::string> files(const Model& model);
// Writes them durably.
Status write(const std::filesystem::path& campaign, const Model& model);

}  // namespace ridge::report
