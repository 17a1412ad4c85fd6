#include "campaign/verify.h"

#include <algorithm>
#include <set>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "campaign/decide.h"
#include "campaign/files.h"
#include "campaign/iterations.h"
#include "campaign/lineage.h"
#include "campaign/plausible.h"
#include "campaign/render.h"
#include "campaign/replica.h"
#include "campaign/state.h"
#include "record/json.h"
#include "report/report.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

std::string first_difference(std::string_view found, std::string_view wanted) {
  const auto [a, b] = std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end());
  const auto line = 1 + std::count(found.begin(), a, '\n');
  const auto start = static_cast<std::size_t>(a - found.begin());
  const auto begin = found.rfind('\n', start == 0 ? 0 : start - 1);
  const std::size_t from = begin == std::string_view::npos || begin >= start ? 0 : begin + 1;
  const std::string_view text = found.substr(from, std::min<std::size_t>(found.find('\n', start), found.size()) - from);
  if (b == wanted.end()) return fmt::format("line {}: text after the end: \"{}\"", line, text.substr(0, 80));
  return fmt::format("line {}: \"{}\"", line, text.substr(0, 80));
}

// Digests of everything each path was ever rendered as.
std::map<std::string, std::set<std::string>> renderings(const std::vector<record::Event>& events) {
  std::map<std::string, std::set<std::string>> all;
  State state;
  for (const record::Event& event : events) {
    if (!apply(state, event)) break;
    for (const auto& [path, content] : render_campaign(state)) all[path].insert(sha256(content));
  }
  return all;
}

// What the journal says that a file was when the report was written; empty: nothing.
std::string digest_in(const record::Reported& reported, const std::string& path) {
  const auto found = reported.files.find(path);
  return found == reported.files.end() ? std::string() : found->second;
}

void check_files(const fs::path& directory, const std::vector<record::Event>& events, const State& state,
                 VerifyReport& report) {
  std::map<std::string, std::set<std::string>> earlier;  // only if something differs: it costs a rendering per event
  for (const auto& [path, content] : render_campaign(state)) {
    ++report.files;
    const Result<std::string> found = read_file(directory / path);
    if (found && *found == content) continue;
    const bool finished = state.reported.has_value();
    const std::string said = finished ? digest_in(*state.reported, path) : std::string();
    const bool otherwise = !rendered_here(state) && !said.empty() && said != sha256(content);
    if (otherwise && (!found || sha256(*found) == said)) {
      ++report.otherwise;
      report.rendered += found ? 0 : 1;
      continue;
    }
    if (found && earlier.empty()) earlier = renderings(events);
    if (!found) {
      // The first rendering of a new file may not have happened yet when the process was killed.
      if (!finished)
        report.findings.push_back({path, FileFinding::Kind::kStale, "not written yet"});
      else if (!said.empty() && said != sha256(content))
        report.findings.push_back({path, FileFinding::Kind::kMissing,
                                   fmt::format("the journal says that it was {}, and it gives {} here",
                                               said.substr(0, 12), sha256(content).substr(0, 12))});
      else
        ++report.rendered;
      continue;
    }
    const bool stale = !finished && earlier[path].contains(sha256(*found));
    const bool unsure = !finished && !rendered_here(state);  // no digest says what the earlier version rendered
    report.findings.push_back({path,
                               stale    ? FileFinding::Kind::kStale
                               : unsure ? FileFinding::Kind::kEarlier
                                        : FileFinding::Kind::kForged,
                               first_difference(*found, content)});
  }
}

// A record that is not there yet is behind; any other difference was made by hand: what an earlier version wrote of a
// round is known.
void check_memory(const fs::path& directory, const State& state, VerifyReport& report) {
  for (auto& [path, why] : forged_memory(state, directory, report.files)) {
    const bool missing = !path.ends_with(".json");
    if (missing && state.reported) {
      ++report.files;
      ++report.rendered;
    } else {
      report.findings.push_back({path, missing ? FileFinding::Kind::kStale : FileFinding::Kind::kForged, why});
    }
  }
}

// Of an ended campaign the objects may have been taken away: the journal gives them again.
void check_snapshots(const fs::path& directory, const State& state, VerifyReport& report) {
  std::map<std::string, std::string> objects;
  const auto add = [&](const std::string& digest, const record::Candidate& candidate) {
    ++report.snapshots;
    auto stored = objects_of(tree_of(candidate));
    if (!stored.contains(digest))
      report.findings.push_back({"objects/" + digest, FileFinding::Kind::kSnapshot, "is not the accepted candidate"});
    objects.merge(stored);
  };
  if (state.baseline_committed) add(state.baseline_committed->snapshot, state.baseline->candidate);
  for (const Round& round : state.rounds) {
    if (round.committed) add(round.committed->snapshot, round.last().evaluated->candidate);
  }
  for (const auto& [name, content] : objects) {
    const Result<std::string> found = read_file(directory / "objects" / name);
    if (found && *found == content) continue;
    if (!found && found.error().code == ErrorCode::kNotFound && state.reported) continue;
    report.findings.push_back({"objects/" + name, FileFinding::Kind::kSnapshot,
                               found ? first_difference(*found, content) : found.error().message});
  }
}

