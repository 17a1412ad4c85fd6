#include "campaign/advice.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "hardware/spec.h"
#include "record/backend.h"

namespace ridge::campaign {
namespace {

// "Blackwell Ultra" is blackwell-ultra.
std::string dashed(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    out += std::isalnum(u) != 0 || c == '_' || c == '.' ? static_cast<char>(std::tolower(u)) : '-';
  }
  return out;
}

// Whether a product's name begins with a word of the device's: "H100 SXM" and nvidia-h100-80gb-hbm3.
bool named_alike(const hardware::Spec& spec, const std::string& device) {
  const std::string first = dashed(spec.name.substr(0, spec.name.find(' ')));
  return ("-" + device + "-").find("-" + first + "-") != std::string::npos;
}

bool names(const Round& round, const std::string& id) {
  const record::Hypothesis& hypothesis = round.last().proposal.hypothesis;
  return hypothesis.mechanism == id || std::ranges::count(hypothesis.evidence, id) > 0;
}

}  // namespace

std::vector<std::string> device_words(const std::filesystem::path& data, std::string_view device,
                                      std::string_view target, std::string_view backend) {
  std::vector<std::string> words;
  if (!device.empty()) words.push_back(dashed(device));
  if (record::runs_on_host(backend)) words.emplace_back("x86");
  if (data.empty() || words.empty() || words.back() == "x86") return words;
  const Result<hardware::Database> database = hardware::Database::open(data);
  if (!database) return words;  // a damaged database of hardware is for `ridge spec lint` to tell
  for (const hardware::Spec& spec : database->specs()) {
    const bool same = target.empty() ? named_alike(spec, words.front()) : spec.target == target;
    const std::string word = dashed(spec.architecture);
    if (same && std::ranges::count(words, word) == 0) words.push_back(word);
    if (same && !spec.is_gpu() && std::ranges::count(words, "x86") == 0) words.emplace_back("x86");
  }
  return words;
}

knowledge::Route route_of(const State& state, const std::filesystem::path& data) {
  const record::CampaignSpec& spec = state.spec();
  return {spec.op,
          device_words(data, spec.gpu, state.prepared ? state.prepared->environment.fact("gpu.arch") : std::string(),
                       spec.backend),
          {spec.language, spec.backend},
          {}};
}

std::string bottleneck_of(const State& state, const std::optional<record::ProfileReport>& profile) {
  if (profile && profile->bottleneck != record::Bottleneck::kUnknown)
    return std::string(record::name_of(profile->bottleneck));
  const std::vector<record::RooflinePoint>& points = state.incumbent.roofline;
  const auto worst = std::ranges::min_element(points, {}, &record::RooflinePoint::fraction);
  if (worst == points.end()) return {};
  return worst->bound == "memory" ? "memory" : "compute";
}

std::vector<record::KnowledgeEntry> advice(const State& state, const std::vector<record::KnowledgeEntry>& entries,
                                           const knowledge::Route& route, std::size_t most) {
  std::vector<record::KnowledgeEntry> found = knowledge::routed(entries, route);
  if (found.size() > most) found.resize(most);
  for (record::KnowledgeEntry& entry : found) {
    for (const Round* round : state.known_before(state.next_round())) {
      if (!names(*round, entry.id)) continue;
      const record::RoundSummary summary = summarise(*round);
      entry.tried.push_back(fmt::format("round {} ({}): {}, {:.3f}x", summary.round, summary.hypothesis.title,
                                        record::name_of(summary.state), summary.suite_ratio));
    }
  }
  return found;
}

}  // namespace ridge::campaign
