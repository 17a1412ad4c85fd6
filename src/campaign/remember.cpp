#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/files.h"
#include "campaign/iterations.h"
#include "knowledge/memory.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

std::string baseline_candidate(const record::Iteration& iteration) {
  for (const record::IterationReference& one : iteration.references) {
    if (one.source_type == "candidate" && one.description == "baseline") return one.path_or_url;
  }
  return {};
}

// A workspace whose v0 is this very kernel needs no second record of it.
bool baseline_is_there(const std::vector<record::Iteration>& all, const State& state) {
  const std::string id = state.baseline->candidate.id();
  return std::any_of(all.begin(), all.end(), [&](const record::Iteration& it) {
    return round_of(it, state.spec().id) == 1 || baseline_candidate(it) == id;
  });
}

bool is_there(const std::vector<record::Iteration>& all, const std::string& campaign, std::int64_t round) {
  return std::any_of(all.begin(), all.end(),
                     [&](const record::Iteration& it) { return round_of(it, campaign) == round; });
}

// Everything but what a person may change about a record: its mask and its place.
std::string content_of(record::Iteration iteration) {
  iteration.masked = false;
  iteration.version.clear();
  return record::to_line(iteration);
}

// Versions of the records in a folder, in ascending order.
std::set<std::int64_t> versions_in(const fs::path& folder) {
  std::set<std::int64_t> versions;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::int64_t version = 0;
    const auto [rest, problem] = std::from_chars(name.data() + 1, name.data() + name.size(), version);
    if (problem == std::errc() && name.front() == 'v' && std::string_view(rest) == ".json") versions.insert(version);
  }
  return versions;
}

}  // namespace

std::int64_t round_of(const record::Iteration& iteration, const std::string& campaign) {
  constexpr std::string_view kRound = "round ";
  for (const record::IterationReference& one : iteration.references) {
    if (one.source_type != "campaign" || one.path_or_url != campaign || !one.description.starts_with(kRound)) continue;
    std::int64_t number = 0;
    std::from_chars(one.description.data() + kRound.size(), one.description.data() + one.description.size(), number);
    return number;
  }
  return 0;
}

fs::path memory_root(const State& state, const fs::path& directory) {
  const auto found = state.spec().extra.find(kWorkspaceKey);
  if (found == state.spec().extra.end()) return directory;
  const fs::path named = YAML::Load(found->second).as<std::string>("");
  return named.is_absolute() ? named : directory / named;
}

Status remember(const State& state, const knowledge::Memory& memory, std::size_t first_round, Clock& clock) {
  if (!state.baseline_committed) return ok_status();
  std::vector<record::Iteration> all;
  if (first_round == 0) {
    RIDGE_TRY(found, memory.list(true));
    all = std::move(found);
  }
  const auto add = [&](const record::Iteration& iteration) -> Status {
    const Result<record::Iteration> made = memory.create(iteration, clock);
    return made ? ok_status() : Status(made.error());
  };
  if (first_round == 0 && !baseline_is_there(all, state)) RIDGE_CHECK_OK(add(iteration_of_baseline(state)));
  for (std::size_t i = first_round; i < state.rounds.size(); ++i) {
    const Round& round = state.rounds[i];
    if (!round.closed() || is_there(all, state.spec().id, round.number)) continue;
    RIDGE_CHECK_OK(add(iteration_of(state, round)));
  }
  return ok_status();
}

Result<Recalled> recall(const State& state, const knowledge::Memory& memory) {
  RIDGE_TRY(all, memory.list(true));
  RIDGE_TRY(best, memory.best());
  Recalled recalled;
  for (record::Iteration& iteration : all) {
    if (!iteration.masked) {
      give_own_state(iteration);
      recalled.visible.push_back(std::move(iteration));
      continue;
    }
    recalled.masked.versions.push_back(iteration.version);
    if (const std::int64_t round = round_of(iteration, state.spec().id); round > 1)
      recalled.masked.rounds.push_back(round);
  }
  while (recalled.visible.size() > kMostRecalled) {
    const bool second_is_best = recalled.visible[1].version == best;
    recalled.visible.erase(recalled.visible.begin() + (second_is_best ? 2 : 1));
  }
  return recalled;
}

FileMap render_memory(const State& state) {
  FileMap files;
  if (!state.baseline_committed || state.spec().extra.contains(kWorkspaceKey)) return files;
  const auto add = [&](record::Iteration iteration) {
    iteration.version = fmt::format("v{}", files.size());
    files[fmt::format("memory/{}.json", iteration.version)] = record::to_pretty(iteration);
  };
  add(iteration_of_baseline(state));
  for (const Round& round : state.rounds) {
    if (round.closed()) add(iteration_of(state, round));
  }
  return files;
}

std::vector<ForgedRecord> forged_memory(const State& state, const fs::path& directory, std::int64_t& checked) {
  std::vector<ForgedRecord> wrong;
  if (!state.baseline_committed || state.spec().extra.contains(kWorkspaceKey)) return wrong;
  std::map<std::int64_t, std::set<std::string>> wanted = {{1, {content_of(iteration_of_baseline(state))}}};
  const bool first_rendering = state.prepared->rendering < 2;
  for (const Round& round : state.rounds) {
    if (!round.closed()) continue;
    wanted[round.number].insert(content_of(iteration_of(state, round)));
    if (first_rendering) wanted[round.number].insert(content_of(first_rendering_of(state, round)));
  }
  // One by one: a damaged record is one finding.
  std::size_t damaged = 0;  // their rounds cannot be told
  const Result<knowledge::Memory> memory = knowledge::Memory::open(directory);
  for (const std::int64_t version : versions_in(directory / "memory")) {
    const std::string path = fmt::format("memory/v{}.json", version);
    if (!memory) return {{path, memory.error().message}};
    const Result<record::Iteration> found = memory->read(fmt::format("v{}", version), true);
    ++checked;
    if (!found) {
      wrong.push_back({path, found.error().message});
      ++damaged;
      continue;
    }
    const auto expected = wanted.find(round_of(*found, state.spec().id));
    const bool own = expected != wanted.end();
    // Strictly: what another tool may add to a workspace's record is a change of a campaign's own.
    const Result<std::string> text = read_file(directory / path);
    const bool as_written = text && record::parse_record<record::Iteration>(*text, path);
    if (own && !(as_written && expected->second.contains(content_of(*found))))
      wrong.push_back({path, "is not what the journal gives"});
    if (own) wanted.erase(expected);
  }
  if (wanted.size() <= damaged) return wrong;
  for (const auto& [round, contents] : wanted)
    wrong.push_back({fmt::format("memory (round {})", round), "no record of this round"});
  return wrong;
}

}  // namespace ridge::campaign
