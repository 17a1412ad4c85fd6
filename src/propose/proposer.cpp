#include "propose/proposer.h"

#include "base/error.h"
#include "propose/proposers.h"

namespace ridge::propose {
namespace {

using Made = Result<std::unique_ptr<Proposer>>;

struct Entry {
  ProposerInfo info;
  Made (*make)(std::string_view argument, const ProposerOptions& options);
};

// Adding a proposer is one file and one line here.
const std::vector<Entry>& table() {
  static const std::vector<Entry> entries = {
      {{"search", "[SEED]", "declared tunables, a small cost model and what earlier rounds taught; no language model"},
       make_search},
      {{"replay", "JOURNAL", "proposes again what a recorded campaign proposed, round by round"}, make_replay},
      {{"command", "CMD", "any program: one JSON request on its standard input, one JSON answer on its output"},
       make_agent},
      {{"manual", "", "a person: the campaign pauses for `ridge campaign propose`, which states one round"},
       make_manual},
  };
  return entries;
}

bool may_be_left_out(const ProposerInfo& info) { return info.argument.empty() || info.argument.starts_with('['); }

std::string known_specs() {
  std::string text;
  for (const Entry& entry : table()) text += (text.empty() ? "" : " | ") + proposer_usage(entry.info);
  return text;
}

}  // namespace

std::string proposer_usage(const ProposerInfo& info) {
  if (info.argument.empty()) return std::string(info.name);
  if (!info.argument.starts_with('[')) return fmt::format("{}:{}", info.name, info.argument);
  return fmt::format("{}[:{}", info.name, info.argument.substr(1));
}

std::vector<ProposerInfo> list_proposers() {
  std::vector<ProposerInfo> infos;
  for (const Entry& entry : table()) infos.push_back(entry.info);
  return infos;
}

Result<std::unique_ptr<Proposer>> make_proposer(std::string_view spec, const ProposerOptions& options) {
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const std::string_view argument = colon == std::string_view::npos ? std::string_view() : spec.substr(colon + 1);
  for (const Entry& entry : table()) {
    if (entry.info.name != name) continue;
    const bool lacks = argument.empty() && (colon != std::string_view::npos || !may_be_left_out(entry.info));
    if (lacks || (entry.info.argument.empty() && !argument.empty())) {
      return with_hint(invalid("proposer \"{}\" {}", spec, lacks ? "needs an argument" : "takes no argument"),
                       fmt::format("write --proposer {}", proposer_usage(entry.info)));
    }
    return entry.make(argument, options);
  }
  return with_hint(invalid("unknown proposer \"{}\"", spec), fmt::format("known are {}", known_specs()));
}

}  // namespace ridge::propose