// The pages that were drawn when the campaign ended, or since: an event may follow (a pause that was asked for late).
void check_report(const fs::path& directory, const record::JournalText& journal, const State& state,
                  VerifyReport& report) {
  if (!state.reported) return;
  std::map<std::string, std::set<std::string>> drawn;  // digests by path
  const std::span<const record::Event> events(journal.events);
  for (std::size_t count = events.size(); count > 0; --count) {
    for (const std::size_t torn : std::set<std::size_t>{0, journal.torn_bytes}) {
      const Result<report::Model> model = report::fold(events.first(count), torn);
      if (!model) return;
      for (const auto& [path, content] : report::files(*model)) drawn[path].insert(sha256(content));
    }
    if (events[count - 1].kind == record::EventKind::kReported) break;
  }
  for (const auto& [path, digests] : drawn) {
    ++report.files;
    const Result<std::string> found = read_file(directory / path);
    if (!found) {
      ++report.rendered;
    } else if (!digests.contains(sha256(*found))) {
      report.findings.push_back({path, rendered_here(state) ? FileFinding::Kind::kForged : FileFinding::Kind::kEarlier,
                                 "is not the report of this journal (ridge campaign report writes it again)"});
    }
  }
}

std::string kind_text(FileFinding::Kind kind) {
  switch (kind) {
    case FileFinding::Kind::kStale: return "behind the journal (resuming brings it up to date)";
    case FileFinding::Kind::kEarlier: return "is of an earlier version of ridge, or was changed by hand";
    case FileFinding::Kind::kForged: return "was changed by hand";
    case FileFinding::Kind::kMissing: return "is missing and cannot be rendered";
    case FileFinding::Kind::kSamples: return "holds samples that no measurement gives";
    case FileFinding::Kind::kSnapshot: return "does not hold what the journal says";
  }
  return {};
}

void compare_decision(const record::Decision& stored, const record::Decision& again, ReplayReport& report) {
  ++report.decisions;
  if (record::to_line(stored) == record::to_line(again)) return;
  std::string what = fmt::format("round {}: the stored decision ({}) is not what its samples give ({})", stored.round,
                                 stored.accepted ? "accepted" : "rejected", again.accepted ? "accepted" : "rejected");
  if (stored.reason != again.reason) what += fmt::format(": \"{}\" against \"{}\"", stored.reason, again.reason);
  report.differences.push_back(std::move(what));
}

Result<record::JournalText> journal_of(const fs::path& directory) {
  Result<record::JournalText> journal = record::read_journal(directory / kJournalFile);
  if (journal || journal.error().code != ErrorCode::kNotFound) return journal;
  return with_hint(make_error(ErrorCode::kNotFound, "{} holds no campaign", directory.string()),
                   "start one with `ridge optimize OP`, or name the folder of an existing one");
}

}  // namespace

bool is_offence(const FileFinding& finding) {
  if (finding.kind == FileFinding::Kind::kEarlier) return finding.path.starts_with("report/");
  return finding.kind != FileFinding::Kind::kStale;
}

bool VerifyReport::ok() const { return std::none_of(findings.begin(), findings.end(), is_offence); }

std::string VerifyReport::text() const {
  std::string lines = fmt::format("{} events, {} files ({} rendered), {} snapshots; last hash {}\n", events, files,
                                  rendered, snapshots, last_hash);
  if (otherwise > 0)
    lines += fmt::format(
        "{} files were rendered otherwise by the earlier version of ridge that wrote this record, as the digests in "
        "its "
        "journal say; what it proves is in the journal\n",
        otherwise);
  if (torn_bytes > 0)
    lines += fmt::format("journal.jsonl: {} bytes of an unfinished last line, never counted\n", torn_bytes);
  for (const FileFinding& finding : findings) {
    lines += fmt::format("{}: {}: {}\n", finding.path, kind_text(finding.kind), finding.detail);
  }
  return lines;
}

Result<VerifyReport> verify_campaign(const fs::path& directory) {
  RIDGE_TRY(journal, journal_of(directory));
  RIDGE_TRY(state, fold(journal.events));
  VerifyReport report;
  report.events = state.events;
  report.last_hash = state.last_hash;
  report.torn_bytes = journal.torn_bytes;
  check_files(directory, journal.events, state, report);
  check_memory(directory, state, report);
  check_snapshots(directory, state, report);
  check_report(directory, journal, state, report);
  for (auto& [line, why] : implausible_lines(journal.events, report.sessions, report.unstamped)) {
    report.findings.push_back({fmt::format("{}: line {}", kJournalFile, line), FileFinding::Kind::kSamples, why});
  }
  return report;
}

Result<ReplayReport> replay_events(std::span<const record::Event> events) {
  ReplayReport report;
  State state;
  for (const record::Event& event : events) {
    if (event.kind == record::EventKind::kDecided && state.open_round() != nullptr) {
      RIDGE_TRY(stored, record::from_json<record::Decision>(event.payload));
      compare_decision(stored, decide(state), report);
    }
    if (event.kind == record::EventKind::kFinal && state.created) {
      RIDGE_TRY(stored, record::from_json<record::Final>(event.payload));
      const std::vector<record::Effect> again = final_effects(stored.evaluation, labels_of(state.spec().target_cases),
                                                              guard_rule(state.spec().protocol, state.calibration));
      if (record::to_json(stored.effects) != record::to_json(again)) {
        report.differences.push_back("the final effects are not what their samples give");
      }
    }
    if (event.kind == record::EventKind::kReplicated && state.final_measurement) {
      RIDGE_TRY(stored, record::from_json<record::Replicated>(event.payload));
      if (std::string why = replica_objection(state, stored); !why.empty())
        report.differences.push_back(std::move(why));
    }
    RIDGE_CHECK_OK(apply(state, event));
  }
  return report;
}

Result<ReplayReport> replay_campaign(const fs::path& directory) {
  RIDGE_TRY(journal, journal_of(directory));
  return replay_events(journal.events);
}

}  // namespace ridge::campaign
